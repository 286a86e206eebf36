"""
A job with programs as applications that wait until the test lets them run, so that it can kill a process meanwhile.

An application runs once the file ``go`` exists; a task run dies right after it starts one if the file ``die`` exists.
"""

from __future__ import annotations

import datetime as dt
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from airflow_backfill_provider.dag_factory import backfill_dag
from airflow_backfill_provider.hooks.spark_application import SparkApplicationHook
from airflow_backfill_provider.hooks.supervised_application import SupervisedApplication
from tests.unit.stand_in import Lake

LAKE = Path(os.environ["ORDERS_LAKE"])

PROGRAM = """
import os, sys, time
from pathlib import Path
for section in ("CORE", "DATABASE"):
    os.environ.pop(f"AIRFLOW__{section}__SQL_ALCHEMY_CONN", None)  # unreadable on purpose in a task's process
from tests.unit.stand_in import Lake, StandInSpark
folder, application, *arguments = sys.argv[1:]
lake = Lake(Path(folder))
while not (lake.folder / "go").exists():
    time.sleep(0.1)
StandInSpark().run(lake.backfill, application, arguments)
"""

start = SupervisedApplication.start


def start_and_perhaps_die(self: SupervisedApplication, *call: Any) -> Any:
    """Start an application; the task run may die right afterwards."""
    record = start(self, *call)
    die = LAKE / "die"
    if die.exists():
        die.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    return record


def command(_: SparkApplicationHook, application: str, arguments: Sequence[str]) -> list[str]:
    """Return the program's command line."""
    with (LAKE / "started").open("a", encoding="utf-8") as log:
        log.write(f"{' '.join(arguments[-2:])}\n")
    return [sys.executable, "-c", PROGRAM, str(LAKE), application, *arguments]


SupervisedApplication.start = start_and_perhaps_die  # type: ignore[assignment, method-assign]
SparkApplicationHook.command = command  # type: ignore[assignment, method-assign]

for dag_id in ("orders", "orders_too"):
    globals()[dag_id] = backfill_dag(
        Lake(LAKE).definition,
        dag_id=dag_id,
        is_paused_upon_creation=False,
        default_args={"retry_delay": dt.timedelta(seconds=1)},
    )
