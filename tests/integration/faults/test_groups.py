"""The campaign of groups on real Spark: a case ends right or refused, and wrong rows are found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from faults.campaign import WrongError
from faults.groups import play
from faults.groups.case import GroupJob, GroupsCase
from faults.groups.playing import Game
from faults.groups.tables import Table
from faults.shapes.case import Case, Column, Gap
from faults.shapes.truth import Truth

pytestmark = pytest.mark.spark

ID, SHOP, AMOUNT = (
    Column(name=name, type=kind) for name, kind in (("id", "long"), ("shop", "string"), ("amount", "integer"))
)
TOTALS = "SELECT shop, sum(amount) AS total, count(*) AS n FROM upstream GROUP BY shop"
OTHERS = TOTALS.replace("sum(amount)", "CAST(max(amount) AS BIGINT)")
TABLE = Table((ID,), (SHOP,), (AMOUNT,))
UPSTREAM = Case(
    rows_seed=3,
    writer="delta-rs",
    columns=TABLE.columns,
    key=(("id", False),),
    rows=20,
    files=1,
    gaps=(Gap(), Gap(changes=("column", "mixture"))),
)


def case_of(query: str, refused_for: str = "") -> GroupsCase:
    return GroupsCase(TABLE, UPSTREAM, (GroupJob(query, 1, refused_for),))


@pytest.mark.exhaustive
def test_a_case_ends_right_and_one_whose_query_is_refused_ends_so(spark: SparkSession, lake: Path) -> None:
    outcome = play(case_of(TOTALS), spark, lake / "right")
    assert (outcome.result, outcome.checks >= 2) == ("right", True)
    refused = case_of(f"{TOTALS} ORDER BY total LIMIT 3", "ORDER BY")
    assert play(refused, spark, lake / "refused").result == "InvalidJobError"
    with pytest.raises(WrongError, match="not named is ROLLUP"):
        play(case_of(f"{TOTALS} LIMIT 3", "ROLLUP"), spark, lake / "another construct")
    with pytest.raises(WrongError, match="a query is refused"):
        play(case_of(f"{TOTALS} LIMIT 3"), spark, lake / "not expected")


def test_a_wrong_row_is_found(spark: SparkSession, lake: Path) -> None:
    game = Game(case_of(TOTALS), spark, lake)
    # The job's view has sums, and the truth maxima.
    game.jobs[0].truth = Truth(replace(UPSTREAM, job={"query": OTHERS}), spark.newSession())
    with pytest.raises(WrongError, match="I1: .* rows missing"):
        game.play()
