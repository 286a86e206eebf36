"""
A table of a real PostgreSQL becomes a view while a writer that never rests writes to it, and everything dies.

The table, the jobs, the writes and the faults are drawn at random. After each epoch, the view must be the query over
the table as of the end of the epoch's window, up to the job's position. Triggers and a second replication slot give
that table; nothing of the package is used for it.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faults.campaign import Campaign, Outcome, Play
from faults.cdc.playing import Game
from faults.spark import spark_session
from faults.table_shapes import case_folder
from tests.postgres_server import postgres_server


@contextmanager
def _stage() -> Iterator[Play]:
    root = Path(tempfile.mkdtemp(prefix="backfill-faults-"))
    # The server's user must be able to enter it.
    root.chmod(0o755)
    try:
        with postgres_server(root / "data") as server, spark_session() as spark:

            def play(case: int, random: random.Random) -> Outcome:
                with case_folder(root, case, spark) as folder:
                    return Game(f"{case}/{random.random()}", random, server, spark, folder).play()

            yield play
    finally:
        shutil.rmtree(root, ignore_errors=True)


CAMPAIGN = Campaign(
    name="cdc",
    about="a table of a real PostgreSQL under a writer that never rests, while processes, connections and server die",
    quick=3,
    full=200,
    checks="epochs",
    stage=_stage,
)
