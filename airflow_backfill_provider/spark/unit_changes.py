"""
What a merge writes to replace units of the view: tombstones, and new rows.

Rows of a unit that stay as they are get neither, so that a reader of the view's change feed does not see them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.scan.columns import OwnColumns, own_columns
from airflow_backfill_provider.lake.log.schemas import TableSchema
from airflow_backfill_provider.sources.shared.by_key import column, with_keys
from airflow_backfill_provider.sources.shared.kept_rows import KEPT
from airflow_backfill_provider.spark.merging import same_keys
from airflow_backfill_provider.spark.row_hash import row_hash
from airflow_backfill_provider.spark.small_changes import bytes_of
from airflow_backfill_provider.spark.touched_units import TouchedUnits

_IS_FRESH, _IS_KEPT, _IS_FIRST, _HAS_SEVERAL = "is_fresh", "is_kept", "is_first", "has_several"
_IS_TOMBSTONE, _HASH = "is_tombstone", "hash"


@dataclass(frozen=True, slots=True)
class UnitChanges:
    """
    The rows that a merge gets.

    :param rows: the view's columns, and two of the package's own. In a tombstone, only the unit's columns have values.
    :param is_tombstone: the name of the flag that a row is a tombstone. Tombstones are of rows that the view has.
    :param hashed: the name of the column with the hash of the view's row that a tombstone removes.
    :param removed: the number of tombstones.
    :param written: the number of new rows.
    :param value_bytes: bytes of all values without a fixed width.
    :param has_nulls: for each column of a unit, whether it is null in any tombstone.
    :param has_several: whether the view has several rows of any unit that has a tombstone.
    """

    rows: DataFrame
    is_tombstone: str
    hashed: str
    removed: int
    written: int
    value_bytes: int
    has_nulls: tuple[bool, ...]
    has_several: bool

    @property
    def tombstones(self) -> DataFrame:
        """The tombstones alone."""
        return self.rows.filter(F.col(self.is_tombstone))

    def conditions(self, view: DataFrame, units: Sequence[str]) -> list[str]:
        """
        Return the conditions on which a row of the view matches a tombstone; see :func:`merge_into`.

        :param view: the view's rows.
        :param units: the columns of a unit.
        """
        same = [f"change.{self.is_tombstone}", *same_keys(units, self.has_nulls)]
        # Where a unit is one row, its columns are enough, and the others need not be read to find the files.
        return [*same, f"{row_hash(view.schema, 'view.')} = change.{self.hashed}"] if self.has_several else same


@contextmanager
def unit_changes(view: DataFrame, fresh: DataFrame, touched: TouchedUnits | None) -> Iterator[UnitChanges]:
    """
    Compare the rows that units have with those that they shall have, and keep the result for the block.

    Rows are compared exactly and with their number. If a unit has two equal rows and shall have one, both are removed
    and one is written.

    :param view: the view's rows, as of one version.
    :param fresh: all rows that the units shall have, with the view's columns.
    :param touched: the units; one without fresh rows is removed. ``None`` if the whole view is one unit.
    """
    units = touched.columns if touched else ()
    own = own_columns(view.columns)
    is_fresh, is_kept = F.col(own.named(_IS_FRESH)), F.col(own.named(_IS_KEPT))
    is_tombstone = ~is_fresh & F.col(own.named(_IS_FIRST))
    old = view
    if touched:
        for condition in touched.within():
            old = old.filter(condition)
        old = with_keys(old, touched.rows.select(*map(column, units)), units)
    rows = (
        _compared(old, fresh, units, own)
        .filter(~is_kept & (is_fresh | is_tombstone))
        .select(
            *map(column, view.columns),
            is_tombstone.alias(own.named(_IS_TOMBSTONE)),
            own.named(_HASH),
            own.named(_HAS_SEVERAL),
        )
        .persist(KEPT)
    )
    try:
        yield _measured(rows, units, own, TableSchema.of(view.schema.json()).types)
    finally:
        rows.unpersist()


def _compared(old: DataFrame, fresh: DataFrame, units: Sequence[str], own: OwnColumns) -> DataFrame:
    """Return the rows of both sides, and for each whether the view has it as often as it shall have it."""
    flag, hashed = own.named(_IS_FRESH), own.named(_HASH)

    def side(rows: DataFrame, *, is_fresh: bool) -> DataFrame:
        return rows.select(
            # A row that goes is known by its hash, so its values would be moved and sorted for nothing.
            *(
                column(field.name)
                if is_fresh or field.name in units
                else F.lit(None).cast(field.dataType).alias(field.name)
                for field in old.schema.fields
            ),
            F.lit(is_fresh).alias(flag),
            F.expr(row_hash(old.schema)).alias(hashed),
        )

    # A view that is one unit may be large, so its rows are divided by what they are compared by.
    keys: list[Column] = [column(unit) for unit in units] or [F.col(hashed)]
    of_unit, of_row = Window.partitionBy(*keys), Window.partitionBy(*keys, hashed)
    several = F.count_if(~F.col(flag)).over(of_unit) > 1 if units else F.lit(True)
    number = F.row_number().over(of_row.orderBy(flag))
    sides = side(old, is_fresh=False).unionAll(side(fresh, is_fresh=True))
    return sides.repartition(*keys).withColumns(
        {
            own.named(_IS_KEPT): F.count_if(flag).over(of_row) == F.count_if(~F.col(flag)).over(of_row),
            own.named(_IS_FIRST): number == 1,
            own.named(_HAS_SEVERAL): several,
        }
    )


def _measured(rows: DataFrame, units: Sequence[str], own: OwnColumns, types: Mapping[str, str]) -> UnitChanges:
    is_tombstone = F.col(own.named(_IS_TOMBSTONE))
    total = rows.agg(
        F.count_if(is_tombstone).alias("removed"),
        F.count_if(~is_tombstone).alias("written"),
        F.sum(bytes_of(types)).alias("value_bytes"),
        F.coalesce(F.some(is_tombstone & F.col(own.named(_HAS_SEVERAL))), F.lit(False)).alias("has_several"),
        *(
            F.coalesce(F.some(is_tombstone & column(unit).isNull()), F.lit(False)).alias(f"null_{number}")
            for number, unit in enumerate(units)
        ),
    ).collect()[0]
    return UnitChanges(
        rows=rows.drop(own.named(_HAS_SEVERAL)),
        is_tombstone=own.named(_IS_TOMBSTONE),
        hashed=own.named(_HASH),
        removed=total["removed"],
        written=total["written"],
        value_bytes=total["value_bytes"] or 0,
        has_nulls=tuple(total[f"null_{number}"] for number in range(len(units))),
        has_several=total["has_several"],
    )
