"""
The two sides of a verification as comparable rows: the result of the query, and the rows of the view.

Both sides have the view's columns. Each row gets its vnode, its key, its columns and two hashes of all columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import DoubleType, FloatType, StructType

from airflow_backfill_provider.core.epoch.barrier import PinnedRead
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import MaterializedViewError
from airflow_backfill_provider.core.job.keep import ValidBy
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.core.scan.scan import VnodeRange
from airflow_backfill_provider.core.status.verification import PinnedVerification
from airflow_backfill_provider.engine.expected import (
    expected_further,
    expected_leads,
    expected_others,
    expected_rows,
    of_read_units,
    vnode_of,
    vnode_of_unit,
)
from airflow_backfill_provider.shapes import query_of, resolved_query_of, row_units_of, shape_of
from airflow_backfill_provider.shapes.job_query import JobQuery
from airflow_backfill_provider.shapes.queries import Units
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.sources.reader import SourceReader
from airflow_backfill_provider.sources.shared.by_key import without_keys
from airflow_backfill_provider.spark.former_rows import broken_keys, rows_of_query
from airflow_backfill_provider.spark.former_units import contradicting_units
from airflow_backfill_provider.spark.job_rows import JobRows
from airflow_backfill_provider.spark.query import run_query
from airflow_backfill_provider.spark.row_hash import row_hashes

ROW = "row"
"""Column of the row itself."""

UNIT = "unit"
"""Column of the row's vnode, or of a hash of its key in place of a vnode."""

HASHES = ("hash_1", "hash_2")
"""Columns of the row's hashes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSides:
    """
    Both sides of a verification.

    :param location: the location of the view's table.
    :param table: returns all rows of the view, former ones included.
    :param older: the ranges that the view has as of older offsets of the upstream than the verified epoch's.
    :param upstream: the upstream, or the one that leads.
    :param reader: reads it.
    :param placed: reads its rows with the columns of positions, if it has none.
    :param others: the readers of the upstreams that are read whole, by their names.
    :param further: the upstreams that lead further branches, by their names.
    """

    spark: SparkSession
    settings: JobSettings
    pinned: PinnedVerification
    location: str
    table: Callable[[], DataFrame]
    older: Sequence[PinnedRead]
    upstream: Source
    reader: SourceReader
    placed: Callable[[], DataFrame] | None = None
    others: Mapping[str, SourceReader] = field(default_factory=dict)
    further: Mapping[str, JobRows] = field(default_factory=dict)

    @property
    def loses_rows(self) -> bool:
        """Whether the upstream may have removed rows of the view; a group that lost one cannot be compared at all."""
        return self.reader.loses_rows and shape_of(self.settings.definition).has_keys

    @property
    def units(self) -> Units:
        """The columns that identify the view's units."""
        return resolved_query_of(self.settings).units(self.settings, by_key=self.pinned.by_key)

    @property
    def key(self) -> tuple[str, ...]:
        """The view's columns that identify a unit, hidden or not."""
        return self.units.outputs

    def inexact(self, schema: StructType) -> tuple[str, ...]:
        """Return the columns whose values may differ in their last digits between two runs of the query."""
        floating = [field.name for field in schema.fields if isinstance(field.dataType, (DoubleType, FloatType))]
        found = resolved_query_of(self.settings).inexact(floating)
        return tuple(name for name in floating if name in found)

    def expected(self, vnodes: VnodeRange) -> DataFrame:
        """Return the query's rows in some vnodes, each with its unit and its hashes."""
        units = row_units_of(self.settings)
        are_joined = units is not None and bool(units.others)
        if are_joined:
            rows = expected_leads(self.reader, self.settings, self.pinned)
        else:
            rows = expected_rows(self.spark, self.reader, self.settings, self.pinned, self.older, self.placed, units)
        job, hashed = self.settings.definition, self.units.hashed
        if hashed is not None:
            # Filter before the query, which costs more.
            columns = [F.col(quote(name)) for name in hashed]
            rows = rows.filter(vnode_of(self.settings, columns, hashed).between(*vnodes))
        query = JobQuery.of(job, query_of(job), self.settings.upstream, self.settings.state_columns)
        others = {
            **expected_others(self.others, self.settings, self.pinned),
            **expected_further(self.further, self.settings, self.pinned),
        }
        found = run_query(self.spark, query, rows, others)
        if are_joined:
            found = of_read_units(self.spark, self.settings, self.pinned, found, self.units.outputs)
        result = self._hashed(found)
        return result if hashed is not None else result.filter(F.col(UNIT).between(*vnodes))

    def found(self, vnodes: VnodeRange, schema: StructType) -> DataFrame:
        """
        Return the view's rows in some vnodes, each with its unit and its hashes.

        :param schema: the query's columns.
        :raises MaterializedViewError: if the view has other columns.
        """
        return self._hashed(self._view(schema)).filter(F.col(UNIT).between(*vnodes))

    def comparable(self, vnodes: VnodeRange, schema: StructType) -> DataFrame:
        """Return the rows of :meth:`found` without those that the upstream has removed."""
        view = self._view(schema)
        rows = self.without_removed(view, self.key) if self.loses_rows else view
        return self._hashed(rows).filter(F.col(UNIT).between(*vnodes))

    def without_removed(self, rows: DataFrame, key: Sequence[str]) -> DataFrame:
        """
        Return some rows without those that the upstream has removed since they were read.

        :param key: the names of the columns with the view's key.
        """
        return self.reader.without_removed(rows, key, self.pinned.upstream_version)

    def _view(self, schema: StructType) -> DataFrame:
        """Return the view's rows that can be compared with the query's, unless the upstream has removed them."""
        view = rows_of_query(self._table(), self.settings.definition.keep)
        _require_same_columns(schema, view.schema, self.location)
        rows = view.select(*(F.col(quote(field.name)) for field in schema.fields))
        unsettled = self.reader.unsettled(self.pinned.upstream_version)
        return rows if unsettled is None else without_keys(rows, unsettled, self.key)

    def require_sound_histories(self, vnodes: VnodeRange) -> None:
        """
        Refuse former rows in some vnodes that contradict each other.

        :raises MaterializedViewError: with the number of keys.
        """
        job, pinned = self.settings.definition, self.pinned
        keep = job.keep
        if not keep.keeps_former_rows:
            return
        # The upstream's log may no longer tell the time of the version.
        newest = {ValidBy.VERSION: pinned.upstream_version.number, ValidBy.EPOCH: pinned.epoch}.get(job.valid_by)
        rows = self._table().filter(self._unit().between(*vnodes))
        contradicting = broken_keys if shape_of(job).former_rows_by_version else contradicting_units
        if count := contradicting(rows, keep, self.key, F.lit(newest)).count():
            raise MaterializedViewError(
                f"materialized_view: the rows of {count} keys in version {self.pinned.view_version} of {self.location} "
                f"contradict each other by {', '.join(keep.columns)}, so another writer changed them, and no repair "
                "can tell what they were: rebuild the job with --discard-history"
            )

    def _table(self) -> DataFrame:
        """Return all rows of the view, former ones included."""
        table = self.table()
        if missing := [name for name in self.settings.definition.keep.columns if name not in table.columns]:
            raise _other_columns(self.location, missing)
        return table

    def _unit(self) -> Column:
        """Return the vnode of a row with the view's columns."""
        units = self.units
        if units.hashed is None:
            columns = [F.col(quote(name)) for name in units.outputs]
            return vnode_of_unit(self.settings, columns, [field.type for field in units.order.fields])
        return vnode_of(self.settings, [F.col(quote(name)) for name in units.hashed_outputs], units.hashed)

    def _hashed(self, rows: DataFrame) -> DataFrame:
        """Add the unit and the hashes to rows with the view's columns."""
        first, second = row_hashes(rows.schema.fields)
        return rows.select(
            F.struct(*(F.col(quote(field.name)) for field in rows.schema.fields)).alias(ROW),
            self._unit().alias(UNIT),
            first.alias(HASHES[0]),
            second.alias(HASHES[1]),
        )


def _require_same_columns(expected: StructType, found: StructType, path: str) -> None:
    wanted = {field.name: field.dataType.simpleString() for field in expected.fields}
    actual = {field.name: field.dataType.simpleString() for field in found.fields}
    if wanted != actual:
        different = sorted(name for name in {*wanted, *actual} if wanted.get(name) != actual.get(name))
        raise _other_columns(path, different)


def _other_columns(path: str, different: Sequence[str]) -> MaterializedViewError:
    return MaterializedViewError(
        f"materialized_view: the columns of {path} differ from those of the job's query ({', '.join(different)}); "
        "another writer changed the table: rebuild the job"
    )
