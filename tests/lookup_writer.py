"""The Spark side of the shape of ``tests/several.py``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.scan.table_version import TableVersions
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity
from airflow_backfill_provider.shapes.base import ViewWriter, WriterContext
from airflow_backfill_provider.shapes.changes import Changes
from airflow_backfill_provider.spark.stamps import CHANGES, REPAIR

if TYPE_CHECKING:
    from tests.several import LookupQuery


class LookupWriter(ViewWriter):
    """Replaces the rows of the leads that an epoch touches."""

    def __init__(self, context: WriterContext, query: LookupQuery) -> None:
        self._context = context
        self._query = query

    def check(self, rows: DataFrame, table_properties: Mapping[str, str]) -> None:
        self._context.without_rows()

    def schema(self) -> StructType:
        return self._context.without_rows().schema

    def write_changes(
        self,
        changes: Changes,
        identity: ViewIdentity,
        barrier: Barrier,
        *,
        repairs: bool,
        since: TableVersions | None,
    ) -> None:
        self._replace(self._touched(changes, barrier), CHANGES, identity, barrier)

    def write_part(
        self, rows: DataFrame, part: int, identity: ViewIdentity, barrier: Barrier, *, since: TableVersions | None
    ) -> None:
        self._context.view.append(
            self._context.run(rows, self._context.others_at_end(barrier)), part, identity, barrier
        )

    def repair(
        self, changes: Changes | None, identity: ViewIdentity, barrier: Barrier, *, since: TableVersions | None
    ) -> None:
        self._replace(self._context.read_set(barrier, with_chunk=False).select("id"), REPAIR, identity, barrier)

    def _touched(self, changes: Changes, barrier: Barrier) -> DataFrame:
        """A change touches the leads that name the row of either of its images."""
        touched = changes.net.select("id")
        if self._query.dimension in changes.images:
            leads = self._context.read_set(barrier, with_chunk=False)
            named = changes.images[self._query.dimension].select(F.col(self._query.key).alias("named")).distinct()
            touched = touched.unionAll(leads.join(named, leads[self._query.reference] == named["named"]).select("id"))
        return touched.distinct()

    def _replace(self, touched: DataFrame, part: str, identity: ViewIdentity, barrier: Barrier) -> None:
        leads = self._context.read_set(barrier, with_chunk=False).join(touched, "id", "left_semi")
        fresh = self._context.run(leads, self._context.others_at_end(barrier))
        self._context.view.replace_units(fresh, touched, ["id"], part, identity, barrier)
