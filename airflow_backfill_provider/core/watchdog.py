"""
The watchdog: what a job says of itself that somebody should look into, judged from its barrier log and its upstream.

It compares a job with itself. A threshold is a multiple of what the job's last epochs usually took, so one rule suits
an epoch of seconds and one of hours, a schedule of minutes and one of days, and no job has to be configured for it.
See ``docs/adr/0016-the-watchdog-compares-a-job-with-itself.md``.
"""

from __future__ import annotations

import datetime as dt
import itertools
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pydantic import BaseModel, ConfigDict

from airflow_backfill_provider.core.barrier import Barrier
from airflow_backfill_provider.core.durations import duration
from airflow_backfill_provider.core.epoch_record import EpochCommit
from airflow_backfill_provider.core.failures import LastFailure
from airflow_backfill_provider.core.offset import HistoryPoint, Offset
from airflow_backfill_provider.core.settings import JobSettings

PATIENCE = 3
"""Times the usual after which something is late: a daily job may rest over a weekend."""

SHORTEST_WAIT = dt.timedelta(minutes=30)
"""Nothing is late before: a retry and the start of a cluster pass in it."""

LONGEST_FIRST_EPOCH = dt.timedelta(days=1)
"""After which a pinned epoch is late that has none before it to be compared with."""

LONGEST_REST = dt.timedelta(days=1)
"""After which a run is late if one before it carried all the epochs that are looked at."""

IDLE_EPOCHS = 3
"""Epochs in a row without a row; each reads at least one (I4), unless it falls into a gap between keys."""

HEADROOM = dt.timedelta(days=1)
"""Time that people need to act before changes are gone: a working day and a night."""

HEADROOM_SHARE = 4
"""A table that keeps its changes for less than four times that is warned of in the last quarter instead."""


class AlarmKind(StrEnum):
    """What an alarm is about."""

    STALLED = "stalled"
    HEADROOM = "headroom"
    REPLACED = "replaced"


class Alarm(BaseModel):
    """
    Something about a job that somebody should look into.

    :param kind: ``stalled``, ``headroom`` or ``replaced``.
    :param message: what is wrong.
    :param remedy: what to do.
    """

    model_config = ConfigDict(frozen=True)

    kind: AlarmKind
    message: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.message}; {self.remedy}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFeed:
    """
    What the upstream's log says of the versions that no committed epoch has read.

    :param latest: the newest offset.
    :param kept_for: how long the table keeps its changes; ``None`` if nobody knows.
    :param unreadable: if so, the table's properties that should say it.
    :param unread_since: when the oldest unread version was committed; ``None`` if nobody knows, or all are read.
    :param needed: the oldest unread offset that changed rows, so that an epoch must read its changes.
    :param needed_since: when that was committed; ``None`` if its commit file is gone.
    :param replaced: how the log gives away that it is not the one which the job has read; empty if it doesn't. Then
        nothing else is known of what is unread.
    :param unfinished: what to say of an upstream that is a materialized view which is not finished.
    """

    latest: Offset
    kept_for: dt.timedelta | None
    unreadable: str = ""
    unread_since: dt.datetime | None = None
    needed: Offset | None = None
    needed_since: dt.datetime | None = None
    replaced: str = ""
    unfinished: str = ""

    def headroom(self, now: dt.datetime) -> dt.timedelta | None:
        """
        Return how long the changes stay that are needed, zero if they may be gone.

        :returns: ``None`` if none are needed, or nobody knows how long they stay.
        """
        if self.needed is None:
            return None
        if self.needed_since is None:
            return dt.timedelta(0)
        if self.kept_for is None:
            return None
        return max(self.needed_since + self.kept_for - now, dt.timedelta(0))


def come_to(settings: JobSettings, barriers: Sequence[Barrier]) -> HistoryPoint | None:
    """
    Return the point of the upstream's history that a job has come to, committed or not.

    :param barriers: the newest barriers of the log, ascending.
    :returns: before the first barrier, where it begins; ``None`` if with all of the history.
    """
    ours = (barrier.upstream.come_to for barrier in reversed(barriers) if barrier.incarnation == settings.incarnation)
    return next(ours, settings.start)


def read_up_to(settings: JobSettings, barriers: Sequence[Barrier], commits: Sequence[EpochCommit]) -> Offset | None:
    """
    Return the upstream's offset that a job's next epoch goes on from, or ``None`` if it needs no changes yet.

    :param barriers: the newest barriers of the log, ascending.
    :param commits: the commits of those.
    """
    return _of_last_committed(settings, barriers, commits, lambda barrier: barrier.upstream.to_offset)


def changes_needed_after(
    settings: JobSettings, barriers: Sequence[Barrier], commits: Sequence[EpochCommit]
) -> Offset | None:
    """
    Return the upstream's offset after which a job needs the changes, or ``None`` if it needs none yet.

    It is the one that it has read up to, or an older one while changes wait for a later epoch.
    """
    return _of_last_committed(settings, barriers, commits, lambda barrier: barrier.oldest_offset_after)


def _of_last_committed(
    settings: JobSettings,
    barriers: Sequence[Barrier],
    commits: Sequence[EpochCommit],
    offset: Callable[[Barrier], Offset],
) -> Offset | None:
    ours = [commit.epoch for commit in commits if commit.incarnation == settings.incarnation]
    if not ours:
        return settings.start.offset if settings.start else None
    return next((offset(barrier) for barrier in barriers if barrier.epoch == ours[-1]), None)


def watch(
    *,
    settings: JobSettings,
    barriers: Sequence[Barrier],
    commits: Sequence[EpochCommit],
    feed: ChangeFeed,
    finished: bool,
    now: dt.datetime,
) -> tuple[Alarm, ...]:
    """
    Return what is wrong with a job, if anything.

    :param barriers: the newest barriers of the settings' incarnation, ascending.
    :param commits: the commits of those.
    :param finished: whether every vnode is Completed; whoever schedules the job decides how fresh it stays then.
    """
    if settings.cancelled:
        return ()
    alarms = [
        _replaced(feed),
        _unknown_retention(settings, feed),
        _headroom(settings, barriers, feed, now),
        _given_up(barriers),
    ]
    if settings.reads_snapshot and not finished:
        alarms.append(_stalled(settings, barriers, commits, now))
    return tuple(alarm for alarm in alarms if alarm is not None)


def _replaced(feed: ChangeFeed) -> Alarm | None:
    """Tell of an upstream that the next epoch would refuse: with nothing new in it, nobody may ever start that one."""
    if not feed.replaced:
        return None
    return Alarm(
        kind=AlarmKind.REPLACED,
        message=feed.replaced,
        remedy="rebuild the job to backfill from what is there now, or put the right table back; until then the view "
        "stays as it is",
    )


def _given_up(barriers: Sequence[Barrier]) -> Alarm | None:
    """Tell of an epoch that was given up, until another one is pinned; that is given up in turn, or goes well."""
    newest = barriers[-1] if barriers else None
    if newest is None or newest.given_up is None:
        return None
    failure = LastFailure.of_given_up(newest.epoch, newest.given_up)
    return Alarm(kind=AlarmKind.STALLED, message=str(failure), remedy=failure.remedy)


def _stalled(
    settings: JobSettings, barriers: Sequence[Barrier], commits: Sequence[EpochCommit], now: dt.datetime
) -> Alarm | None:
    pinned = _pinned(barriers, commits)
    if pinned is not None:
        return _stuck(pinned, barriers, commits, now)
    return _idle(barriers, commits) or _silent(settings, barriers, commits, now)


def _stuck(
    pinned: Barrier, barriers: Sequence[Barrier], commits: Sequence[EpochCommit], now: dt.datetime
) -> Alarm | None:
    """Tell of an epoch that takes much longer than the job's epochs do."""
    usual, waited = _usual_epoch(barriers, commits), now - pinned.injected_at
    patience = LONGEST_FIRST_EPOCH if usual is None else max(PATIENCE * usual, SHORTEST_WAIT)
    if waited <= patience:
        return None
    compared = "it is the job's first" if usual is None else f"the job's epochs usually take {_span(usual)}"
    return Alarm(
        kind=AlarmKind.STALLED,
        message=f"epoch {pinned.epoch} has been pinned for {_span(waited)} and is not committed; {compared}",
        remedy=f"look at who asked for it ({pinned.injected_by}); if nobody runs it any more, run an epoch again, "
        "which takes this one up",
    )


def _idle(barriers: Sequence[Barrier], commits: Sequence[EpochCommit]) -> Alarm | None:
    """Tell of epochs that were to read rows and read none."""
    may_read = {b.epoch for b in barriers if not b.paused and b.rate_limit != 0}
    last = [commit for commit in commits if not commit.given_up][-IDLE_EPOCHS:]
    if len(last) < IDLE_EPOCHS or any(
        commit.snapshot_read_row_count or commit.completed or commit.epoch not in may_read for commit in last
    ):
        return None
    return Alarm(
        kind=AlarmKind.STALLED,
        message=f"the epochs {last[0].epoch} to {last[-1].epoch} read no row of the snapshot, although the job is "
        "neither paused nor finished",
        remedy="look at the plan (airflow-backfill plan) and the newest barriers; raise the rate limit if the keys "
        "have wide gaps",
    )


def _silent(
    settings: JobSettings, barriers: Sequence[Barrier], commits: Sequence[EpochCommit], now: dt.datetime
) -> Alarm | None:
    """Tell of epochs that stopped coming although they used to."""
    usual = _usual_interval(barriers)
    if not commits or len(barriers) == 1:
        return None
    # Who has just resumed the job gets some time until its next epoch.
    waited = now - max(commits[-1].committed_at, settings.requested_at)
    if waited <= (LONGEST_REST if usual is None else max(PATIENCE * usual, SHORTEST_WAIT)):
        return None
    rhythm = "the last ones came in one run" if usual is None else f"they usually come every {_span(usual)}"
    return Alarm(
        kind=AlarmKind.STALLED,
        message=f"no epoch came for {_span(waited)}, {rhythm}, and the view is not finished",
        remedy="look whether the DAG is paused or its runs fail, or go on with airflow-backfill run",
    )


def _unknown_retention(settings: JobSettings, feed: ChangeFeed) -> Alarm | None:
    """Tell of an upstream whose changes may be gone at any time, for all that can be read."""
    if not feed.unreadable:
        return None
    return Alarm(
        kind=AlarmKind.HEADROOM,
        message=f"nobody can tell how long {settings.job['upstream']['path']} keeps its changes, for Delta does not "
        f"read {feed.unreadable}",
        remedy="set it as Delta reads it, such as 'interval 30 days', with ALTER TABLE … SET TBLPROPERTIES",
    )


def _headroom(settings: JobSettings, barriers: Sequence[Barrier], feed: ChangeFeed, now: dt.datetime) -> Alarm | None:
    """Tell of changes that may be gone before the next epochs read them."""
    left = feed.headroom(now)
    if left is None:
        return None
    kept_for = feed.kept_for or dt.timedelta(0)
    path, kept = settings.definition.upstream.location, "an unknown time" if feed.kept_for is None else _span(kept_for)
    needed = f"the changes of {path} from version {feed.needed} on"
    if not left:
        return Alarm(
            kind=AlarmKind.HEADROOM,
            message=f"{needed} may be gone: no epoch has read them, and the table keeps changes for {kept}",
            remedy="run an epoch now; if it is refused, rebuild the job, and keep changes longer "
            "(delta.deletedFileRetentionDuration, delta.logRetentionDuration)",
        )
    interval = _usual_interval(barriers) or dt.timedelta(0)
    if left >= max(min(HEADROOM, kept_for / HEADROOM_SHARE), PATIENCE * interval):
        return None
    return Alarm(
        kind=AlarmKind.HEADROOM,
        message=f"{needed} may be gone in {_span(left)}: no epoch has read them, and the table keeps changes for "
        f"{kept}",
        remedy="run an epoch before, or keep changes longer (delta.deletedFileRetentionDuration, "
        "delta.logRetentionDuration)",
    )


def _pinned(barriers: Sequence[Barrier], commits: Sequence[EpochCommit]) -> Barrier | None:
    """Return the barrier that is pinned and not committed, if any."""
    if barriers and (not commits or barriers[-1].epoch > commits[-1].epoch):
        return barriers[-1]
    return None


def _usual_epoch(barriers: Sequence[Barrier], commits: Sequence[EpochCommit]) -> dt.timedelta | None:
    """Return how long an epoch usually is pinned until it is committed."""
    injected = {barrier.epoch: barrier.injected_at for barrier in barriers}
    return _median(c.committed_at - injected[c.epoch] for c in commits if c.epoch in injected)


def _usual_interval(barriers: Sequence[Barrier]) -> dt.timedelta | None:
    """Return how long after one run of a DAG, or one barrier of somebody else, the next usually comes."""
    begins: dict[object, dt.datetime] = {}
    for barrier in barriers:
        asked = barrier.injected_by
        begins.setdefault((asked.dag_id, asked.run_id) if asked.is_task_run else barrier.epoch, barrier.injected_at)
    return _median(later - earlier for earlier, later in itertools.pairwise(sorted(begins.values())))


def _median(spans: Iterator[dt.timedelta]) -> dt.timedelta | None:
    seconds = [span.total_seconds() for span in spans]
    return dt.timedelta(seconds=statistics.median(seconds)) if seconds else None


def _span(span: dt.timedelta) -> str:
    return duration(span.total_seconds())
