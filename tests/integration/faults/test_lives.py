"""The campaign of lives on real Spark: a life ends right, and wrong rows and half-written views are found."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from faults.campaign import WrongError
from faults.lives import play
from faults.lives.case import Beginning, Life, Step
from faults.lives.playing import Game
from tests.integration.faults.small_table import TABLE

pytestmark = [pytest.mark.spark, pytest.mark.exhaustive]

LIFE = Life(
    tables=(TABLE,),
    seed=1,
    beginning=Beginning.ADOPTED_FROM_A_COPY,
    is_damaged=True,
    query="SELECT id, shop FROM upstream WHERE amount > 0",
    fields={"vnode_count": 2},
    changes=((), (("upstream", "mixture"),)),
    steps=(
        Step(
            query="SELECT id, shop FROM upstream WHERE amount > 3",
            fields={"cut_over": "on_approval"},
            changes=(("upstream", "column"),),
            is_approved=False,
        ),
        Step(
            query="SELECT id, shop, amount * 2 AS doubled FROM upstream WHERE amount > 3",
            fields={"cut_over": "on_approval"},
            changes=(("upstream", "mixture"),),
        ),
        Step(
            query="SELECT shop, count(*) AS n FROM upstream GROUP BY shop",
            fields={"cut_over": "auto"},
            changes=(("upstream", "move"),),
        ),
    ),
)


class Misled(Game):
    """Holds a view against another query than its own."""

    def _expected(self, query: str, versions: Mapping[str, int]) -> DataFrame:
        return super()._expected(query.replace("amount * 2", "amount * 3"), versions)


class Disturbed(Game):
    """Writes to the view between its epochs."""

    def _some_epochs(self) -> None:
        self._lake.sql("DELETE FROM {view} WHERE id IS NOT NULL")
        self._lake.sql("DELETE FROM {view} WHERE id IS NOT NULL")
        self._lake.sql("RESTORE TABLE {view} TO VERSION AS OF " + str(self._read_up_to))
        self._see()


def test_a_life_ends_right(spark: SparkSession, lake: Path) -> None:
    """A damaged table is refused and then repaired, one definition is never approved, and one takes a rebuild."""
    outcome = play(LIFE, spark, lake)
    assert outcome.result == "right"
    assert outcome.checks >= len(LIFE.steps)
    for what in ("1 refused", "1 approved", "2 proposed", "1 rebuilt"):
        assert what in outcome.about


def test_a_wrong_row_is_found(spark: SparkSession, lake: Path) -> None:
    with pytest.raises(WrongError, match="I1: .* rows missing"):
        Misled(LIFE, spark, lake).play()


def test_what_readers_must_not_see_is_found(spark: SparkSession, lake: Path) -> None:
    with pytest.raises(WrongError, match="I7: version .* is neither the view before nor the one after"):
        Disturbed(LIFE, spark, lake).play()
