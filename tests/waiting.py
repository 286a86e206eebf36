"""A task run that waits for its application while a test does something else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from airflow.sdk.exceptions import AirflowException


def start_waiting(
    run: Callable[[], None], ready: Path, seconds: float = 30
) -> tuple[threading.Thread, list[AirflowException]]:
    """
    Let a task run wait in a thread, and return once its application runs.

    :param run: submits the application and waits for its end.
    :param ready: the file that the application makes as soon as it runs.
    :param seconds: how long to wait for it.
    :returns: the thread, and what the task run failed with by its end.
    """
    failures: list[AirflowException] = []

    def wait() -> None:
        try:
            run()
        except AirflowException as error:
            failures.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    until = time.monotonic() + seconds
    while not ready.exists() and time.monotonic() < until:
        time.sleep(0.02)
    return thread, failures
