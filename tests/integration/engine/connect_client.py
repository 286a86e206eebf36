"""
One attempt of a job's next epoch in a process of its own: ``connect_client.py REMOTE STATE POINT``.

A job with parallel runs has its epoch done step by step, as several applications would that share it.

Talks to a warm Spark Connect server, injects, runs, and dies by SIGKILL at the named crash point, if one is given. It
is also the proof that the engine works through Spark Connect.
"""

from __future__ import annotations

import os
import signal
import sys

from airflow_backfill_provider import crash_points, protocol
from airflow_backfill_provider.backfill import Backfill
from airflow_backfill_provider.core.barrier import Barrier, Requester
from airflow_backfill_provider.core.remote import Remote
from airflow_backfill_provider.engine.connect import connected
from airflow_backfill_provider.engine.connect_engine import ConnectEngine


def main(remote: str, state: str, point: str) -> None:
    """Run the next epoch, up to the crash point."""

    def die(reached: crash_points.CrashPoint) -> None:
        if reached == point:
            os.kill(os.getpid(), signal.SIGKILL)

    crash_points.install(die)
    backfill = Backfill.at(state)
    injection = protocol.inject_barrier(
        store=backfill.store, upstream=backfill.upstream, requester=Requester(user="client")
    )
    if injection.barrier is None:
        return
    with connected(Remote.parse(remote), what="client") as connection:
        run(injection.barrier, backfill, ConnectEngine(connection, None, run="epoch"))


def run(barrier: Barrier, backfill: Backfill, engine: ConnectEngine) -> None:
    """Run a pinned epoch, step by step if several runs share it."""
    if barrier.parallelism == 1:
        protocol.run_barrier(barrier, store=backfill.store, engine=engine)
        return
    protocol.run_changes(barrier, store=backfill.store, engine=engine)
    for part in range(len(barrier.parts)):
        protocol.run_part(barrier, part, store=backfill.store, engine=engine)


if __name__ == "__main__":
    main(*sys.argv[1:])
