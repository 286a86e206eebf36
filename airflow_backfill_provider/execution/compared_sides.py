"""
The two sides of a verification as rows that can be compared: what the query gives, and what the view has.

Both are taken apart in the same way, by the view's own columns, which the query gives as well: each row's vnode, its
key, its columns and two hashes of all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from airflow_backfill_provider.core.barrier import PinnedRead
from airflow_backfill_provider.core.errors import MaterializedViewError
from airflow_backfill_provider.core.scan import VnodeRange
from airflow_backfill_provider.core.settings import JobSettings
from airflow_backfill_provider.core.sql import quote
from airflow_backfill_provider.core.verification import PinnedVerification
from airflow_backfill_provider.engine.query import run_query
from airflow_backfill_provider.engine.row_hash import row_hashes
from airflow_backfill_provider.execution.expected import expected_rows, vnode_of
from airflow_backfill_provider.shapes import query_of
from airflow_backfill_provider.shapes.base import JobQuery, Units
from airflow_backfill_provider.sources.base import SourceReader

ROW = "row"
"""Column of the row itself."""

UNIT = "unit"
"""Column of the row's vnode, or of the hash of its key that stands for one."""

HASHES = ("hash_1", "hash_2")
"""Columns of the row's hashes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSides:
    """
    Both sides of a verification.

    :param older: rows that the view has as of older offsets of the upstream than the verified epoch's.
    :param reader: reads the upstream.
    """

    spark: SparkSession
    settings: JobSettings
    pinned: PinnedVerification
    older: Sequence[PinnedRead]
    reader: SourceReader

    @property
    def units(self) -> Units:
        """What tells the view's units apart."""
        return query_of(self.settings.definition).units(self.settings, by_key=self.pinned.by_key)

    @property
    def key(self) -> tuple[str, ...]:
        """The view's columns that identify a unit, hidden or not."""
        return self.units.outputs

    def expected(self, vnodes: VnodeRange) -> DataFrame:
        """Return the rows that the query gives, of some vnodes: each with its unit and its hashes."""
        rows = expected_rows(self.spark, self.reader, self.settings, self.pinned, self.older)
        # Before the query, which costs more than this.
        rows = rows.filter(self._unit(self.units.placed_by).between(*vnodes))
        job = self.settings.definition
        return self._taken_apart(run_query(self.spark, JobQuery.of(job, query_of(job), self.settings.upstream), rows))

    def found(self, vnodes: VnodeRange, schema: StructType) -> DataFrame:
        """
        Return the rows that the view has, of some vnodes, likewise.

        :param schema: the columns that the query gives.
        :raises MaterializedViewError: if the view has others.
        """
        path = self.settings.definition.materialized_view
        view = self.spark.read.format("delta").option("versionAsOf", self.pinned.view_version).load(path)
        _require_same_columns(schema, view.schema, path)
        rows = view.select(*(F.col(quote(field.name)) for field in schema.fields))
        return self._taken_apart(rows).filter(F.col(UNIT).between(*vnodes))

    def _unit(self, outputs: Sequence[str]) -> Column:
        return vnode_of(self.settings, [F.col(quote(name)) for name in outputs], self.units.placed_by)

    def _taken_apart(self, rows: DataFrame) -> DataFrame:
        """Put the unit and the hashes beside rows with the view's columns."""
        first, second = row_hashes(rows.schema)
        return rows.select(
            F.struct(*(F.col(quote(field.name)) for field in rows.schema.fields)).alias(ROW),
            self._unit(self.units.place_outputs).alias(UNIT),
            first.alias(HASHES[0]),
            second.alias(HASHES[1]),
        )


def _require_same_columns(expected: StructType, found: StructType, path: str) -> None:
    wanted = {field.name: field.dataType.simpleString() for field in expected.fields}
    there = {field.name: field.dataType.simpleString() for field in found.fields}
    if wanted != there:
        different = sorted(name for name in {*wanted, *there} if wanted.get(name) != there.get(name))
        raise MaterializedViewError(
            f"materialized_view: {path} has other columns than its query gives ({', '.join(different)}); something "
            "else changed them: rebuild the job"
        )
