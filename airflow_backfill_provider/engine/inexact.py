"""
Compares values of floating-point aggregates, which depend on the order of the rows in their last digits.

Rows of one unit that agree in all other columns are paired by their order, and each pair is compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import DataType, FloatType

from airflow_backfill_provider.sources.shared.balanced import all_of

_OF_DOUBLE = 1e-9
_OF_FLOAT = 2.0**-23
"""The relative distance of two neighbours; a FLOAT has no finer one."""

_NUMBER = "__number"


def with_far_values(
    rows: DataFrame, key: Sequence[str], is_expected: str, exact: Sequence[str], values: Mapping[str, DataType]
) -> DataFrame:
    """
    Replace each inexact value by whether it is too far from the value of its pair on the other side.

    :param rows: the rows of both sides.
    :param key: the columns of a unit.
    :param is_expected: the flag of the query's side.
    :param exact: columns that stand for all exact columns of a row.
    :param values: the columns with inexact values, and their types.
    """
    number = F.row_number().over(Window.partitionBy(*key, is_expected).orderBy(*exact, *values))
    pair = Window.partitionBy(*key, _NUMBER)

    def is_far(name: str, kind: DataType) -> Column:
        wanted, found = (
            F.max(F.when(side, F.col(name))).over(pair) for side in (F.col(is_expected), ~F.col(is_expected))
        )
        return ~is_near(wanted, found, kind)

    numbered = rows.withColumn(_NUMBER, number)
    return numbered.withColumns({name: is_far(name, kind) for name, kind in values.items()}).drop(_NUMBER)


def is_near(one: Column, other: Column, kind: DataType) -> Column:
    """
    Return the condition that two values are equal but for their last digits; never null.

    Nulls, infinities and NaN equal only themselves.
    """
    tolerance = F.lit(_OF_FLOAT if isinstance(kind, FloatType) else _OF_DOUBLE)
    one, other = one.cast("double"), other.cast("double")
    is_finite = all_of([F.abs(value) < F.lit(float("inf")) for value in (one, other)])
    # The sum of two large values would be infinite.
    allowed = tolerance * F.abs(one) + tolerance * F.abs(other)
    return one.eqNullSafe(other) | F.coalesce(is_finite & (F.abs(one - other) <= allowed), F.lit(False))
