"""Attempts that are interrupted: in processes that are killed, and in threads that hang and continue later."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import BackfillError
from tests.integration.engine import connect_client

PATIENCE = 300
"""Seconds after which something is known never to come."""

# Each attempt is a process of its own, forked from one that has imported everything. The imports of a client take more
# than a second of a processor, and a test of crash points has a client for each of them.
_CLIENTS = multiprocessing.get_context("forkserver")
_CLIENTS.set_forkserver_preload([connect_client.__name__, "pyspark.sql.connect.session", "delta.tables"])


def is_killed(remote: str, state: str, point: str = "", *epochs: str) -> bool:
    """
    Run an attempt in a separate process, and return whether it was killed.

    :param remote: the Spark whose client it is.
    :param state: the job's state.
    :param point: where it kills itself; see :mod:`.connect_client`.
    :param epochs: the number of epochs that it runs, if not one.
    """
    with tempfile.TemporaryDirectory() as folder:
        errors = Path(folder, "errors")
        attempt = _CLIENTS.Process(target=_attempt, args=(errors, dict(os.environ), remote, state, point, *epochs))
        attempt.start()
        attempt.join(PATIENCE)
        ended = attempt.exitcode
        if ended is None:
            attempt.kill()
        said = errors.read_text(encoding="utf-8", errors="replace")[-2000:] if errors.exists() else ""
    assert ended in {0, -signal.SIGKILL}, f"it ended by {ended}: {said}"
    return ended != 0


def _attempt(errors: Path, environment: Mapping[str, str], *arguments: str) -> None:
    """Run a client in a process of its own, with the environment of the test and not of the process that it is from."""
    with errors.open("wb") as file:
        os.dup2(file.fileno(), 2)
    os.environ.clear()
    os.environ.update(environment)
    connect_client.main(*arguments)
    # A timer may still wait.
    os._exit(0)


class Asleep(threading.Thread):
    """
    Work that hangs at a crash point until it is let go, or ends before that point.

    Only this work hangs there, in all of its threads: no other work passes a point before :class:`Asleep` is made.

    :param point: where it hangs.
    :param work: what it does.
    """

    def __init__(self, point: CrashPoint, work: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.error: BackfillError | None = None
        self.result: object = None
        self.hung = False
        self._unexpected: BaseException | None = None
        self._arrived, self._go = threading.Event(), threading.Event()
        self._point, self._work = point, work
        crash_points.install(self._hang)
        self.start()
        assert self._arrived.wait(timeout=PATIENCE), f"neither at {point} nor done"
        crash_points.install(None)

    def run(self) -> None:
        """Do the work."""
        try:
            self.result = self._work()
        except BackfillError as error:
            self.error = error
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._unexpected = error
        finally:
            self._arrived.set()

    def _hang(self, point: CrashPoint) -> None:
        if point == self._point and not self.hung:
            self.hung = True
            self._arrived.set()
            self._go.wait(timeout=PATIENCE)

    def let_go(self) -> None:
        """Let it continue."""
        self._go.set()

    def ends(self) -> None:
        """Let it end, perhaps with a named error."""
        self.let_go()
        self.join(timeout=PATIENCE)
        assert not self.is_alive(), f"what hung at {self._point} does not end"
        if self._unexpected is not None:
            raise AssertionError(f"what hung at {self._point} ended by {self._unexpected!r}") from self._unexpected
