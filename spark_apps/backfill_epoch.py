"""
Run one pinned epoch: ``spark-submit backfill_epoch.py --state LOCATION --epoch N``.

``--epochs M`` runs further epochs, until the task run that pinned the first one has run M in all its tries or nothing
is left to do; ``--until INSTANT`` is the time up to which these read the upstream.

If several applications share an epoch, ``--step apply_changes`` applies its changes and ``--step
read_chunk_part --part I`` reads one part of its chunk; the application that ends last commits the epoch.

Everything else is in the control tables. The exit code is 0 if the work is done, by this application or another one; 1
if it failed and a retry can help; 3 if a retry cannot help.
"""

from __future__ import annotations

import argparse
import datetime as dt
from functools import partial

from airflow_backfill_provider.applications.process_end import end_process_with
from airflow_backfill_provider.applications.spark_application import (
    apply_changes,
    read_chunk_part,
    run_application,
    run_epochs,
)

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run one pinned epoch of a backfill job, or one step of it.")
    parser.add_argument("--state", required=True, help="location of the job's control tables")
    parser.add_argument("--epoch", required=True, type=int, help="the pinned epoch to run")
    parser.add_argument("--epochs", default=1, type=int, help="how many epochs the task run that pinned it may run")
    parser.add_argument("--until", type=dt.datetime.fromisoformat, help="the time up to which they read the upstream")
    steps = ["apply_changes", "read_chunk_part"]
    parser.add_argument("--step", choices=steps, help="one step of the epoch; by default all")
    parser.add_argument("--part", type=int, help="with --step read_chunk_part: which part of the chunk, from 0")
    arguments = parser.parse_args()
    if (arguments.step == "read_chunk_part") != (arguments.part is not None):
        parser.error("--part belongs to --step read_chunk_part")
    of_epoch = {"state": arguments.state, "epoch": arguments.epoch}
    match arguments.step:
        case "apply_changes":
            end_process_with(partial(run_application, apply_changes, **of_epoch))
        case "read_chunk_part":
            end_process_with(partial(run_application, read_chunk_part, **of_epoch, part=arguments.part))
        case _:
            end_process_with(
                partial(run_application, run_epochs, **of_epoch, epochs=arguments.epochs, until=arguments.until)
            )
