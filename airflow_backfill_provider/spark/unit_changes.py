"""
What a merge writes to replace units of the view: tombstones, and new rows.

Rows of a unit that stay as they are get neither, so that a reader of the view's change feed does not see them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from airflow_backfill_provider.core.scan.columns import OwnColumns, own_columns
from airflow_backfill_provider.lake.log.schemas import TableSchema
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.sources.shared.kept_rows import KEPT
from airflow_backfill_provider.spark.merging import same_keys
from airflow_backfill_provider.spark.partitions import partition_columns, touched_partitions
from airflow_backfill_provider.spark.placed_rows import KnownRows
from airflow_backfill_provider.spark.row_hash import row_hash
from airflow_backfill_provider.spark.small_changes import MOST_KEYS, are_few, bytes_of, hash_filter, hash_of
from airflow_backfill_provider.spark.touched_units import TouchedUnits

_IS_FRESH, _IS_KEPT, _IS_FIRST, _HAS_SEVERAL = "is_fresh", "is_kept", "is_first", "has_several"
_IS_TOMBSTONE, _IS_UPDATED, _HASH = "is_tombstone", "is_updated", "hash"


@dataclass(frozen=True, slots=True)
class UnitChanges:
    """
    The rows that a merge gets.

    :param found: the view's columns, some of the package's own, and the places of tombstones, if the view's rows have
        some. Without places, only the unit's columns have values in a tombstone, and equal rows share one.
    :param view: the view's columns.
    :param is_tombstone: the name of the flag that a row is a tombstone. Tombstones are of rows that the view has.
    :param is_first: the name of the flag that a row is the first one of equal rows.
    :param is_updated: the name of the flag that a row is the only one of its unit, before or after, and another row is
        so, too: one is an update of the other.
    :param hashed: the name of the column with the hash of the view's row that a tombstone removes.
    :param removed: the number of tombstones.
    :param written: the number of new rows.
    :param value_bytes: bytes of all values without a fixed width.
    :param has_nulls: for each column of a unit, whether it is null in any tombstone.
    :param has_several: whether the view has several rows of any unit that has a tombstone.
    :param units: the columns of a unit, and their types in the view.
    :param hashes: the hashes of the units that have a tombstone; ``None`` if these are too many for a filter.
    :param partition_by: the view's partition columns, which have values in tombstones, too.
    """

    found: DataFrame
    view: StructType
    is_tombstone: str
    is_first: str
    is_updated: str
    hashed: str
    removed: int
    written: int
    value_bytes: int
    has_nulls: tuple[bool, ...]
    has_several: bool
    units: Mapping[str, str]
    hashes: frozenset[int] | None
    partition_by: tuple[str, ...] = ()

    @property
    def rows(self) -> DataFrame:
        """The view's columns, the flag of tombstones and the hash; one tombstone for equal rows."""
        once = self.found.filter(~F.col(self.is_tombstone) | F.col(self.is_first))
        return once.select(*map(column, self.view.names), self.is_tombstone, self.hashed)

    @property
    def fresh(self) -> DataFrame:
        """The new rows alone, in the view's columns."""
        return self.found.filter(~F.col(self.is_tombstone)).select(*map(column, self.view.names))

    @property
    def are_few(self) -> bool:
        """Whether the driver may hold them."""
        return are_few(self.removed + self.written, len(self.view), self.value_bytes)

    def conditions(self) -> list[str]:
        """Return the conditions on which a row of the view matches a tombstone; see :func:`merge_into`."""
        same = [f"change.{self.is_tombstone}", *same_keys(list(self.units), self.has_nulls)]
        # Where a unit is one row, its columns are enough, and the others need not be read to find the files.
        return [*same, f"{row_hash(self.view, 'view.')} = change.{self.hashed}"] if self.has_several else same

    def within(self, prefix: str) -> list[str]:
        """
        Return what each row of the view meets that a tombstone removes, as SQL: it lies in its partition.

        The partitions of new rows do not count: no row there has to be found.

        :param prefix: what comes before the names of the view's columns.
        """
        tombstones = self.rows.filter(F.col(self.is_tombstone))
        return touched_partitions(tombstones, self.partition_by, prefix)

    def filters(self) -> list[str]:
        """Return the condition that leaves out nearly all rows of other units, if one can be made of these."""
        return [] if self.hashes is None else [hash_filter(self.hashes, self.units, "view")]


@contextmanager
def unit_changes(
    old: KnownRows, fresh: DataFrame, touched: TouchedUnits | None, partition_by: Sequence[str] = ()
) -> Iterator[UnitChanges]:
    """
    Compare the rows that units have with those that they shall have, and keep the result for the block.

    Rows are compared exactly and with their number. If a unit has two equal rows and shall have one, both are removed
    and one is written.

    :param old: all rows that the units have in the view, as of one version.
    :param fresh: all rows that the units shall have, with the view's columns.
    :param touched: the units; one without fresh rows is removed. ``None`` if the whole view is one unit.
    :param partition_by: the view's partition columns.
    """
    units = touched.columns if touched else ()
    partitions = partition_columns(old.rows, partition_by)
    own = own_columns(old.columns)
    is_fresh, is_kept, is_first = (F.col(own.named(name)) for name in (_IS_FRESH, _IS_KEPT, _IS_FIRST))
    # A merge finds equal rows by one tombstone.
    is_tombstone = ~is_fresh if old.places else ~is_fresh & is_first
    rows = (
        _compared(old, fresh, units, partitions, own)
        .filter(~is_kept & (is_fresh | is_tombstone))
        .select(
            *map(column, old.columns),
            *(old.places.names if old.places else ()),
            is_tombstone.alias(own.named(_IS_TOMBSTONE)),
            *map(own.named, (_IS_FIRST, _IS_UPDATED, _HASH, _HAS_SEVERAL)),
        )
        .persist(KEPT)
    )
    try:
        view = old.schema
        types = {field.name: field.dataType.simpleString() for field in view.fields}
        found = _Found(rows, view, own, {unit: types[unit] for unit in units})
        # Whoever knows the places needs no filter.
        is_small = old.places is None and touched is not None and touched.number <= MOST_KEYS
        yield replace(found.measured(is_small=is_small), partition_by=tuple(partitions))
    finally:
        rows.unpersist()


def _compared(
    old: KnownRows, fresh: DataFrame, units: Sequence[str], partitions: Sequence[str], own: OwnColumns
) -> DataFrame:
    """Return the rows of both sides, and for each whether the view has it as often as it shall have it."""
    flag, hashed, view = own.named(_IS_FRESH), own.named(_HASH), old.schema
    places = {name: old.rows.schema[name].dataType for name in (old.places.names if old.places else ())}

    def side(rows: DataFrame, *, is_fresh: bool) -> DataFrame:
        # Without its place, a row that goes is known by its hash, so its values would be moved and sorted for nothing.
        has_values = is_fresh or places
        return rows.select(
            *(
                column(field.name)
                if has_values or field.name in (*units, *partitions)
                else F.lit(None).cast(field.dataType).alias(field.name)
                for field in view.fields
            ),
            F.lit(is_fresh).alias(flag),
            F.expr(row_hash(view)).alias(hashed),
            *(F.lit(None).cast(kind).alias(name) if is_fresh else column(name) for name, kind in places.items()),
        )

    # A view that is one unit may be large, so its rows are divided by what they are compared by.
    keys: list[Column] = [column(unit) for unit in units] or [F.col(hashed)]
    of_unit, of_row = Window.partitionBy(*keys), Window.partitionBy(*keys, hashed)
    before, after = (F.count_if(condition).over(of_unit) for condition in (~F.col(flag), F.col(flag)))
    number = F.row_number().over(of_row.orderBy(flag))
    sides = side(old.rows, is_fresh=False).unionAll(side(fresh, is_fresh=True))
    return sides.repartition(*keys).withColumns(
        {
            own.named(_IS_KEPT): F.count_if(flag).over(of_row) == F.count_if(~F.col(flag)).over(of_row),
            own.named(_IS_FIRST): number == 1,
            own.named(_IS_UPDATED): (before == 1) & (after == 1) if units else F.lit(False),
            own.named(_HAS_SEVERAL): before > 1 if units else F.lit(True),
        }
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """
    The rows of :class:`UnitChanges` before they are looked at.

    :param view: the view's columns.
    :param own: the names of the package's own columns.
    :param units: the columns of a unit, and their types in Spark's SQL.
    """

    rows: DataFrame
    view: StructType
    own: OwnColumns
    units: Mapping[str, str]

    def measured(self, *, is_small: bool) -> UnitChanges:
        """Look at the rows once; if there are few units, their hashes come along."""
        own, is_tombstone = self.own, F.col(self.own.named(_IS_TOMBSTONE))
        total = self.rows.agg(
            F.count_if(is_tombstone).alias("removed"),
            F.count_if(~is_tombstone).alias("written"),
            F.sum(bytes_of(TableSchema.of(self.view.json()).types)).alias("value_bytes"),
            F.coalesce(F.some(is_tombstone & F.col(own.named(_HAS_SEVERAL))), F.lit(False)).alias("has_several"),
            *([F.collect_set(F.when(is_tombstone, hash_of(self.units))).alias("hashes")] if is_small else []),
            *(
                F.coalesce(F.some(is_tombstone & column(unit).isNull()), F.lit(False)).alias(f"null_{number}")
                for number, unit in enumerate(self.units)
            ),
        ).collect()[0]
        return UnitChanges(
            found=self.rows,
            view=self.view,
            is_tombstone=own.named(_IS_TOMBSTONE),
            is_first=own.named(_IS_FIRST),
            is_updated=own.named(_IS_UPDATED),
            hashed=own.named(_HASH),
            removed=total["removed"],
            written=total["written"],
            value_bytes=total["value_bytes"] or 0,
            has_nulls=tuple(total[f"null_{number}"] for number in range(len(self.units))),
            has_several=total["has_several"],
            units=self.units,
            hashes=frozenset(total["hashes"]) if is_small else None,
        )
