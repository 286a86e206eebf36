"""
Replaces units of a view in one commit.

A unit whose rows in the view are already those that it gets is not written, so that a job that reads the view's changes
does not see it. For each other unit that the view has, a tombstone removes all of its rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.core.scan.columns import OwnColumns, own_columns
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.spark.merging import merge_into
from airflow_backfill_provider.spark.row_hash import row_hashes
from airflow_backfill_provider.spark.stamped_table import StampedTable

_SUM = "decimal(38,0)"
"""A type in which sums of hashes do not overflow."""


@contextmanager
def kept(rows: DataFrame) -> Iterator[DataFrame]:
    """Keep rows once they are computed, because several statements read them, and a merge reads its source twice."""
    persisted = rows.persist()
    try:
        yield persisted
    finally:
        persisted.unpersist()


def replace_units(
    table: StampedTable,
    fresh: DataFrame,
    touched: DataFrame,
    outputs: Sequence[str],
    part: str,
    identity: ViewIdentity,
    barrier: Barrier,
) -> None:
    """
    Replace the rows of units, once per epoch and part.

    :param fresh: the new rows of the touched units, in the view's columns.
    :param touched: the units, each once; without columns, all rows of the view are one unit.
    :param outputs: the view's columns that identify a unit.
    """
    replacement = _Replacement(fresh.columns, tuple(outputs), own_columns(fresh.columns))
    with kept(fresh):
        held = table.read().select(*map(column, fresh.columns))
        if outputs:
            held = held.join(touched.toDF(*replacement.units), replacement.same, "left_semi")
        with kept(replacement.changed(fresh, held)) as changed:
            merge_into(
                table,
                replacement.source(fresh, changed),
                replacement.conditions,
                replacement.clauses,
                part,
                identity,
                barrier,
            )


@dataclass(frozen=True, slots=True)
class _Replacement:
    """
    The frames and the statement that replace units.

    :param columns: the view's columns.
    :param outputs: those that identify a unit.
    :param own: the names of the package's own columns.
    """

    columns: Sequence[str]
    outputs: Sequence[str]
    own: OwnColumns

    @property
    def units(self) -> list[str]:
        """The columns that identify a unit in frames of units."""
        return list(self.own.numbered("unit", len(self.outputs)))

    @property
    def same(self) -> list[Column]:
        """The conditions that a row of the view belongs to a unit."""
        pairs = zip(self.outputs, self.units, strict=True)
        return [column(output).eqNullSafe(F.col(unit)) for output, unit in pairs]

    @property
    def conditions(self) -> list[str]:
        """The conditions on which a tombstone matches a row of the view; a new row matches none."""
        pairs = zip(self.outputs, self.units, strict=True)
        return [f"change.{self._is_tombstone}", *(f"view.{quote(name)} <=> change.{unit}" for name, unit in pairs)]

    @property
    def clauses(self) -> str:
        """The statement's clauses."""
        names = ", ".join(map(quote, self.columns))
        values = ", ".join(f"change.{quote(name)}" for name in self.columns)
        return (
            f"WHEN MATCHED THEN DELETE WHEN NOT MATCHED AND NOT change.{self._is_tombstone} THEN INSERT ({names}) "
            f"VALUES ({values})"
        )

    def changed(self, fresh: DataFrame, held: DataFrame) -> DataFrame:
        """Return the units whose rows in the view differ from the new ones, and whether the view has any of them."""
        both = self._hashed(fresh, 1).unionAll(self._hashed(held, -1))
        sums = both.groupBy(*self.units).agg(
            F.sum("sign").alias("rows"),
            *(F.sum(F.col(name) * F.col("sign")).alias(name) for name in ("first", "second")),
            F.coalesce(F.some(F.col("sign") < 0), F.lit(False)).alias(self._is_held),
        )
        return sums.filter("rows <> 0 OR first <> 0 OR second <> 0").select(*self.units, self._is_held)

    def source(self, fresh: DataFrame, changed: DataFrame) -> DataFrame:
        """Return a tombstone for each changed unit that the view has, and the new rows of the changed units."""
        nothing = [F.lit(None).cast(field.dataType).alias(field.name) for field in fresh.schema.fields]
        tombstones = changed.filter(self._is_held).select(
            *nothing, *map(F.col, self.units), F.lit(True).alias(self._is_tombstone)
        )
        written = fresh.join(changed, self.same, "left_semi") if self.outputs else fresh.crossJoin(changed)
        return tombstones.unionAll(
            written.select(*map(column, self.columns), *self._of_rows(), F.lit(False).alias(self._is_tombstone))
        )

    def _hashed(self, rows: DataFrame, sign: int) -> DataFrame:
        first, second = row_hashes(rows.schema)
        return rows.select(
            *self._of_rows(),
            first.cast(_SUM).alias("first"),
            second.cast(_SUM).alias("second"),
            F.lit(sign).alias("sign"),
        )

    def _of_rows(self) -> list[Column]:
        """Return the unit of a row of the view."""
        return [column(name).alias(unit) for name, unit in zip(self.outputs, self.units, strict=True)]

    @property
    def _is_tombstone(self) -> str:
        return self.own.named("is_tombstone")

    @property
    def _is_held(self) -> str:
        return self.own.named("is_held")
