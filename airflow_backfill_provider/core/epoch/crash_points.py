"""
The named points at which an epoch may die.

Every gap between two commits of the epoch protocol has a name. The product only announces that it reached the point. A
test installs a callback that kills, hangs or raises, and checks that running the epoch again converges (I2).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum


class CrashPoint(StrEnum):
    """
    The gaps between the commits of a view's creation and of one epoch, in order.

    Some points are reached in certain cases only: ``*_creation_*`` when the view's table is created, also by a rebuild;
    ``*_files_*`` in each append to a table for which Delta's own writer is not needed;
    ``*_arrangement_*`` under this strategy; ``*_removal_*`` if changes waited until the view is
    finished; ``*_report`` if several task runs share an epoch; ``*_fence`` if an epoch is given up; ``*_succession_*``
    when a job becomes another incarnation whose rows are there already.
    """

    AFTER_SUCCESSION_STATE = "after_succession_state"
    AFTER_SUCCESSION_SETTINGS = "after_succession_settings"
    BEFORE_CREATION_COMMIT = "before_creation_commit"
    AFTER_CREATION_COMMIT = "after_creation_commit"
    AFTER_PIN = "after_pin"
    BEFORE_CHANGES_COMMIT = "before_changes_commit"
    AFTER_REMOVAL_COMMIT = "after_removal_commit"
    AFTER_CHANGES_COMMIT = "after_changes_commit"
    BEFORE_ARRANGEMENT_COMMIT = "before_arrangement_commit"
    AFTER_ARRANGEMENT_COMMIT = "after_arrangement_commit"
    BEFORE_LANDING_COMMIT = "before_landing_commit"
    AFTER_LANDING_COMMIT = "after_landing_commit"
    BEFORE_CLEAN_UP_COMMIT = "before_clean_up_commit"
    AFTER_CLEAN_UP_COMMIT = "after_clean_up_commit"
    BEFORE_READ_AHEAD_COMMIT = "before_read_ahead_commit"
    AFTER_READ_AHEAD_COMMIT = "after_read_ahead_commit"
    BEFORE_SNAPSHOT_COMMIT = "before_snapshot_commit"
    BEFORE_FILES_COMMIT = "before_files_commit"
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


def _do_nothing(_: CrashPoint) -> None:
    return


_callback: Callable[[CrashPoint], None] = _do_nothing


def reached(point: CrashPoint) -> None:
    """Announce that the protocol reached a point."""
    _callback(point)


def install(callback: Callable[[CrashPoint], None] | None) -> None:
    """Set the callback for every point; ``None`` removes it."""
    global _callback  # noqa: PLW0603 - the one seam for tests
    _callback = callback or _do_nothing
