"""
Topics of a real Kafka broker become views while a producer that never rests writes to them, and everything dies.

The topic, the jobs, the producer and the faults are drawn at random. After each epoch, a view must have every record
of a partition up to the last one that it has, once. When the producer pauses, it must have every committed record
once. A consumer of the case's own reads the records; nothing of the package is used for it.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faults.campaign import Campaign, Outcome, Play
from faults.kafka.jobs import CONNECTION
from faults.kafka.playing import Game
from faults.spark import spark_session
from faults.table_shapes import case_folder
from tests.kafka_broker import kafka_broker

_SETTINGS = {
    # What compaction leaves is asked for soon after.
    "log.cleaner.backoff.ms": "100",
    "log.retention.check.interval.ms": "100",
    "log.initial.task.delay.ms": "100",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}


@contextmanager
def _stage() -> Iterator[Play]:
    root = Path(tempfile.mkdtemp(prefix="backfill-faults-"))
    try:
        with kafka_broker(root / "broker", settings=_SETTINGS) as broker, spark_session() as spark:
            os.environ[f"AIRFLOW_CONN_{CONNECTION.upper()}"] = broker.connection()

            def play(case: int, random: random.Random) -> Outcome:
                with case_folder(root, case, spark) as folder:
                    return Game(case, random, broker, spark, folder).play()

            yield play
    finally:
        shutil.rmtree(root, ignore_errors=True)


CAMPAIGN = Campaign(
    name="kafka",
    about="topics of a real Kafka broker under a producer that never rests, while processes and the broker die",
    quick=2,
    full=200,
    checks="epochs",
    stage=_stage,
)
