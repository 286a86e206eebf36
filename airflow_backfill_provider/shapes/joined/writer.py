"""Writes a view of a join on Spark: all rows of the leads that an epoch affects are joined anew and replaced."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import cast

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.unit_work import UNIT, WHOLE, UnitWork
from airflow_backfill_provider.core.scan.table_version import TableVersions
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity
from airflow_backfill_provider.shapes.base import ViewWriter, WriterContext
from airflow_backfill_provider.shapes.changes import Changes
from airflow_backfill_provider.shapes.joined.changed_leads import AffectedLeads, affected_leads, changed_leads
from airflow_backfill_provider.shapes.joined.join_query import JoinQuery
from airflow_backfill_provider.shapes.row.repair import keys_to_replace, rows_to_write
from airflow_backfill_provider.shapes.view_checks import require_lasting, require_possible_columns
from airflow_backfill_provider.sources.shared.by_key import column, without_keys
from airflow_backfill_provider.sources.shared.kept_rows import KEPT
from airflow_backfill_provider.spark.stamps import CHANGES, REPAIR
from airflow_backfill_provider.spark.whole_view import replace_view


class JoinWriter(ViewWriter):
    """
    Writes one job's view.

    :param context: the objects that the writer works with.
    """

    def __init__(self, context: WriterContext) -> None:
        self._context = context
        self._rows = context.job_rows
        self._query = cast("JoinQuery", context.query.query)

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

    def keys(self, view: DataFrame) -> DataFrame:
        """Return the keys of the leads that the view's rows come from."""
        return view.select(*map(column, self._query.unit_outputs)).distinct().toDF(*self._rows.key.names)

    def write_changes(
        self,
        changes: Changes,
        identity: ViewIdentity,
        barrier: Barrier,
        *,
        repairs: bool,
        since: TableVersions | None,
    ) -> UnitWork | None:
        """Replace all rows of the affected leads."""
        del repairs, since
        whole = self._context.others_at_end(barrier)
        with self._affected(changes, whole, barrier) as affected:
            fresh = self._context.run(affected.rows, whole)
            number = self._replace(fresh, affected.keys, CHANGES, identity, barrier)
            read = None if affected.are_looked_up else 0
            return None if number is None else UnitWork(technique=UNIT, units=number, rows_read=read)

    def write_part(
        self, rows: DataFrame, part: int, identity: ViewIdentity, barrier: Barrier, *, since: TableVersions | None
    ) -> None:
        """Append the rows that a part of the lead's history gives."""
        del since
        fresh = self._context.run(rows, self._context.others_at_end(barrier))
        self._context.view.append(fresh, part, identity, barrier)

    def repair(
        self, changes: Changes | None, identity: ViewIdentity, barrier: Barrier, *, since: TableVersions | None
    ) -> UnitWork | None:
        """Replace all rows of the chosen leads and of those that the changes affect."""
        del since
        context, names, view = self._context, self._rows.key.names, self._context.view
        chosen = rows_to_write(context.spark, self._rows, barrier)
        keys = keys_to_replace(
            context.spark, self._rows, barrier, chosen, view.table.read(), self._query.unit_outputs
        ).toDF(*names)
        keys, whole, rows = keys.persist(KEPT), self._context.others_at_end(barrier), self._used(chosen)
        try:
            with ExitStack() as opened:
                every = keys
                if changes is not None:
                    affected = opened.enter_context(self._affected(changes, whole, barrier))
                    # What is chosen is read as of the window's end, so it has these changes.
                    rows = rows.unionAll(without_keys(affected.rows, keys, names))
                    every = keys.unionAll(affected.keys).distinct()
                number = self._replace(self._context.run(rows, whole), every, REPAIR, identity, barrier)
                return None if number is None else UnitWork(technique=UNIT, units=number)
        finally:
            keys.unpersist()

    def write_whole(self, part: str, identity: ViewIdentity, barrier: Barrier) -> UnitWork:
        """Replace all rows of the view by the query over all rows of all upstreams."""
        rows = self._context.read_set(barrier, with_chunk=False)
        fresh = self._context.run(rows, self._context.others_at_end(barrier))
        replace_view(self._context.view, fresh, part, identity, barrier)
        return UnitWork(technique=WHOLE)

    def _affected(
        self, changes: Changes, whole: Mapping[str, DataFrame], barrier: Barrier
    ) -> AbstractContextManager[AffectedLeads]:
        """
        Find the leads that changes affect.

        :param whole: the upstreams that are read whole, as of the ends of their windows.
        """
        (lead,) = changed_leads(self._context, self._query, changes, barrier).values()
        return affected_leads(lead, changes.images, whole)

    def _replace(
        self, fresh: DataFrame, keys: DataFrame, part: str, identity: ViewIdentity, barrier: Barrier
    ) -> int | None:
        outputs = self._query.unit_outputs
        return self._context.view.replace_units(fresh, keys.toDF(*outputs), outputs, part, identity, barrier)

    def _used(self, rows: DataFrame) -> DataFrame:
        return rows.select(*map(column, self._rows.columns))
