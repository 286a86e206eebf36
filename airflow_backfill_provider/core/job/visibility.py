"""
When changes of read rows reach the view: in every epoch, or once the view is finished.

If nobody reads the view before it is finished, changes may wait: one merge at the end costs little more than a single
epoch's merge. The executors cannot wait, because a stream must pass changes on as they arrive. Here the change data
feed keeps the changes for a limited time.
"""

from __future__ import annotations

import datetime as dt
from enum import StrEnum

MOST_OFFSETS = 100
"""The most offsets that rows of the view may be as of. Each makes the condition of the merge longer."""


class Visibility(StrEnum):
    """
    When changes of rows that the view already has reach the view.

    ``every_epoch``: in each epoch. After an epoch the view is the query over the read part of the upstream, as of one
    offset. ``on_finish``: in the epoch that completes the last vnode. Before it, rows may be as of the offset at which
    they were read.
    """

    EVERY_EPOCH = "every_epoch"
    ON_FINISH = "on_finish"


def may_wait(*, offsets: int, oldest_age: dt.timedelta, kept_for: dt.timedelta | None) -> bool:
    """
    Return whether the changes of an unfinished view can wait for a later epoch.

    :param offsets: the number of offsets that the view's rows are as of.
    :param oldest_age: how long ago the oldest of these offsets was committed.
    :param kept_for: how long the upstream keeps its changes; the second half is reserved for the epoch that applies
        them. ``None`` if unknown.
    """
    return kept_for is not None and offsets < MOST_OFFSETS and oldest_age < kept_for / 2
