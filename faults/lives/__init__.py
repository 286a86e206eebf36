"""
The lives of views at random: adopted or created, and given one definition after the other while everything goes on.

A case has one upstream and one view. A definition drops, adds or computes columns, filters in another way, groups by
something else, or says the same in other words. Some definitions wait for an approval, some are never approved, and
some take a rebuild beside the view. Attempts die, hang and are killed. After each epoch, the view is the query that the
epoch was pinned with, over rows that the case keeps for itself. Each version of the view is one of them, whole.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from faults.campaign import Campaign, Outcome
from faults.drawn_cases import drawn_cases
from faults.lives.case import Life, a_life
from faults.lives.playing import Game


def play(life: Life, spark: SparkSession, folder: Path) -> Outcome:
    """Play a case; it ends right, or as soon as Spark fails on the query itself."""
    return Game(life, spark, folder).outcome(life.summary())


CAMPAIGN = Campaign(
    name="lives",
    about="views that are created or adopted, and given other definitions; after each epoch the view is its query",
    quick=100,
    full=2_000,
    checks="epochs",
    stage=partial(drawn_cases, a_life, play, Life.summary),
    processes=2,
)
