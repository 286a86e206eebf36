"""
Verify a view: ``spark-submit backfill_verify.py verify --state LOCATION --requester JSON [--steps N]``.

``repair`` instead of ``verify`` repairs what the newest verification found to differ, and then verifies. The result is
in the control table ``verifications``; a view that differs is not a failure. The exit codes are those of
``backfill_epoch.py``.
"""

from __future__ import annotations

import argparse
from functools import partial

from airflow_backfill_provider.applications.process_end import end_process_with
from airflow_backfill_provider.applications.spark_application import repair, run_application, verify
from airflow_backfill_provider.core.job.requester import Requester

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Verify the view of a backfill job, or repair what differs in it.")
    parser.add_argument("action", choices=["verify", "repair"])
    parser.add_argument("--state", required=True, help="location of the job's control tables")
    parser.add_argument("--requester", required=True, type=Requester.model_validate_json, help="who asks, as JSON")
    parser.add_argument("--steps", type=int, help="with verify: how many steps a new verification has")
    arguments = parser.parse_args()
    if arguments.action == "repair" and arguments.steps is not None:
        parser.error("--steps belongs to verify")
    who = {"state": arguments.state, "requester": arguments.requester}
    if arguments.action == "verify":
        end_process_with(partial(run_application, verify, **who, steps=arguments.steps))
    end_process_with(partial(run_application, repair, **who))
