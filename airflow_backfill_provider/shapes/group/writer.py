"""Writes a view of groups on Spark: the units that an epoch touches are computed anew and replaced."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.unit_work import WHOLE, UnitWork
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.scan.table_version import TableVersions
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity
from airflow_backfill_provider.shapes.changes import Changes
from airflow_backfill_provider.shapes.group.fold.reasons import NotFolded
from airflow_backfill_provider.shapes.group.folded_query import FoldedQuery
from airflow_backfill_provider.shapes.group.grouped_rows import GroupInput
from airflow_backfill_provider.shapes.group.repair import units_to_repair
from airflow_backfill_provider.shapes.group.slices import Slices
from airflow_backfill_provider.shapes.group.unit_types import require_exact_texts, require_unit_types
from airflow_backfill_provider.shapes.leads_writer import LeadsWriter
from airflow_backfill_provider.shapes.view_checks import require_lasting, require_possible_columns
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.sources.shared.kept_rows import KEPT
from airflow_backfill_provider.spark.stamps import CHANGES, REPAIR
from airflow_backfill_provider.spark.whole_view import replace_view

logger = logging.getLogger(__name__)


class SliceWriter(LeadsWriter):
    """
    Writes one job's view.

    :param rows: gives the rows that the query groups.
    """

    def __init__(self, rows: GroupInput) -> None:
        self._rows = rows
        self._context = rows.context
        self._query = rows.query
        self._slices = Slices(rows)

    @property
    def replaces_leads(self) -> bool:
        """Whether a changed key stands for all rows that have it."""
        return self._rows.relies_on_key

    def check(self, rows: DataFrame, table_properties: Mapping[str, str]) -> None:
        """Refuse columns that the view cannot have, units that cannot be told apart, and values that do not last."""
        result = self._rows.empty().groups()
        named = (*self._query.words, *self._slices.outputs)
        require_possible_columns(self._context, result.schema, table_properties, named)
        require_unit_types(result.schema, self._slices.outputs)
        if self._query.aggregates:
            require_exact_texts(result.schema)
        require_lasting(self._context, rows)
        if bool(result.limit(1).count()) is not self._query.is_global:
            raise InvalidJobError(
                "query: Spark groups its rows otherwise than its text shows; write GROUP BY with the columns' names"
            )
        self._slices.require_same(rows)

    def state(self) -> Mapping[str, str]:
        """Return the hidden columns of a fold; none if the query cannot be folded."""
        found = self._fold()
        if isinstance(found, FoldedQuery):
            return found.state
        logger.info("job %s: the groups that changes touch are computed anew: %s", self._context.job.name, found)
        return {}

    def schema(self) -> StructType:
        """Return the view's columns."""
        return self._rows.empty().groups().schema

    def placed_changes(self, changes: Changes, barrier: Barrier) -> AbstractContextManager[DataFrame]:
        """Give the net changes of the rows of the lead by their units."""
        return self._rows.placed_changes(changes, barrier)

    def write_changes(
        self,
        changes: Changes,
        identity: ViewIdentity,
        barrier: Barrier,
        *,
        repairs: bool,
        since: TableVersions | None,
    ) -> UnitWork | None:
        """Replace the units of the old and of the new images of the changed rows."""
        del repairs, since
        with self._rows.images(changes, barrier) as images:
            return self._replace(self._slices.touched(images), CHANGES, identity, barrier)

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
        """Append the groups of a part of history, each whole."""
        del since
        groups = self._rows.chunk(rows, further, part, barrier).groups()
        if self._query.is_global and barrier.read_before:
            # All of history was read before. An aggregate over the rest, which is nothing, would give a second row.
            groups = groups.limit(0)
        if outputs := self._slices.outputs_in(groups.schema):
            # So that later epochs need not read all of a file of the view.
            groups = groups.sortWithinPartitions(*map(column, outputs))
        self._context.view.append(groups, part, identity, barrier)

    def repair(
        self, changes: Changes | None, identity: ViewIdentity, barrier: Barrier, *, since: TableVersions | None
    ) -> UnitWork | None:
        """Replace the chosen units and those of the changes."""
        del since
        chosen = units_to_repair(self._rows, self._slices, barrier)
        if changes is None:
            return self._replace(chosen, REPAIR, identity, barrier)
        with self._rows.images(changes, barrier) as images:
            touched = chosen.unionAll(self._slices.touched(images)).distinct()
            return self._replace(touched, REPAIR, identity, barrier)

    def write_whole(self, part: str, identity: ViewIdentity, barrier: Barrier) -> UnitWork:
        """Replace all rows of the view by the query, with the state of a fold, over all rows of the upstream."""
        fresh = self._rows.read_set(barrier).groups()
        replace_view(self._context.view, fresh, part, identity, barrier)
        return UnitWork(technique=WHOLE)

    def _fold(self) -> FoldedQuery | NotFolded | InvalidJobError:
        """Return the query as a fold, or why it is none; Spark may refuse a text that it is cut into."""
        try:
            found = FoldedQuery.of(self._rows)
            return found if isinstance(found, NotFolded) else found.other_columns() or found
        except InvalidJobError as error:
            return error

    def _replace(self, touched: DataFrame, part: str, identity: ViewIdentity, barrier: Barrier) -> UnitWork | None:
        """Compute units anew, and replace them; each is found once, because several statements read them."""
        units = touched.persist(KEPT)
        try:
            fresh = self._slices.of_units(units, barrier)
            outputs = self._slices.outputs_in(fresh.schema)
            view = self._context.view
            number = view.replace_units(fresh, units.toDF(*outputs), outputs, part, identity, barrier)
            return None if number is None else UnitWork(technique=self._query.technique, units=number)
        finally:
            units.unpersist()
