"""
Random queries of groups over random tables of all types, whose rows move between groups.

A case has one upstream and several jobs. After every epoch of a finished view, the view is the user's query, which
Spark runs over rows that the case keeps separately. A query of the grammar must be accepted. In a tenth of the cases,
the queries must be refused, and the refusal must name what they are refused for.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from faults.campaign import RIGHT, Campaign, Outcome
from faults.drawn_cases import drawn_cases
from faults.groups.case import GroupsCase, a_case
from faults.groups.playing import Game


def play(case: GroupsCase, spark: SparkSession, folder: Path) -> Outcome:
    """Play a case; its result is right, or the error that ended all of its jobs."""
    game = Game(case, spark, folder)
    game.play()
    ends = Counter(job.ended or RIGHT for job in game.jobs)
    result = RIGHT if RIGHT in ends else next(iter(ends))
    counts = ", ".join(f"{count} {end}" for end, count in sorted(ends.items()))
    return Outcome(result, sum(job.checks for job in game.jobs), f"{counts} | {case.summary()}")


CAMPAIGN = Campaign(
    name="groups",
    about="queries of groups from a grammar over tables of all types; after each epoch the view is the query",
    quick=200,
    full=2_000,
    checks="epochs",
    stage=partial(drawn_cases, a_case, play, GroupsCase.summary),
    processes=2,
)
