"""A process that dies at a point of the protocol: nothing after the point happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint


class Died(BaseException):
    """The process is gone: not an Exception, so that no handler of the product sees it."""


def dying_at(point: str | None) -> Callable[[CrashPoint], None]:
    """Return a function for all crash points that dies at one of them."""

    def die(reached: CrashPoint) -> None:
        if reached == point:
            raise Died(point)

    return die


def died(point: str | None, work: Callable[[], object]) -> bool:
    """Do something, and return whether it died at a point; with ``None`` it never dies."""
    crash_points.install(dying_at(point))
    try:
        work()
    except Died:
        return True
    finally:
        crash_points.install(None)
    return False


@contextmanager
def dies_at(point: CrashPoint) -> Iterator[None]:
    """Let the block die at a point, which it must reach."""
    crash_points.install(dying_at(point))
    try:
        with pytest.raises(Died):
            yield
    finally:
        crash_points.install(None)
