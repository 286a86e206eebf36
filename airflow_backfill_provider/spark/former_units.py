"""
The rows of a view that keeps former rows of units, such as groups: since when each is there, and until when.

The rows that a unit has after an epoch replace those that it had before. How it looked in between is not known: to
tell that, the upstream would have to be read for each of its versions. So an epoch leaves one former state of a unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from airflow_backfill_provider.core.job.keep import DELETED_AT, IS_CURRENT, VALID_FROM, VALID_TO, Keep
from airflow_backfill_provider.core.scan.columns import own_columns
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.spark.former_rows import (
    beginning_at,
    contradicts_itself,
    replaced_columns,
    replaced_units,
    with_broken,
)
from airflow_backfill_provider.spark.row_hash import row_hashes

_IS_OLD, _HASHES, _NUMBER, _COUNTERPARTS = "is_old", ("hash_1", "hash_2"), "number", "counterparts"


@dataclass(frozen=True, slots=True)
class FormerUnits:
    """
    Computes the rows that a view shall have of some units.

    :param keep: which rows the view keeps.
    :param columns: the query's columns.
    :param units: those that identify a unit; none if the whole view is one unit.
    """

    keep: Keep
    columns: StructType
    units: Sequence[str]

    @property
    def replaced(self) -> tuple[str, ...]:
        """The columns of the view that tell which of its rows are replaced; ended rows of a history never are."""
        return replaced_columns(self.keep, self.units)

    def touched(self, units: DataFrame) -> DataFrame:
        """Return units with the columns of :attr:`replaced`."""
        # The only unit of a view has no columns, and then it may have no row here.
        touched = units if self.units else units.sparkSession.range(1).select()
        return replaced_units(self.keep, touched)

    def after(self, old: DataFrame, fresh: DataFrame, at: Column) -> DataFrame:
        """
        Return the rows that the units shall have.

        :param old: the rows that the view has of them, by :attr:`replaced`.
        :param fresh: the rows that the query gives for them now, in the query's columns.
        :param at: what the view has of the point at which these begin; see
            :func:`~airflow_backfill_provider.spark.former_rows.began`.
        """
        is_old = self._named(_IS_OLD)
        names = [*map(column, (*self.columns.names, *self.keep.columns))]
        begun = beginning_at(fresh, self.keep, at).select(*names, F.lit(False).alias(is_old))
        rows = old.select(*names, F.lit(True).alias(is_old)).unionAll(begun)
        return (self._marked if self.keep is Keep.DELETED else self._in_turn)(rows, at).select(*names)

    def _marked(self, rows: DataFrame, at: Column) -> DataFrame:
        """Return the fresh rows of units that have any, and else the last ones that they had."""
        is_old, flag = F.col(self._named(_IS_OLD)), self._named(_COUNTERPARTS)
        of_unit = Window.partitionBy(*map(column, self.units))
        kept = rows.withColumn(flag, F.some(~is_old).over(of_unit)).filter(~is_old | ~F.col(flag))
        gone_at = F.when(is_old, F.coalesce(F.col(DELETED_AT), at))
        return kept.withColumn(DELETED_AT, gone_at)

    def _in_turn(self, rows: DataFrame, at: Column) -> DataFrame:
        """Return the rows that stay, those that end, and those that begin; equal ones are matched one to one."""
        is_old, first, second = (self._named(name) for name in (_IS_OLD, *_HASHES))
        number, counterparts = self._named(_NUMBER), self._named(_COUNTERPARTS)
        hashed = rows.withColumns(dict(zip((first, second), row_hashes(self.columns.fields), strict=True)))
        equal, of_side = Window.partitionBy(first, second), Window.partitionBy(first, second, is_old)
        is_former, begins = F.col(is_old), F.col(VALID_FROM)
        compared = hashed.withColumns(
            {
                number: F.row_number().over(of_side.orderBy(begins)),
                counterparts: F.when(is_former, F.count_if(~is_former).over(equal)).otherwise(
                    F.count_if(is_former).over(equal)
                ),
            }
        )
        stays = F.col(number) <= F.col(counterparts)
        # A row that ends where it began was never there: a repair has replaced it.
        ends, begins_now = is_former & ~stays & (begins < at), ~is_former & ~stays
        return compared.filter((is_former & stays) | ends | begins_now).withColumns(
            {VALID_TO: F.when(ends, at), IS_CURRENT: ~ends}
        )

    def _named(self, name: str) -> str:
        return own_columns([*self.columns.names, *self.keep.columns]).named(name)


def contradicting_units(view: DataFrame, keep: Keep, units: Sequence[str], up_to: Column) -> DataFrame:
    """
    Return the units whose rows in a view contradict each other.

    Each row of a history ends after it begins. A unit whose last rows are marked as deleted has no others.

    :param view: the view's rows.
    :param units: the view's columns that identify a unit; none if the whole view is one unit.
    :param up_to: what the view has of the newest point that it has seen; null if that is not known.
    """
    of_unit = Window.partitionBy(*map(column, units))
    if keep is Keep.DELETED:
        is_marked = F.col(DELETED_AT).isNotNull()
        broken = (F.some(is_marked).over(of_unit) & F.some(~is_marked).over(of_unit)) | (F.col(DELETED_AT) > up_to)
    else:
        broken = contradicts_itself(up_to)
    found = with_broken(view, broken)
    return found.select(*map(column, units)).distinct() if units else found.limit(1).select(F.lit(1))
