"""
Views that keep former rows, over tables that change at random: what is kept is what a plain history says.

A case has one table or several, and a view of rows, of groups or of a join with ``keep: deleted`` or ``history``. Some
views begin before their job. Attempts die, hang and are killed. After each epoch, the present rows are the query over
rows that the case keeps for itself. At the end, the former rows of a view of rows are those of each version of its
table. Those of any other view are what its query gave after each epoch.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from faults.campaign import Campaign, Outcome
from faults.drawn_cases import drawn_cases
from faults.histories.case import Past, a_past
from faults.histories.playing import Game


def play(past: Past, spark: SparkSession, folder: Path) -> Outcome:
    """Play a case; it ends right, or as soon as Spark fails on the query itself."""
    return Game(past, spark, folder).outcome(past.summary())


CAMPAIGN = Campaign(
    name="histories",
    about="views that keep former rows; these are what each version, or each epoch, left",
    quick=100,
    full=2_000,
    checks="comparisons",
    stage=partial(drawn_cases, a_past, play, Past.summary),
    processes=2,
)
