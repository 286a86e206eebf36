"""
Random queries over several tables, all of which change at random.

A case has two to five tables with keys, references between them, nulls and odd names, and a view over some of them.
After every epoch, the view is the user's query over the rows that the case keeps of each table, as of the versions that
the epoch pinned. A query of the grammar must be accepted.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from faults.campaign import RIGHT, Campaign, Outcome
from faults.drawn_cases import drawn_cases
from faults.joins.case import JoinsCase, a_case
from faults.joins.playing import Game
from faults.table_histories import QueryFails


def play(case: JoinsCase, spark: SparkSession, folder: Path) -> Outcome:
    """Play a case; it ends right, or as soon as Spark fails on the query itself."""
    game, result = Game(case, spark, folder), RIGHT
    try:
        game.play()
    except QueryFails:
        result = "QueryFailedError"
    happened = ", ".join(f"{count} {what}" for what, count in sorted(game.job.happened.items()))
    twice = f"{game.truth.computed_twice} computed by both engines"
    return Outcome(result, game.job.checks, f"{twice} | {happened} | {case.summary()}")


CAMPAIGN = Campaign(
    name="joins",
    about="queries over several tables that all change; after each epoch the view is the query over pinned versions",
    quick=200,
    full=2_000,
    checks="epochs",
    stage=partial(drawn_cases, a_case, play, JoinsCase.summary),
)
