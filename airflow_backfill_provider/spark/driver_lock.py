"""
A lock that allows one driver at a time on local tables.

Spark's log store for local files is atomic only inside one JVM: two JVMs that commit to a table at the same time can
leave an unreadable log. The epoch protocol is safe with any number of drivers, but the local file system is not, so
drivers of one job take turns. The operating system releases a lock when its process ends. If a holder gives no sign of
life, its process is stopped or hangs, and others go on without the lock. If it wakes up, the protocol makes its writes
no-ops.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from airflow_backfill_provider.lake.store.storage import storage_errors

KEPT_ALIVE_EVERY = 2.0
"""Seconds between signs of life of a holder."""

DEAD_AFTER = 20.0
"""Seconds without a sign of life after which others no longer wait for a holder."""

_POLLS_PER_SIGN = 4

logger = logging.getLogger(__name__)


@contextmanager
def driver_lock(folder: Path) -> Iterator[None]:
    """
    Hold the lock of a local job while the block runs.

    :param folder: the job's control tables.
    :raises StorageUnavailableError: if the lock file cannot be created.
    """
    with storage_errors(str(folder)):
        folder.mkdir(parents=True, exist_ok=True)
        opened = (folder / ".driver.lock").open("a+")
    with opened as file:
        held = _acquire(file)
        stop = threading.Event()
        if held:
            threading.Thread(target=_keep_alive, args=(file, stop), daemon=True).start()
        try:
            yield
        finally:
            stop.set()


def _acquire(file: IO[str]) -> bool:
    """Wait for the lock; return ``False`` if its holder hangs, so that others go on without the lock."""
    logged = False
    silent_polls = 0
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            silent = time.time() - os.fstat(file.fileno()).st_mtime
            # One look is not enough: a process that just got the lock gives its first sign of life a moment later.
            silent_polls = silent_polls + 1 if silent > DEAD_AFTER else 0
            if silent_polls > _POLLS_PER_SIGN:
                logger.warning("the driver that holds %s hangs for %.0f s; going on without it", file.name, silent)
                return False
            if not logged:
                logger.info("another driver works on this job (%s); waiting for it", file.name)
                logged = True
            time.sleep(KEPT_ALIVE_EVERY / _POLLS_PER_SIGN)
        else:
            os.utime(file.fileno())
            return True


def _keep_alive(file: IO[str], stop: threading.Event) -> None:
    while not stop.wait(KEPT_ALIVE_EVERY):
        try:
            os.utime(file.fileno())
        except (OSError, ValueError):
            return
