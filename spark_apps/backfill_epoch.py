"""
Runs one pinned epoch: ``spark-submit backfill_epoch.py --state LOCATION --epoch N``.

``--epochs M`` goes on after it, epoch by epoch, until the task run that pinned it has carried M in all its tries or
there is nothing left to do; ``--until INSTANT`` bounds what these read of the upstream.

Where several applications share an epoch, ``--step changes`` applies its changes and ``--step snapshot --part I`` reads
one part of its chunk; the one that is done last commits the epoch.

Everything else is in the control tables. Exits with 0 once that is done, by this run or by another; with 1 if it
failed and may be tried again; with 3 if trying again cannot help.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys

from airflow_backfill_provider.runtime.spark_application import run_application, run_changes, run_epochs, run_part

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run one pinned epoch of a backfill job, or one step of it.")
    parser.add_argument("--state", required=True, help="location of the job's control tables")
    parser.add_argument("--epoch", required=True, type=int, help="the pinned epoch to run")
    parser.add_argument("--epochs", default=1, type=int, help="how many the task run that pinned it carries at most")
    parser.add_argument("--until", type=dt.datetime.fromisoformat, help="up to which instant of the upstream they go")
    parser.add_argument("--step", choices=["changes", "snapshot"], help="one step of it; by default all")
    parser.add_argument("--part", type=int, help="with --step snapshot: which part of the chunk, from 0")
    arguments = parser.parse_args()
    if (arguments.step == "snapshot") != (arguments.part is not None):
        parser.error("--part belongs to --step snapshot")
    of_epoch = {"state": arguments.state, "epoch": arguments.epoch}
    match arguments.step:
        case "changes":
            sys.exit(run_application(run_changes, **of_epoch))
        case "snapshot":
            sys.exit(run_application(run_part, **of_epoch, part=arguments.part))
        case _:
            sys.exit(run_application(run_epochs, **of_epoch, epochs=arguments.epochs, until=arguments.until))
