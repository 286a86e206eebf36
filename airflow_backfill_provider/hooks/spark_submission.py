"""
Submits an application to a cluster and waits for it: ``python -m airflow_backfill_provider.hooks.spark_submission``.

This is for deploy mode ``cluster``, where the driver runs on another machine: only the Spark provider's hook can find
out its result, and can end it. The Spark connection and the configuration come in the environment.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType

from airflow_backfill_provider.core.application import DONE, ERROR_PREFIX, FAILED, FAILED_FOR_GOOD, LOG_VARIABLE


def main(application: str, arguments: Sequence[str]) -> int:
    """Run the application to its end and return its exit code."""
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    from airflow_backfill_provider.hooks.spark_application import SparkApplicationHook
    from airflow_backfill_provider.hooks.submission_environment import SUBMISSION_VARIABLE
    from airflow_backfill_provider.hooks.watched_output import WatchedOutput

    # The supervisor reads this process's output, and finds the messages in it.
    output = WatchedOutput(sys.stdout, os.environ.get(LOG_VARIABLE, "the log of the submission"), say=lambda _: None)
    hook = SparkApplicationHook(**json.loads(os.environ[SUBMISSION_VARIABLE]))

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        # Use another thread: on_kill logs, and this thread may hold the log's lock.
        threading.Thread(target=hook.on_kill).start()

    signal.signal(signal.SIGTERM, stop)
    try:
        hook.run(application, arguments, output)
    except AirflowException as error:
        print(f"{ERROR_PREFIX}{' '.join(str(error).split())}", file=sys.stderr, flush=True)  # noqa: T201 - read by the submitter
        return FAILED_FOR_GOOD if isinstance(error, AirflowFailException) else FAILED
    return DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
