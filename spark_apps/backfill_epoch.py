"""
Runs one pinned epoch: ``spark-submit backfill_epoch.py --state LOCATION --epoch N``.

Where several applications share an epoch, ``--step changes`` applies its changes and ``--step snapshot --part I`` reads
one part of its chunk; the one that is done last commits the epoch.

Everything else is in the control tables. Exits with 0 once that is done, by this run or by another; with 1 if it
failed and may be tried again; with 3 if trying again cannot help.
"""

from __future__ import annotations

import argparse
import sys

from airflow_backfill_provider.engine.application import run_application, run_changes, run_epoch, run_part

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run one pinned epoch of a backfill job, or one step of it.")
    parser.add_argument("--state", required=True, help="location of the job's control tables")
    parser.add_argument("--epoch", required=True, type=int, help="the pinned epoch to run")
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
            sys.exit(run_application(run_epoch, **of_epoch))
