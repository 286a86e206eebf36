"""
Real SIGKILL: attempts of epochs in separate processes die at named points and at random moments, even inside commits.

They are clients of the campaign's Spark, so each costs seconds but no JVM. A case is one job, killed again and again
while its upstream changes.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faults.campaign import Campaign, Outcome, Play
from faults.spark import spark_session
from faults.table_shapes import SHAPES, Shape, begin, change, require_right
from tests.connect_server import address_of
from tests.integration.engine import connect_client
from tests.integration.engine.attempts import is_killed
from tests.integration.engine.lakehouse import Lakehouse

KILLS = 12
"""The number of kills in a case."""

MOST_SECONDS = 6.0
"""The time after which an attempt at these sizes is done."""


def play_kills(lakehouse: Lakehouse, remote: str, shape: Shape, random: random.Random) -> Outcome:
    """Kill a job's attempts again and again, then run the job to its end."""
    begin(lakehouse, shape)
    assert lakehouse.job is not None
    killed = []
    points = sorted(shape.points)
    for _ in range(KILLS):
        if random.random() < 0.5:
            point = f"{connect_client.AFTER}{random.uniform(1.0, MOST_SECONDS):.2f}"
        else:
            point = str(random.choice(points))
        if is_killed(remote, lakehouse.job.state, point):
            killed.append(point)
        if random.random() < 0.4:
            change(lakehouse, random, 1)
    require_right(lakehouse)
    return Outcome(checks=len(killed), about=f"{shape.name}: {', '.join(killed)}")


@contextmanager
def _stage() -> Iterator[Play]:
    with tempfile.TemporaryDirectory(prefix="backfill-faults-") as folder, spark_session() as spark:
        remote = address_of(spark)

        def play(case: int, random: random.Random) -> Outcome:
            job_folder = Path(folder, f"job-{case}")
            job_folder.mkdir()
            return play_kills(Lakehouse(spark, job_folder), remote, SHAPES[case % len(SHAPES)], random)

        yield play


CAMPAIGN = Campaign(
    name="kills",
    about="attempts in separate processes, killed at named points and at random moments, even inside commits",
    quick=2,
    full=32,
    checks="kills",
    stage=_stage,
)
