"""
Runs one pinned epoch: ``spark-submit backfill_epoch.py --state LOCATION --epoch N``.

Everything else is in the control tables. Exits with 0 once the epoch is committed, by this run or by another; with 1
if it failed and may be tried again; with 3 if trying again cannot help.
"""

from __future__ import annotations

import argparse
import sys

from airflow_backfill_provider.engine.application import run_application, run_epoch

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run one pinned epoch of a backfill job.")
    parser.add_argument("--state", required=True, help="location of the job's control tables")
    parser.add_argument("--epoch", required=True, type=int, help="the pinned epoch to run")
    arguments = parser.parse_args()
    sys.exit(run_application(run_epoch, state=arguments.state, epoch=arguments.epoch))
