"""
Random queries over several tables, all of which change at random.

A case has two to five tables with keys, references between them, nulls and odd names, and a view over some of them.
After every epoch, the view is the user's query over the rows that the case keeps of each table, as of the versions that
the epoch pinned. A query of the grammar must be accepted.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from faults.campaign import Campaign, Outcome, Play
from faults.joins.case import JoinsCase, a_case
from faults.joins.playing import Game
from faults.spark import spark_session
from faults.table_shapes import case_folder


def play(case: JoinsCase, spark: SparkSession, folder: Path) -> Outcome:
    """Play a case to its right end."""
    game = Game(case, spark, folder)
    game.play()
    happened = ", ".join(f"{count} {what}" for what, count in sorted(game.job.happened.items()))
    twice = f"{game.truth.computed_twice} computed by both engines"
    return Outcome(checks=game.job.checks, about=f"{twice} | {happened} | {case.summary()}")


@contextmanager
def _stage() -> Iterator[Play]:
    with spark_session() as spark, tempfile.TemporaryDirectory(prefix="backfill-faults-") as root:

        def play_one(number: int, random: random.Random) -> Outcome:
            case = a_case(random)
            try:
                with case_folder(Path(root), number, spark) as folder:
                    return play(case, spark, folder)
            except Exception as error:
                error.add_note(f"drawn: {case.summary()}")
                raise

        yield play_one


CAMPAIGN = Campaign(
    name="joins",
    about="queries over several tables that all change; after each epoch the view is the query over pinned versions",
    quick=200,
    full=2_000,
    checks="epochs",
    stage=_stage,
)
