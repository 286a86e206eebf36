"""A fold gives what Spark's own aggregates give over the present rows: the value, its type, and its scale."""

from __future__ import annotations

import datetime as dt
import itertools
import random
from collections.abc import Mapping
from decimal import Decimal

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_backfill_provider.shapes.group.fold.statements import IMPOSSIBLE
from tests.integration.engine.folded_groups import FoldedGroups, Values
from tests.variants import exhaustive, mostly_exhaustive, mostly_exhaustive_combinations

pytestmark = pytest.mark.spark

_UTC = dt.UTC
_EDGES: Mapping[str, tuple[object, ...]] = {
    "i INT": (-(2**31), 2**31 - 1, -1, 0, 1, 2),
    "tiny TINYINT": (-128, 127, 0, 1),
    "small SMALLINT": (-(2**15), 2**15 - 1, 0, 7),
    "big BIGINT": (-(2**46), 2**46 - 1, 0, 1, 3),
    "most BIGINT": (2**63 - 1, 2**62, 0, 1),
    "d5 DECIMAL(5,0)": (Decimal(-99_999), Decimal(99_999), Decimal(1), Decimal(2)),
    "d9 DECIMAL(9,1)": (Decimal("-99999999.9"), Decimal("0.1"), Decimal("0.2"), Decimal("0.7")),
    "money DECIMAL(12,2)": (Decimal("-9999999999.99"), Decimal("9999999999.99"), Decimal("0.01"), Decimal("1.05")),
    "wide DECIMAL(38,18)": (Decimal("99999999999999999999.999999999999999999"), Decimal("1E-18"), Decimal("0.5")),
    "whole DECIMAL(38,0)": (Decimal(10**38 - 1), Decimal(5 * 10**37), Decimal(10**36 + 1), Decimal(1), Decimal(0)),
    "tail DECIMAL(37,37)": (Decimal("0.1"), Decimal("0." + "0" * 36 + "1"), Decimal("0.03")),
    "yes BOOLEAN": (True, False),
    "s STRING": ("", "a", "ab", "é", "\U00010000", "\uffff"),
    "day DATE": (dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2026, 2, 28)),
    "at TIMESTAMP": (dt.datetime(1900, 1, 1, tzinfo=_UTC), dt.datetime(2026, 3, 29, 1, 59, 59, 999_999, tzinfo=_UTC)),
    "ntz TIMESTAMP_NTZ": (dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)),
    "x DOUBLE": (float("nan"), float("inf"), float("-inf"), 0.5, -1e300),
}
"""Columns, each with the values at the edges of its type. Those of which sums overflow are not negative."""

_SCHEMA = ", ".join(["id BIGINT", "g INT", *_EDGES])
_TIME, _MONTHS = "make_dt_interval(0, 0, 0, money)", "make_ym_interval(0, small)"
_LONG = ("make_dt_interval(CASE WHEN yes THEN 100000000 END)", "make_ym_interval(0, greatest(i, 0))")
"""Intervals of which sums overflow."""

_CALLS: Mapping[str, tuple[str, ...]] = {
    "counts": (
        *("count(*)", "count(1)", "count(i)", "count(i, s)", "count_if(yes)", "count_if(i > 0)"),
        *("bool_and(yes)", "every(yes)", "bool_or(yes)", "some(yes)", "any(yes)", "min(yes)", "max(yes)"),
    ),
    "sums": (
        *(f"sum({column})" for column in ("tiny", "small", "i", "big", "d5", "d9", "money", _TIME, _MONTHS)),
        *(f"try_sum({column})" for column in ("most", "big", "money", "wide", "whole", "tail", *_LONG)),
    ),
    "averages": (
        *(f"avg({column})" for column in ("tiny", "small", "i", "big", "d5", "d9", "money", _TIME, _MONTHS)),
        *(f"try_avg({column})" for column in ("big", "money", "wide", "whole", "tail", *_LONG)),
        *("mean(i)", "count(i)", "sum(i)"),
    ),
    "extremes": tuple(
        f"{function}({value})"
        for function in ("min", "max")
        for value in (
            "i",
            "most",
            "wide",
            "s",
            "day",
            "at",
            "ntz",
            "x",
            "CAST(s AS BINARY)",
            "struct(tiny, s)",
            "array(i)",
        )
    ),
    "filters": (
        *(
            f"{call} FILTER (WHERE i > 0 OR i IS NULL)"
            for call in ("count(*)", "count(s)", "sum(money)", "avg(money)", "min(s)", "max(day)", "bool_and(yes)")
        ),
        *("sum(money) FILTER (WHERE yes)", "sum(money)"),
    ),
}


def random_row(drawn: random.Random, key: int) -> Values:
    """Return a row with values at the edges of their types, and nulls; most groups have some columns of nulls alone."""
    group = drawn.choice([None, 1, 2, 3, 4])
    values = [None if drawn.random() < 0.3 else drawn.choice(edges) for edges in _EDGES.values()]
    return (key, group, *values)


def random_changes(drawn: random.Random, present: Mapping[object, Values]) -> dict[object, Values | None]:
    """Return changes of some rows; now and then, all rows of a group go."""
    changed: dict[object, Values | None] = {}
    for key in drawn.sample(range(40), drawn.randint(3, 12)):
        goes = key in present and drawn.random() < 0.5
        changed[key] = None if goes else random_row(drawn, key)
    if drawn.random() < 0.6:
        group = drawn.choice([None, 1, 2, 3, 4])
        changed |= {key: None for key, row in present.items() if row[1] == group}
    return changed


def play(spark: SparkSession, calls: str, seed: int, epochs: int, units: tuple[str, ...]) -> None:
    """Play a random history; the view is right after every epoch."""
    drawn = random.Random(seed)
    groups = FoldedGroups(spark, _SCHEMA, units, _CALLS[calls], where="NOT id <=> 7")
    groups.load([random_row(drawn, key) for key in range(drawn.choice([0, 25]))])
    groups.assert_truth()
    for _ in range(epochs):
        groups.epoch(random_changes(drawn, groups.rows))
        groups.assert_truth()


@pytest.mark.parametrize(
    ("calls", "seed"),
    mostly_exhaustive_combinations(itertools.product(_CALLS, range(10)), [("sums", 1)]),
)
def test_folded_groups_are_what_spark_computes_from_all_rows(spark: SparkSession, calls: str, seed: int) -> None:
    """I1: for all functions and types, at the edges of the types."""
    play(spark, calls, seed, epochs=3, units=("g",))


@pytest.mark.parametrize("seed", mostly_exhaustive(range(5), []))
@pytest.mark.parametrize("calls", _CALLS)
def test_all_rows_are_one_group_that_is_always_there(spark: SparkSession, calls: str, seed: int) -> None:
    """I1: for all functions and types, without GROUP BY."""
    play(spark, calls, seed, epochs=3, units=())


@pytest.mark.exhaustive
def test_a_group_of_all_rows_is_there_without_rows(spark: SparkSession) -> None:
    """I1: over nothing, after the first row, and after the last one."""
    groups = FoldedGroups(spark, "id BIGINT, v INT", (), ("count(*)", "sum(v)", "max(v)"))
    groups.load([])
    groups.assert_truth()
    assert groups.results == {(): ("0", "None", "None")}
    for changed in ({1: (1, 5), 2: (2, None)}, {1: None}, {2: None}):
        groups.epoch(changed)
        groups.assert_truth()
    assert groups.results == {(): ("0", "None", "None")}


def _two_columns(spark: SparkSession, call: str, rows: Mapping[int, object], kind: str) -> FoldedGroups:
    """Return a view with one aggregate over the column ``v``, of one group."""
    groups = FoldedGroups(spark, f"id BIGINT, g INT, v {kind}", ("g",), (call, "count(*)"))
    groups.load([(key, 1, value) for key, value in rows.items()])
    return groups


@pytest.mark.parametrize(
    ("changed", "is_read_again"),
    [
        ({0: None}, True),  # the least value goes
        exhaustive({0: (0, 1, 9)}, True),  # … is replaced by a greater one
        exhaustive({0: (0, 1, 1)}, False),  # … by itself
        exhaustive({0: (0, 1, -1)}, False),  # … by a smaller one
        exhaustive({0: None, 9: (9, 1, 1)}, False),  # … goes, and comes in another row
        exhaustive({1: None}, False),  # another value goes
        exhaustive({0: (0, 2, 1)}, True),  # the least value moves to another group
        exhaustive({0: None, 1: None}, True),  # only a null is left, beside the greatest value
        exhaustive({0: None, 1: None, 2: None}, False),  # only a null is left
        exhaustive({0: None, 1: None, 2: None, 3: None}, False),  # nothing is left
    ],
)
def test_a_group_is_read_again_only_if_its_extreme_is_lost(
    spark: SparkSession, changed: dict[object, Values | None], is_read_again: bool
) -> None:
    groups = _two_columns(spark, "min(v)", {0: 1, 1: 3, 2: 5, 3: None}, "INT")
    groups.epoch(changed)
    groups.assert_truth()
    assert groups.read_again == ([(1,)] if is_read_again else [])


@pytest.mark.exhaustive
def test_a_group_is_gone_with_its_rows_and_not_if_its_sum_is_zero(spark: SparkSession) -> None:
    """I1: and a sum over nulls alone is NULL, not 0."""
    groups = _two_columns(spark, "sum(v)", {0: 2, 1: None}, "INT")
    groups.epoch({2: (2, 1, -2)})
    groups.assert_truth()
    assert groups.results == {(1,): ("0", "3")}
    groups.epoch({0: None, 2: None})
    groups.assert_truth()
    assert groups.results == {(1,): ("None", "1")}
    groups.epoch({1: None})
    groups.assert_truth()
    assert groups.results == {}


@pytest.mark.exhaustive
def test_an_average_is_rounded_once(spark: SparkSession) -> None:
    """I1: it is computed from the sum, and not from the last average."""
    groups = _two_columns(spark, "avg(v)", {key: Decimal(1) for key in range(3)}, "DECIMAL(5,0)")
    for key in range(3, 9):
        groups.epoch({key: (key, 1, Decimal(key % 2)), key - 3: None})
        groups.assert_truth()


@pytest.mark.exhaustive
def test_a_repeated_attempt_computes_the_same_state(spark: SparkSession) -> None:
    """I2: the state at the end of an epoch is computed from the one at its beginning, not added to what is there."""
    groups = _two_columns(spark, "sum(v)", {0: 1}, "INT")
    states, results, rows = dict(groups.states), dict(groups.results), dict(groups.rows)
    groups.epoch({1: (1, 1, 5)})
    first = groups.states
    groups.states, groups.results, groups.rows = states, results, rows
    groups.epoch({1: (1, 1, 5)})
    assert groups.states == first


@pytest.mark.parametrize(
    ("call", "kind", "value"),
    [
        ("sum(v)", "BIGINT", 2**63 - 1),
        exhaustive("sum(v)", "DECIMAL(38,0)", Decimal(6 * 10**37)),
        exhaustive("avg(v)", "DECIMAL(38,0)", Decimal(6 * 10**37)),
    ],
)
def test_a_sum_that_overflows_is_sparks_own_error_and_heals(
    spark: SparkSession, call: str, kind: str, value: int | Decimal
) -> None:
    """I6: the group is read again, so Spark fails as it does over all rows. Without the rows, the view is right."""
    one = type(value)(1)
    groups = _two_columns(spark, call, {0: one}, kind)
    rows = spark.createDataFrame([(1, one), (1, value), (1, value)], f"g INT, v {kind}")
    with pytest.raises(PySparkException, match="OVERFLOW|OUT_OF_RANGE") as expected:
        spark.sql(f"SELECT g, {call} FROM {{rows}} GROUP BY g", rows=rows).collect()
    with pytest.raises(PySparkException) as found:
        groups.epoch({1: (1, 1, value), 2: (2, 1, value)})
    assert found.value.getCondition() == expected.value.getCondition()
    groups.epoch({3: (3, 1, one)})
    groups.assert_truth()


def test_changes_that_contradict_the_state_are_refused(spark: SparkSession) -> None:
    """I6: a group cannot lose a row that it did not have."""
    groups = _two_columns(spark, "sum(v)", {0: 1}, "INT")
    groups.rows[5] = (5, 1, 1)
    with pytest.raises(PySparkException, match=IMPOSSIBLE):
        groups.epoch({0: None, 5: None})


@pytest.mark.exhaustive
def test_users_columns_may_have_the_names_of_hidden_ones(spark: SparkSession) -> None:
    groups = FoldedGroups(
        spark, "id BIGINT, __fold_rows INT, ___fold_sign INT", ("__fold_rows",), ("sum(___fold_sign)", "count(*)")
    )
    groups.load([(0, 1, 2), (1, 1, 3)])
    groups.epoch({0: None, 2: (2, 1, 9), 3: (3, None, 4)})
    groups.assert_truth()
    assert groups.results == {(1,): ("12", "2"), (None,): ("4", "1")}


def test_distinct_rows_are_groups_with_a_number_of_rows(spark: SparkSession) -> None:
    """I1: the second of two equal rows goes, and the value stays."""
    groups = FoldedGroups(spark, "id BIGINT, a INT, b STRING", ("a", "b"), ())
    groups.load([(0, 1, None), (1, 1, None), (2, None, "x")])
    assert len(groups.fold.columns) == 1
    groups.epoch({0: None, 2: None, 3: (3, None, None)})
    groups.assert_truth()
    assert set(groups.results) == {(1, None), (None, None)}
