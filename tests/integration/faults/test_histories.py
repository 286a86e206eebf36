"""The campaign of histories on real Spark: a case ends right, and a former row that is missing or wrong is found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from faults.campaign import WrongError
from faults.histories import play
from faults.histories.case import Past
from faults.histories.playing import Game, Row
from tests.integration.faults.small_table import TABLE

pytestmark = [pytest.mark.spark, pytest.mark.exhaustive]

ROWS = Past(
    tables=(TABLE,),
    seed=1,
    query="SELECT id, shop FROM upstream WHERE amount > 0",
    identity=1,
    by_version=True,
    fields={"vnode_count": 2, "keep": "history", "strategy": "snapshot"},
    begins_earlier=True,
    changes=((("upstream", "mixture"),), (("upstream", "update"), ("upstream", "delete")), (("upstream", "mixture"),)),
)
GROUPS = replace(
    ROWS,
    query="SELECT shop, count(*) AS n FROM upstream GROUP BY shop",
    by_version=False,
    begins_earlier=False,
)
DELETED = {"vnode_count": 2, "keep": "deleted", "strategy": "snapshot"}


class Damaged(Game):
    """A game in which the view lacks a row at the end, as if a writer had lost it."""

    def _kept(self) -> list[Row]:
        return super()._kept()[1:]


@pytest.mark.parametrize(
    "past", [ROWS, GROUPS, replace(ROWS, fields=DELETED), replace(GROUPS, fields=DELETED)], ids=lambda past: past.query
)
def test_a_history_ends_right_and_a_row_that_is_lost_is_found(spark: SparkSession, lake: Path, past: Any) -> None:
    assert play(past, spark, lake / "right").result == "right"
    with pytest.raises(WrongError, match="I1: .*missing"):
        Damaged(past, spark, lake / "wrong").play()
