"""
``python -m demo.playground``: Airflow with the example DAGs and an upstream that changes, to click through.

It reads the same environment variables as the demo. It triggers no DAG; the user does that.
"""

from __future__ import annotations

import sys
import time

from demo.airflow_server import AirflowServer
from demo.delta.jobs import write_jobs
from demo.delta.upstream import DeltaOrders
from demo.folder import short_path, size_from_environment
from demo.run import DemoRun
from demo.runner import run_demo

ROWS = 500_000
LOOK_EVERY = 5.0
DAGS = {
    "backfill_manual": "start any job by hand, with a form; throttle, pause, repair or cancel it",
    "backfill_scheduled": "one job, one DAG run after another",
    "backfill_on_upstream_commits": "unpause it: DAG runs start when there is something to read",
    "backfill_after_approval": "asks for approval before it begins",
    "backfill_in_order": "unpause it: one view on another",
    "backfill_compact": "unpause it: compacts a view's small files every night",
    "backfill_rebuild": "rebuild a view, at once or while it stays in service; undo a rebuild",
    "backfill_verify": "unpause it: compares a view with its query every Sunday, and repairs what differs",
    "backfill_watch": "sensors that wait for the others",
    "backfill_watchdog": "unpause it: checks every ten minutes for stalled jobs, and for changes that will be deleted",
}


def play(run: DemoRun) -> None:
    """Start everything, print the addresses, and keep it running until Ctrl-C."""
    size = size_from_environment(rows=ROWS)
    processes, terminal = run.processes, run.terminal
    airflow = AirflowServer(run.folder, size, processes)
    jobs = write_jobs(run.folder, size)
    upstream = DeltaOrders(run, size)
    terminal.heading("Airflow with the example DAGs, on SQLite, and Spark on this machine")
    airflow.begin_database()
    upstream.create()
    with terminal.step("starting scheduler, dag-processor, triggerer and api-server"):
        airflow.start(DAGS)
    upstream.start_writer()
    terminal.heading(f"Airflow is at {airflow.url} (no login), all backfills at {airflow.url}/plugin/backfills")
    for dag, what in DAGS.items():
        terminal.say(f"{airflow.url}/dags/{dag}: {what}")
    terminal.heading("The jobs in the form of backfill_manual")
    for file, what in jobs.items():
        terminal.say(f"{short_path(file)}: {what}")
    terminal.heading("Ctrl-C stops everything")
    while True:
        for component in airflow.revive():
            log = processes.log(f"airflow-{component}")
            terminal.say(f"Airflow's {component} reported nothing any more, and was started again; see {log}")
        processes.require_alive()
        time.sleep(LOOK_EVERY)


if __name__ == "__main__":
    # Ctrl-C is the normal end.
    sys.exit(run_demo("airflow", play, interrupted=0))
