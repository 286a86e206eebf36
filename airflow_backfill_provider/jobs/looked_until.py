"""
Up to which instant a view has everything of its roots.

A table that is read beside the view is read no later. Otherwise each root has one version, and still there is no
instant at which all of them had these. It is neither the time at which an epoch committed nor that of the newest commit
that it read: while a root rests, the view is up to date without any epoch. So the roots are asked for commits that the
view lacks.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from airflow_backfill_provider.core.epoch.frontiers import Looked
from airflow_backfill_provider.core.errors import BackfillError
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.jobs.view_logs import ViewLog
from airflow_backfill_provider.sources.base import Source

_BEFORE = dt.timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class LookedUntil:
    """
    The instant up to which a view has everything of its roots.

    :param instant: the instant.
    :param lacks: the id of the root whose next commit ends it; empty if the view lacks nothing.
    """

    instant: dt.datetime
    lacks: str = ""


def looked_until(log: ViewLog, looked: Looked, instant: dt.datetime) -> LookedUntil:
    """
    Return up to which instant an epoch of a view has everything, at most the given one.

    A root that does not answer, and one of which each job has its own log, sets no bound.

    :param log: the log of the view.
    :param looked: the epoch.
    """
    found = LookedUntil(instant)
    for root, source in log.roots.items():
        offset = looked.frontier.get(root)
        if offset is None or not source.offsets_are_shared:
            continue
        until = _complete_until(source, offset, instant, looked.instant)
        if until < found.instant:
            found = LookedUntil(until, root)
    return found


def _complete_until(source: Source, offset: Offset, instant: dt.datetime, known: dt.datetime) -> dt.datetime:
    """
    Return the last instant before the first change after an offset, at most the given one.

    :param known: an instant that it is not before.
    """
    try:
        if source.latest() <= offset:
            return instant
        newest = source.offset_at(instant)
        if newest is None or newest <= offset or not source.has_changes(offset, newest):
            return instant
        feed = source.change_feed(offset)
    except BackfillError:
        return instant
    lacked_since = feed.needed_since or feed.unread_since
    return known if lacked_since is None else max(min(lacked_since - _BEFORE, instant), known)
