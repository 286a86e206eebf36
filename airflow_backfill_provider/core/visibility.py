"""
When the changes of rows that were read already reach the view: in every epoch, or once it is finished.

Nobody reads a view before it is finished, so its changes may wait: one merge at the end costs little more than one of
the merges that every epoch would have made. The executors have no such choice; a stream's changes must be passed on as
they come. Here the change data feed keeps them, but not for ever.
"""

from __future__ import annotations

import datetime as dt
from enum import StrEnum

MOST_VERSIONS = 100
"""Versions of the upstream that rows of the view may be as of; each makes the condition of the merge longer."""


class Visibility(StrEnum):
    """
    When the view shows changes of rows that it has.

    ``every_epoch``: after each one, it is the query over the upstream as of one version, as far as it was read.
    ``on_finish``: from the epoch on that completes the last vnode; before, each row is as of when it was read.
    """

    EVERY_EPOCH = "every_epoch"
    ON_FINISH = "on_finish"


def may_wait(*, versions: int, oldest_age: dt.timedelta, kept_for: dt.timedelta | None) -> bool:
    """
    Tell whether the changes of an unfinished view can wait for a later epoch.

    :param versions: upstream versions that the view's rows are as of.
    :param oldest_age: how long ago the oldest of them was committed.
    :param kept_for: how long the upstream keeps its changes; half of it is left for the epoch that applies them.
        ``None`` if nobody knows.
    """
    return kept_for is not None and versions < MOST_VERSIONS and oldest_age < kept_for / 2
