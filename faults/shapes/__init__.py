"""
Random tables, jobs and queries: upstreams, names, types, features, settings and queries.

Each case makes an upstream, and backfills it in a few epochs while the upstream changes. It ends **right** if after
every epoch the view is the query over rows that the case keeps separately. Or it ends **refused** by a named error that
is justified.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faults.campaign import Campaign, Outcome, Play
from faults.shapes.drawing import a_case
from faults.shapes.playing import Game
from faults.spark import spark_session
from faults.table_shapes import case_folder


@contextmanager
def _stage() -> Iterator[Play]:
    with spark_session() as spark, tempfile.TemporaryDirectory(prefix="backfill-faults-") as root:

        def play(number: int, random: random.Random) -> Outcome:
            case = a_case(random)
            try:
                with case_folder(Path(root), number, spark) as folder:
                    return Game(case, spark, folder).play()
            except Exception as error:
                error.add_note(f"drawn: {case.as_json()}")
                raise

        yield play


CAMPAIGN = Campaign(
    name="shapes",
    about="upstreams, names, types, features, settings and queries at random, each backfilled in a few epochs",
    quick=500,
    full=10_000,
    checks="epochs",
    stage=_stage,
    processes=2,
)
