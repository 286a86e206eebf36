"""Writes a view that is computed whole, on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.unit_work import WHOLE, UnitWork
from airflow_backfill_provider.core.scan.table_version import TableVersions
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity
from airflow_backfill_provider.shapes.base import ViewWriter, WriterContext
from airflow_backfill_provider.shapes.changes import Changes
from airflow_backfill_provider.shapes.full.query import FullQuery
from airflow_backfill_provider.shapes.full.several_query import FullQueryOverSeveral
from airflow_backfill_provider.shapes.group.unit_types import require_exact_texts
from airflow_backfill_provider.shapes.view_checks import require_lasting, require_possible_columns
from airflow_backfill_provider.spark.stamps import CHANGES, REPAIR
from airflow_backfill_provider.spark.whole_view import replace_view


class FullWriter(ViewWriter):
    """
    Writes one job's view.

    :param context: the objects that the writer works with.
    """

    def __init__(self, context: WriterContext) -> None:
        self._context = context
        self._rows = context.job_rows
        self._query = cast("FullQuery | FullQueryOverSeveral", context.query.query)

    def check(self, rows: DataFrame, table_properties: Mapping[str, str]) -> None:
        """Refuse columns that the view cannot have, and values that do not last."""
        schema = self.schema()
        require_possible_columns(self._context, schema, table_properties, self._query.words)
        if self._query.aggregates:
            require_exact_texts(schema)
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
    ) -> UnitWork:
        """Compute the whole view, whatever changed."""
        del changes, repairs, since
        return self.write_whole(CHANGES, identity, barrier)

    def write_part(
        self, rows: DataFrame, part: int, identity: ViewIdentity, barrier: Barrier, *, since: TableVersions | None
    ) -> None:
        """Append the query's rows over all of history, which is one part."""
        del since
        fresh = self._context.run(rows, self._context.others_at_end(barrier))
        # Once history is read, its last part has no rows; a query may give rows over nothing, and the view has them.
        self._context.view.append(fresh.limit(0) if barrier.read_before else fresh, part, identity, barrier)

    def repair(
        self, changes: Changes | None, identity: ViewIdentity, barrier: Barrier, *, since: TableVersions | None
    ) -> UnitWork:
        """Compute the whole view, whatever is to be repaired."""
        del changes, since
        return self.write_whole(REPAIR, identity, barrier)

    def write_whole(self, part: str, identity: ViewIdentity, barrier: Barrier) -> UnitWork:
        """Replace all rows of the view by the query over all rows of all upstreams."""
        read = self._context.read_set(barrier, with_chunk=False)
        fresh = self._context.run(read, self._context.others_at_end(barrier))
        replace_view(self._context.view, fresh, part, identity, barrier)
        return UnitWork(technique=WHOLE)
