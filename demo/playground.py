"""
``python -m demo.playground``: Airflow with the example DAGs and an upstream that changes, to click through.

Takes the variables of the demo; nothing is triggered, that is for the user to do.
"""

from __future__ import annotations

import sys
import time

from airflow_backfill_provider.core import text
from demo.airflow_server import AirflowServer
from demo.job import write_jobs
from demo.places import Places, shown, size_from_environment
from demo.processes import Processes
from demo.stage import perform
from demo.terminal import Terminal
from demo.upstream import create_orders

ROWS = 500_000
LOOK_EVERY = 1.0
DAGS = {
    "backfill_manual": "start any job by hand, with a form; throttle, pause, repair or cancel it",
    "backfill_scheduled": "one job, one run after another",
    "backfill_on_upstream_commits": "unpause it: runs start when there is something to read",
    "backfill_after_approval": "asks before it begins",
    "backfill_in_order": "unpause it: one view on another",
    "backfill_compact": "unpause it: every night, a view's small files are written together",
    "backfill_verify": "unpause it: every Sunday, a view is compared with its query, and repaired where it differs",
    "backfill_watch": "sensors that wait for the others",
    "backfill_watchdog": "unpause it: looks every ten minutes whether a job stalls, or changes will soon be gone",
}


def show(places: Places, processes: Processes, terminal: Terminal) -> None:
    """Bring everything up, say where it is, and keep it up until Ctrl-C."""
    size = size_from_environment(rows=ROWS)
    airflow = AirflowServer(places, size, processes)
    jobs = write_jobs(places, size)
    terminal.heading("Airflow with the example DAGs, on SQLite, and Spark on this machine")
    airflow.begin_database()
    with terminal.step(f"writing {text.rows(size.rows)} to {shown(places.orders)}"):
        create_orders(places.orders, size.rows)
    with terminal.step("starting scheduler, dag-processor, triggerer and api-server"):
        airflow.start(DAGS)
    processes.start(
        "writer",
        [
            *(sys.executable, "-m", "demo.writer", str(places.orders), "--seed", "11"),
            *("--report", str(places.writer_report), "--pause", str(size.pause)),
        ],
    )
    terminal.heading(f"Airflow is at {airflow.url} (no login), all backfills at {airflow.url}/plugin/backfills")
    for dag, what in DAGS.items():
        terminal.say(f"{airflow.url}/dags/{dag}: {what}")
    terminal.heading("The jobs, which the form of backfill_manual offers")
    for file, what in jobs.items():
        terminal.say(f"{shown(file)}: {what}")
    terminal.heading("Ctrl-C stops everything")
    while True:
        processes.require_alive()
        time.sleep(LOOK_EVERY)


if __name__ == "__main__":
    # Ctrl-C is how it is meant to end.
    sys.exit(perform("airflow", show, interrupted=0))
