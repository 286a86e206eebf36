"""Writes a view of a union on Spark: what branches give for affected rows of their leads is computed anew."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from functools import reduce
from typing import cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.unit_work import UNIT, WHOLE, UnitWork
from airflow_backfill_provider.core.scan.keys import KeyOrder
from airflow_backfill_provider.core.scan.table_version import TableVersions
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity
from airflow_backfill_provider.shapes.base import WriterContext
from airflow_backfill_provider.shapes.changes import Changes
from airflow_backfill_provider.shapes.joined.changed_leads import (
    AffectedLeads,
    affected_leads,
    changed_leads,
    read_leads,
)
from airflow_backfill_provider.shapes.leads_writer import LeadsWriter
from airflow_backfill_provider.shapes.united.query import UnionQuery
from airflow_backfill_provider.shapes.united.units import UnionUnits
from airflow_backfill_provider.shapes.view_checks import require_lasting, require_possible_columns
from airflow_backfill_provider.sources.shared.by_key import column, decoded_keys, with_keys
from airflow_backfill_provider.sources.shared.kept_rows import KEPT
from airflow_backfill_provider.spark.job_rows import JobRows
from airflow_backfill_provider.spark.stamps import CHANGES, REPAIR
from airflow_backfill_provider.spark.whole_view import replace_view


class UnionWriter(LeadsWriter):
    """
    Writes one job's view.

    :param context: the objects that the writer works with.
    """

    def __init__(self, context: WriterContext) -> None:
        self._context = context
        self._query = cast("UnionQuery", context.query.query)
        self._units = UnionUnits(self._query)
        self._leads: Mapping[str, JobRows] = {self._query.lead: context.job_rows, **context.further}

    @property
    def replaces_leads(self) -> bool:
        """Return that all rows of a changed lead are replaced."""
        return True

    def check(self, rows: DataFrame, table_properties: Mapping[str, str]) -> None:
        """Refuse columns that the view cannot have, and values that depend on the day."""
        named = (*self._query.parsed.words, *self._query.row_columns.hidden)
        require_possible_columns(self._context, self.schema(), table_properties, named)
        require_lasting(self._context, rows)

    def schema(self) -> StructType:
        """Return the view's columns."""
        return self._context.without_rows().schema

    def write_changes(
        self,
        changes: Changes,
        identity: ViewIdentity,
        barrier: Barrier,
        *,
        repairs: bool,
        since: TableVersions | None,
    ) -> UnitWork | None:
        """Replace what all branches give for the affected rows of their leads."""
        del repairs, since
        with ExitStack() as kept:
            affected = self._affected(changes, barrier, kept)
            rows = {name: found.rows for name, found in affected.items()}
            units = [self._units.of_keys(name, found.keys) for name, found in affected.items()]
            looked_up = any(found.are_looked_up for found in affected.values())
            number = self._replace(rows, reduce(DataFrame.unionAll, units), CHANGES, identity, barrier)
            return None if number is None else _work(number, None if looked_up else 0)

    def write_part_of_leads(
        self,
        rows: DataFrame,
        further: Mapping[str, DataFrame],
        part: int,
        identity: ViewIdentity,
        barrier: Barrier,
        *,
        since: TableVersions | None,
    ) -> None:
        """Append what the branches give for a part of the history of their leads."""
        del since
        self._context.view.append(self._united({self._query.lead: rows, **further}, barrier), part, identity, barrier)

    def repair(
        self, changes: Changes | None, identity: ViewIdentity, barrier: Barrier, *, since: TableVersions | None
    ) -> UnitWork | None:
        """Replace the chosen units, and what all branches give for the affected rows of their leads."""
        del since
        with ExitStack() as kept:
            affected = {} if changes is None else self._affected(changes, barrier, kept)
            chosen = self._chosen(barrier).persist(KEPT)
            kept.callback(chosen.unpersist)
            rows, units, read = {}, [chosen], read_leads(self._context, self._query, barrier)
            for name, lead in self._leads.items():
                # All branches of a lead are computed from the same rows, so their units are replaced together.
                keys = self._units.keys_of(name, chosen)
                if name in affected:
                    keys = keys.unionAll(affected[name].keys.select(*map(column, keys.columns))).distinct()
                keys = keys.persist(KEPT)
                kept.callback(keys.unpersist)
                rows[name] = with_keys(_used(lead, read[name]), keys, keys.columns)
                units.append(self._units.of_keys(name, keys))
            touched = reduce(DataFrame.unionAll, units).distinct()
            number = self._replace(rows, touched, REPAIR, identity, barrier)
            return None if number is None else _work(number, None)

    def write_whole(self, part: str, identity: ViewIdentity, barrier: Barrier) -> UnitWork:
        """Replace all rows of the view by the query over all rows of all upstreams."""
        fresh = self._united(read_leads(self._context, self._query, barrier), barrier)
        replace_view(self._context.view, fresh, part, identity, barrier)
        return UnitWork(technique=WHOLE)

    def _chosen(self, barrier: Barrier) -> DataFrame:
        """Return the units that a repair names, and all those of the vnodes that it names, foreign ones included."""
        context, outputs = self._context, self._units.outputs
        found = decoded_keys(context.spark, self._order, barrier.repair.units).toDF(*outputs)
        if barrier.repair.vnodes:
            every = context.view.table.read().select(*map(column, outputs))
            for name, read in read_leads(context, self._query, barrier).items():
                every = every.unionAll(self._units.of_keys(name, read))
            vnode = F.pmod(F.hash(*map(column, outputs)), F.lit(context.job.vnode_count))
            found = found.unionAll(every.filter(vnode.isin(list(barrier.repair.vnodes))))
        return found.distinct()

    @property
    def _order(self) -> KeyOrder:
        return self._query.unit_order

    def _affected(self, changes: Changes, barrier: Barrier, kept: ExitStack) -> Mapping[str, AffectedLeads]:
        """
        Find the affected rows of each lead.

        :param kept: what they are kept for.
        """
        ends = self._context.others_at_end(barrier)
        leads = changed_leads(self._context, self._query, changes, barrier)
        return {name: kept.enter_context(affected_leads(lead, changes.images, ends)) for name, lead in leads.items()}

    def _replace(
        self, rows: Mapping[str, DataFrame], units: DataFrame, part: str, identity: ViewIdentity, barrier: Barrier
    ) -> int | None:
        fresh = self._united(rows, barrier)
        return self._context.view.replace_units(fresh, units, self._units.outputs, part, identity, barrier)

    def _united(self, rows: Mapping[str, DataFrame], barrier: Barrier) -> DataFrame:
        """
        Return the view's rows of some rows of leads, over the tables that are read whole, as of their windows' ends.

        :param rows: the rows by the names of the leads; of those that are missing, none.
        """
        context = self._context
        found = {name: rows.get(name, lead.empty()) for name, lead in self._leads.items()}
        lead = found.pop(self._query.lead)
        return context.run(lead, context.others_at_end(barrier), found)


def _used(read: JobRows, rows: DataFrame) -> DataFrame:
    return rows.select(*map(column, read.columns))


def _work(units: int, rows_read: int | None) -> UnitWork:
    return UnitWork(technique=UNIT, units=units, rows_read=rows_read)
