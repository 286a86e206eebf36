"""
One attempt of a job's next epoch, which a process of its own makes; :mod:`.attempts` starts it.

With a number of epochs, it is a try of one task run that runs all of them, and dies in the second one. Otherwise, it
runs an epoch that task runs share step by step, as their applications would.

Talks to a warm Spark Connect server, injects, runs, and dies by SIGKILL at the named crash point, if one is given, or
``after 1.5`` seconds, wherever it is then. It also proves that the engine works through Spark Connect.
"""

from __future__ import annotations

import os
import signal
import threading

from airflow_backfill_provider import protocol
from airflow_backfill_provider.applications.connect import connected
from airflow_backfill_provider.applications.connect_engine import ConnectEngine
from airflow_backfill_provider.applications.spark_settings import storage_options_from_environment
from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.remote import Remote
from airflow_backfill_provider.engine.spark_engine import SparkEngine
from airflow_backfill_provider.jobs.backfill import Backfill

AFTER = "after "
TASK = Requester(dag_id="orders", run_id="run_1", task_id="run_epoch")


def main(remote: str, state: str, point: str, epochs: str = "") -> None:
    """Run the next epoch, or several, up to the crash point."""
    options = storage_options_from_environment()
    backfill = Backfill.at(state, options)

    def die(reached: crash_points.CrashPoint) -> None:
        if reached == point and (not epochs or backfill.store.epochs_of(TASK).commits):
            os.kill(os.getpid(), signal.SIGKILL)

    crash_points.install(die)
    if point.startswith(AFTER):
        threading.Timer(float(point.removeprefix(AFTER)), os.kill, (os.getpid(), signal.SIGKILL)).start()
    injection = protocol.inject_barrier(
        store=backfill.store,
        upstream=backfill.upstream,
        requester=TASK if epochs else Requester(user="client"),
        epochs=int(epochs or 1),
    )
    if injection.barrier is None:
        return
    with connected(Remote.parse(remote), what="client") as connection:
        engine = ConnectEngine(connection, options, purpose="epoch")
        if epochs:
            run_several(injection.barrier, backfill, engine, int(epochs))
        else:
            run(injection.barrier, backfill, engine)


def run_several(barrier: Barrier, backfill: Backfill, engine: ConnectEngine, epochs: int) -> None:
    """Run a pinned epoch, and the later ones of its task run."""
    for _ in protocol.run_epochs(
        barrier, store=backfill.store, upstream=backfill.upstream, engine=lambda _: engine, epochs=epochs
    ):
        pass


def run(barrier: Barrier, backfill: Backfill, engine: SparkEngine) -> None:
    """Run a pinned epoch, step by step if several task runs share it."""
    if barrier.parallelism == 1:
        protocol.run_epoch(barrier, store=backfill.store, engine=engine)
        return
    protocol.apply_changes(barrier, store=backfill.store, engine=engine)
    for part in range(len(barrier.parts)):
        protocol.read_chunk_part(barrier, part, store=backfill.store, engine=engine)
