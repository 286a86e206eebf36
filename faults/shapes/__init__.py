"""
Random tables, jobs and queries: upstreams, names, types, features, settings and queries.

Each case makes an upstream, and backfills it in a few epochs while the upstream changes. It ends **right** if after
every epoch the view is the query over rows that the case keeps separately. Or it ends **refused** by a named error that
is justified.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from faults.campaign import Campaign, Outcome
from faults.drawn_cases import drawn_cases
from faults.shapes.case import Case
from faults.shapes.drawing import a_case
from faults.shapes.playing import Game


def play(case: Case, spark: SparkSession, folder: Path) -> Outcome:
    """Play a case to its end."""
    return Game(case, spark, folder).play()


CAMPAIGN = Campaign(
    name="shapes",
    about="upstreams, names, types, features, settings and queries at random, each backfilled in a few epochs",
    quick=500,
    full=10_000,
    checks="epochs",
    stage=partial(drawn_cases, a_case, play, Case.as_json),
    processes=2,
)
