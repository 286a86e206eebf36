"""
Named points × {raise, hang and resume later} × shapes of tables × random changes, on real Spark.

An attempt of an epoch or a rebuild reaches a point and fails there. Or it hangs there until others have committed that
epoch and perhaps the next one, and then continues as a zombie. Then the job runs to its end.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from faults.campaign import Campaign, Outcome, Play
from faults.spark import spark_session
from faults.table_shapes import OF_CREATIONS, SHAPES, Shape, Stage, change, require_right, stage
from tests.dying import died
from tests.integration.engine import connect_client
from tests.integration.engine.attempts import Asleep
from tests.integration.engine.lakehouse import Lakehouse, UnlockedEngine

MODES = ("raise", "hang")

COMBINATIONS = [
    (shape, point, mode)
    for shape in SHAPES
    for point in CrashPoint
    if point in shape.points | OF_CREATIONS
    for mode in MODES
]
random.Random("failpoints").shuffle(COMBINATIONS)


def play_point(stage: Stage, shape: Shape, point: CrashPoint, mode: str, random: random.Random) -> Outcome:
    """Play one combination."""
    lakehouse = stage.restore(shape)
    change(lakehouse, random, random.randint(1, 3))
    work = _work(lakehouse, point)
    reached = died(point, work) if mode == "raise" else _hang(lakehouse, point, work, random)
    epochs = require_right(lakehouse)
    return Outcome(
        checks=epochs, about=f"{shape.name}: {mode} at {point}{'' if reached else ', which was not reached'}"
    )


def _work(lakehouse: Lakehouse, point: CrashPoint) -> Callable[[], object]:
    mine = Lakehouse(lakehouse.spark, lakehouse.folder)
    mine.job, mine.engine = lakehouse.job, UnlockedEngine(lakehouse.spark.newSession())
    if point in OF_CREATIONS:
        return lambda: _rebuild(mine)
    return lambda: _epoch(mine)


def _rebuild(lakehouse: Lakehouse) -> None:
    assert lakehouse.job is not None
    fields = lakehouse.job.model_dump(mode="json")
    lakehouse.rebuild(**{name: fields[name] for name in fields if name not in {"name", "materialized_view", "state"}})


def _epoch(lakehouse: Lakehouse) -> None:
    barrier = lakehouse.inject()
    if barrier is not None:
        connect_client.run(barrier, lakehouse.backfill, lakehouse.engine)


def _hang(lakehouse: Lakehouse, point: CrashPoint, work: Callable[[], object], random: random.Random) -> bool:
    asleep = Asleep(point, work)
    before, lakehouse.engine = lakehouse.engine, UnlockedEngine(lakehouse.spark.newSession())
    if point in OF_CREATIONS and random.random() < 0.5:
        _rebuild(lakehouse)
    for _ in range(random.randint(1, 2)):
        _epoch(lakehouse)
        change(lakehouse, random, 1)
    asleep.ends()
    lakehouse.engine = before
    return asleep.hung


@contextmanager
def _stage() -> Iterator[Play]:
    with spark_session() as spark, stage(spark) as made:

        def play(case: int, random: random.Random) -> Outcome:
            shape, point, mode = COMBINATIONS[case % len(COMBINATIONS)]
            return play_point(made, shape, point, mode, random)

        yield play


CAMPAIGN = Campaign(
    name="failpoints",
    about="named points × {raise, hang and resume later} × shapes of tables × random changes, on real Spark",
    quick=48,
    full=1_440,
    checks="epochs",
    stage=_stage,
)
