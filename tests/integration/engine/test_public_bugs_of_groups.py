"""
Bugs that other engines had in views of groups, by their meaning.

Three jobs run over one upstream, epoch by epoch, and each test looks at what concerns its bug. The bugs that need no
Spark are in ``tests/unit/shapes/group/test_public_bugs.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.integration.engine.lakehouse import Lakehouse

pytestmark = [pytest.mark.spark, pytest.mark.exhaustive]

BEFORE = """
INSERT INTO {upstream} VALUES
  (1, NULL, 1, 1), (2, NULL, 2, 1), (3, 'counted', NULL, 1), (4, 'counted', NULL, 1), (5, 'most', 7, 1),
  (6, 'most', NULL, 1), (7, 'floats', 1, double('NaN')), (8, 'floats', 1, 2.5), (9, 'floats', 1, double('Infinity')),
  (10, 'least', 3, 1), (11, 'late', 1, 1), (20, 'top', 10, 1), (21, 'top', 20, 1), (30, 'ties', 1, 1),
  (31, 'ties', 1, 1), (32, 'ties', 1, 1), (40, 'chain', 30, 1)
"""

CHANGES = (
    (
        "UPDATE {upstream} SET v = v * 10 WHERE g IS NULL",
        "DELETE FROM {upstream} WHERE id IN (4, 5, 7, 9, 30)",
        "UPDATE {upstream} SET v = NULL WHERE id = 10",
        "INSERT INTO {upstream} VALUES (22, 'top', 30, 1), (41, 'chain', 40, 1)",
    ),
    ("DELETE FROM {upstream} WHERE id IN (10, 20)", "UPDATE {upstream} SET v = 80 WHERE id = 41"),
    ("DELETE FROM {upstream} WHERE id = 22",),
)
"""The changes before each epoch that follows the first load."""

LATE = "INSERT INTO {upstream} VALUES (12, 'late', 1, 1)"


@dataclass(frozen=True, slots=True)
class Views:
    """
    The rows of the views after an epoch of each.

    :param groups: the aggregates of each group.
    :param top: the numbers of the two first rows of each group.
    :param doubled: the rows of the view over the view of groups.
    """

    groups: dict[str | None, dict[str, Any]]
    top: dict[str, list[int]]
    doubled: dict[str, int]


@pytest.fixture(scope="module")
def epochs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[Views]:
    """The views after the first load, after each of the changes, and after one that came too late for its epoch."""
    folder = tmp_path_factory.mktemp("bugs")
    groups, top, doubled = (Lakehouse(spark, folder / name) for name in ("groups", "top", "doubled"))
    groups.make_upstream("id BIGINT, g STRING, v INT, x DOUBLE")
    top.upstream_path = groups.upstream_path
    doubled.upstream_path = groups.view_path
    groups.sql(BEFORE)
    groups.create(
        query="SELECT g, sum(v) AS total, count(v) AS known, count(*) AS n, max(v) AS most, min(v) AS least, "
        "sum(x) AS xs FROM upstream GROUP BY g",
        table_properties={"delta.enableChangeDataFeed": "true"},
    )
    top.create(
        query="SELECT id, g FROM upstream WHERE g IN ('top', 'ties') "
        "QUALIFY row_number() OVER (PARTITION BY g ORDER BY v DESC, id) <= 2"
    )
    groups.finish()
    top.finish()
    doubled.create(
        query="SELECT g, total * 2 AS doubled FROM upstream WHERE g = 'chain' AND total < 100",
        key=["g"],
        strategy="no_shuffle",
    )
    doubled.finish()
    found = [_views(groups, top, doubled)]
    for statements in CHANGES:
        for statement in statements:
            groups.sql(statement)
        for job in (groups, top, doubled):
            job.epoch()
        found.append(_views(groups, top, doubled))
    groups.sql("UPDATE {upstream} SET v = 2 WHERE id = 11")
    barrier = groups.inject()
    assert barrier is not None
    groups.sql(LATE)
    groups.run(barrier)
    found.append(_views(groups, top, doubled))
    groups.epoch()
    found.append(_views(groups, top, doubled))
    return found


def _views(groups: Lakehouse, top: Lakehouse, doubled: Lakehouse) -> Views:
    rows = [row.asDict() for row in groups.view().collect()]
    by_group = {row.pop("g"): row for row in rows}
    assert len(by_group) == len(rows)
    first: dict[str, list[int]] = {}
    for row in sorted(top.view().collect(), key=lambda row: row["id"]):
        first.setdefault(row["g"], []).append(row["id"])
    return Views(by_group, first, {row["g"]: row["doubled"] for row in doubled.view().collect()})


def test_a_null_group_is_one_group(epochs: list[Views]) -> None:
    """pgsql-ivm 31: matched by =, the group NULL got a second row beside its old one."""
    assert [views.groups[None]["total"] for views in epochs[:2]] == [3, 30]


def test_a_count_of_a_column_counts_no_nulls(epochs: list[Views]) -> None:
    """HIVE-25805, turso 8296: after a delete, count(x) had counted nulls."""
    assert [(views.groups["counted"]["known"], views.groups["counted"]["n"]) for views in epochs[:2]] == [
        (0, 2),
        (0, 1),
    ]


def test_a_maximum_whose_last_value_is_deleted_is_null(epochs: list[Views]) -> None:
    """FLINK-13216: the old maximum stayed, although only nulls were left."""
    assert [views.groups["most"]["most"] for views in epochs[:2]] == [7, None]


def test_a_sum_of_floats_is_finite_again_without_what_made_it_nan(epochs: list[Views]) -> None:
    """materialize 8492: NaN and infinities cannot be subtracted."""
    assert math.isnan(epochs[0].groups["floats"]["xs"])
    assert epochs[1].groups["floats"]["xs"] == 2.5


def test_a_minimum_follows_a_group_that_becomes_null_and_empty(epochs: list[Views]) -> None:
    """feldera 4248: an aggregate that is not linear, over a set that a change leaves without values, and then empty."""
    assert [views.groups.get("least", {}).get("least", "gone") for views in epochs[:3]] == [3, None, "gone"]


def test_a_row_that_was_pushed_out_and_deleted_does_not_come_back(epochs: list[Views]) -> None:
    """FLINK-20272, FLINK-27418: the top two got a row back that was deleted meanwhile."""
    assert [views.top["top"] for views in epochs[:4]] == [[20, 21], [21, 22], [21, 22], [21]]


def test_the_key_decides_between_rows_that_are_equal_in_the_order(epochs: list[Views]) -> None:
    """risingwave 12282: of a tie, any row was taken, and another one after the next change."""
    assert [views.top["ties"] for views in epochs[:2]] == [[30, 31], [31, 32]]


def test_a_view_on_a_view_has_one_row_of_a_group_and_drops_it_with_its_condition(epochs: list[Views]) -> None:
    """pg-trickle 332 and 413: the old total stayed beside the new one, and a row whose condition no longer held."""
    assert [views.doubled for views in epochs[:3]] == [{"chain": 60}, {"chain": 140}, {}]


def test_a_commit_between_planning_and_reading_counts_once_and_later(epochs: list[Views]) -> None:
    """trino 30990, dbt-core 138: delete and insert saw different rows, and a row was lost or counted twice."""
    assert [views.groups["late"]["total"] for views in epochs[-3:]] == [1, 2, 3]
