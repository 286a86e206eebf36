"""
The named moments at which an epoch may die.

Every gap between two commits of the epoch protocol has a name. The product only announces that it got there; a test
installs a callback that kills, hangs or raises, and then shows that running again converges (I2).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class CrashPoint(StrEnum):
    """
    The gaps between the commits that make a view and of one epoch, in order.

    Those of the creation are reached where the view is made, or made anew. Those of the arrangement are reached under
    that strategy only, that of a removal only in repairs and where changes waited for their view to be finished, those
    of a report only where several runs share an epoch, those of a fence only where an epoch is given up.
    """

    BEFORE_CREATION_COMMIT = "before_creation_commit"
    AFTER_CREATION_COMMIT = "after_creation_commit"
    AFTER_PIN = "after_pin"
    BEFORE_CHANGES_COMMIT = "before_changes_commit"
    AFTER_REMOVAL_COMMIT = "after_removal_commit"
    AFTER_CHANGES_COMMIT = "after_changes_commit"
    BEFORE_ARRANGEMENT_COMMIT = "before_arrangement_commit"
    AFTER_ARRANGEMENT_COMMIT = "after_arrangement_commit"
    BEFORE_SNAPSHOT_COMMIT = "before_snapshot_commit"
    AFTER_SNAPSHOT_COMMIT = "after_snapshot_commit"
    BEFORE_REPORT = "before_report"
    AFTER_REPORT = "after_report"
    BEFORE_STATE_COMMIT = "before_state_commit"
    AFTER_STATE_COMMIT = "after_state_commit"
    BEFORE_LOG_COMMIT = "before_log_commit"
    BEFORE_FENCE = "before_fence"
    AFTER_CHUNK_FENCE = "after_chunk_fence"
    AFTER_FENCE = "after_fence"
    BEFORE_GIVING_UP = "before_giving_up"


def _carry_on(_: CrashPoint) -> None:
    return


_callback: Callable[[CrashPoint], None] = _carry_on


def reached(point: CrashPoint) -> None:
    """Announce that the protocol got to a point."""
    _callback(point)


def install(callback: Callable[[CrashPoint], None] | None) -> None:
    """Call something at every point from now on, or, with ``None``, nothing."""
    global _callback  # noqa: PLW0603 - the one seam for tests
    _callback = callback or _carry_on
