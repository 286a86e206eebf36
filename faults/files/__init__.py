"""
Folders of files become views while files come, move, are corrected and removed, and attempts die.

The files, their values and the jobs are drawn at random: some values do not fit their columns, and some times lie
outside the calendar. After each epoch, no row may be in a view twice, or with another value. At the end, each row that
was read is in the view, or a dead letter, or the job was refused by name. The case knows the rows that it wrote.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faults.campaign import Campaign, Outcome, Play
from faults.files.playing import Game
from faults.spark import spark_session
from faults.table_shapes import case_folder


@contextmanager
def _stage() -> Iterator[Play]:
    root = Path(tempfile.mkdtemp(prefix="backfill-faults-"))
    try:
        with spark_session() as spark:

            def play(case: int, random: random.Random) -> Outcome:
                with case_folder(root, case, spark) as folder:
                    return Game(case, random, spark, folder).play()

            yield play
    finally:
        shutil.rmtree(root, ignore_errors=True)


CAMPAIGN = Campaign(
    name="files",
    about="folders whose files come, move and are corrected, with values that fit no column, while attempts die",
    quick=3,
    full=200,
    checks="comparisons",
    stage=_stage,
)
