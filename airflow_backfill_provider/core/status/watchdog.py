"""
The watchdog: alarms about a job that needs attention, from its barrier log and its upstream.

It compares a job with itself. A threshold is a multiple of the job's usual time, so that one rule suits epochs of
seconds and of hours, and schedules of minutes and of days, without configuration. See
``docs/adr/0016-the-watchdog-compares-a-job-with-itself.md``.
"""

from __future__ import annotations

import datetime as dt
import itertools
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence

from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.durations import duration
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.epoch.failures import LastFailure
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.epoch.window import UpstreamWindow
from airflow_backfill_provider.core.scan.offset import HistoryPoint, Offset
from airflow_backfill_provider.core.status.alarm import Alarm, AlarmKind
from airflow_backfill_provider.core.status.chain import HeldUpstream
from airflow_backfill_provider.core.status.change_feed import ChangeFeed

PATIENCE = 3
"""Something is late after this multiple of the usual time; a daily job may pause over a weekend."""

SHORTEST_WAIT = dt.timedelta(minutes=30)
"""Nothing is late before this time, which is enough for a retry and the start of a cluster."""

LONGEST_FIRST_EPOCH = dt.timedelta(days=1)
"""A job's first epoch is late after this time, because there is no earlier one to compare it with."""

LONGEST_PAUSE = dt.timedelta(days=1)
"""The next epoch is late after this time if all recent epochs came from one DAG run, so that no interval is known."""

IDLE_EPOCHS = 3
"""An alarm after this many epochs in a row without rows. Each reads at least one (I4), except in gaps between keys."""

HEADROOM = dt.timedelta(days=1)
"""The time that people need to act before changes are gone."""

HEADROOM_SHARE = 4
"""If changes are kept for less than four times :data:`HEADROOM`, the alarm comes in the last quarter of this time."""

LOST_VIEW_REMEDY = "restore it as the last epoch left it, or rebuild the job"
"""What to do about a view that is gone, or is another one."""


def reached_point(settings: JobSettings, barriers: Sequence[Barrier], other: str | None = None) -> HistoryPoint | None:
    """
    Return the point of the upstream's history that a job's newest barrier reaches, committed or not.

    :param barriers: the newest barriers of the log, ascending.
    :param other: the name of an upstream beside the one that leads; ``None`` for that one.
    :returns: before the first barrier, where its window begins; ``None`` if it begins with the whole history.
    """
    points = (
        _window(barrier, other).reached_point
        for barrier in reversed(barriers)
        if barrier.incarnation == settings.incarnation
    )
    return next(points, settings.first_point if other is None else settings.first_point_of(other))


def _window(barrier: Barrier, other: str | None) -> UpstreamWindow:
    return barrier.upstream if other is None else barrier.window(other)


def read_up_to(
    settings: JobSettings, barriers: Sequence[Barrier], commits: Sequence[EpochCommit], other: str | None = None
) -> Offset | None:
    """
    Return the offset up to which a job has read the upstream, or ``None`` if it needs no changes yet.

    :param barriers: the newest barriers of the log, ascending.
    :param commits: their commits.
    :param other: as in :func:`reached_point`.
    """
    read = _of_last_committed(settings, barriers, commits, lambda barrier: _window(barrier, other).to_offset)
    if other is None or read is None or any(commit.incarnation == settings.incarnation for commit in commits):
        return read
    begun = settings.first_point_of(other)
    return None if begun is None else begun.offset


def changes_needed_after(
    settings: JobSettings, barriers: Sequence[Barrier], commits: Sequence[EpochCommit]
) -> Offset | None:
    """
    Return the offset after which a job needs the upstream's changes, or ``None`` if it needs none yet.

    It is the offset up to which the job has read, or an older one while changes wait for a later epoch.
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
        return settings.first_point.offset if settings.first_point else None
    return next((offset(barrier) for barrier in barriers if barrier.epoch == ours[-1]), None)


def watch(
    *,
    settings: JobSettings,
    barriers: Sequence[Barrier],
    commits: Sequence[EpochCommit],
    feed: ChangeFeed,
    others: Mapping[str, ChangeFeed] | None = None,
    held: Sequence[HeldUpstream] = (),
    lost_view: str = "",
    finished: bool,
    now: dt.datetime,
) -> tuple[Alarm, ...]:
    """
    Return a job's alarms.

    :param barriers: the newest barriers of the settings' incarnation, ascending.
    :param commits: their commits.
    :param others: the feeds of the upstreams beside the one that leads, by their names.
    :param held: the upstreams that wait until another job's view has as much of a common table.
    :param lost_view: why the view is not the one that the last epoch left; empty if it is.
    :param finished: whether every vnode is Completed; a finished job is never stalled, however seldom its epochs come.
    """
    if settings.cancelled:
        return ()
    alarms = [
        _view_lost(lost_view),
        *_of_feed(settings.definition.upstream.location, feed, barriers, now),
        *(
            alarm
            for name, other in (others or {}).items()
            for alarm in _of_feed(settings.definition.others[name].location, other, barriers, now)
        ),
        *(_held(settings, one, (others or {}).get(one.upstream, feed), barriers, now) for one in held),
        _given_up(barriers),
    ]
    if settings.reads_snapshot and not finished:
        alarms.append(_stalled(settings, barriers, commits, now))
    return tuple(alarm for alarm in alarms if alarm is not None)


def _of_feed(path: str, feed: ChangeFeed, barriers: Sequence[Barrier], now: dt.datetime) -> list[Alarm | None]:
    """Return the alarms about one upstream."""
    return [
        _unanswered(feed, barriers),
        _replaced(feed),
        _unknown_retention(path, feed),
        _headroom(path, barriers, feed, now),
        _log_fills(path, feed),
    ]


def answered_at(feed: ChangeFeed, barriers: Sequence[Barrier]) -> dt.datetime | None:
    """
    Return when an upstream answered last, as far as is recorded; ``None`` if nothing is.

    :param barriers: the newest barriers, ascending; each was pinned after the upstream had answered.
    """
    recorded = [feed.landed_at, barriers[-1].injected_at if barriers else None]
    return max((at for at in recorded if at is not None), default=None)


def _unanswered(feed: ChangeFeed, barriers: Sequence[Barrier]) -> Alarm | None:
    if not feed.unanswered:
        return None
    last = answered_at(feed, barriers)
    since = "" if last is None else f"; its last recorded answer is from {last:%Y-%m-%d %H:%M:%S} UTC"
    return Alarm(
        kind=AlarmKind.STALLED,
        message=f"{feed.unanswered}{since}",
        remedy="until the upstream answers, the view is not updated, and its lag is unknown",
    )


def _view_lost(lost_view: str) -> Alarm | None:
    if not lost_view:
        return None
    return Alarm(
        kind=AlarmKind.VIEW_LOST,
        message=lost_view,
        remedy=LOST_VIEW_REMEDY,
    )


def _replaced(feed: ChangeFeed) -> Alarm | None:
    """Return an alarm if the upstream was replaced; without new offsets, no epoch may start that would refuse it."""
    if not feed.replaced:
        return None
    return Alarm(
        kind=AlarmKind.REPLACED,
        message=feed.replaced,
        remedy="rebuild the job to backfill from the present table, or restore the right one; until then the view is "
        "not updated",
    )


def _given_up(barriers: Sequence[Barrier]) -> Alarm | None:
    """Return an alarm if the newest epoch was given up; it ends when another epoch is pinned."""
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
    """Return an alarm if an epoch takes much longer than the job's epochs usually do."""
    usual, waited = _usual_epoch(barriers, commits), now - pinned.injected_at
    patience = LONGEST_FIRST_EPOCH if usual is None else max(PATIENCE * usual, SHORTEST_WAIT)
    if waited <= patience:
        return None
    compared = "it is the job's first" if usual is None else f"the job's epochs usually take {_span(usual)}"
    return Alarm(
        kind=AlarmKind.STALLED,
        message=f"epoch {pinned.epoch} has been pinned for {_span(waited)} and is not committed; {compared}",
        remedy=f"check its requester ({pinned.injected_by}); if the epoch is not running any more, run an epoch, "
        "which retries this one",
    )


def _idle(barriers: Sequence[Barrier], commits: Sequence[EpochCommit]) -> Alarm | None:
    """Return an alarm if epochs should have read rows but read none."""
    may_read = {b.epoch for b in barriers if not b.paused and b.rate_limit != 0}
    last = [commit for commit in commits if not commit.given_up][-IDLE_EPOCHS:]
    if len(last) < IDLE_EPOCHS or any(
        commit.snapshot_read_row_count or commit.completed or commit.epoch not in may_read for commit in last
    ):
        return None
    return Alarm(
        kind=AlarmKind.STALLED,
        message=f"epochs {last[0].epoch} to {last[-1].epoch} read no rows of the snapshot, although the job is "
        "neither paused nor finished",
        remedy="check the plan (airflow-backfill plan) and the newest barriers; raise the rate limit if the keys have "
        "wide gaps",
    )


def _silent(
    settings: JobSettings, barriers: Sequence[Barrier], commits: Sequence[EpochCommit], now: dt.datetime
) -> Alarm | None:
    """Return an alarm if no epoch was pinned for much longer than usual."""
    usual = _usual_interval(barriers)
    if not commits or len(barriers) == 1:
        return None
    # A job that was just resumed gets time until its next epoch.
    waited = now - max(commits[-1].committed_at, settings.requested_at)
    if waited <= (LONGEST_PAUSE if usual is None else max(PATIENCE * usual, SHORTEST_WAIT)):
        return None
    compared = "the last ones came from one DAG run" if usual is None else f"one usually comes every {_span(usual)}"
    return Alarm(
        kind=AlarmKind.STALLED,
        message=f"no epoch came for {_span(waited)}, {compared}, and the view is not finished",
        remedy="check whether the DAG is paused or its runs fail, or continue with airflow-backfill run",
    )


def _held(
    settings: JobSettings, held: HeldUpstream, feed: ChangeFeed, barriers: Sequence[Barrier], now: dt.datetime
) -> Alarm | None:
    """Return an alarm if an upstream waits for another job for much longer than the usual time between epochs."""
    since, usual = feed.needed_since or feed.unread_since, _usual_interval(barriers)
    if since is None or now - since <= (LONGEST_PAUSE if usual is None else max(PATIENCE * usual, SHORTEST_WAIT)):
        return None
    waited = _span(now - since)
    return Alarm(
        kind=AlarmKind.STALLED,
        message=f"job {settings.job['name']} {held.waits_for}; changes of {held.upstream} have waited for {waited}",
        remedy="run that job, or mend it; jobs that one DAG runs look up to the same instant",
    )


def _unknown_retention(path: str, feed: ChangeFeed) -> Alarm | None:
    """Return an alarm if it is unknown how long the upstream keeps its changes."""
    if not feed.unreadable:
        return None
    return Alarm(
        kind=AlarmKind.HEADROOM,
        message=f"it is unknown how long {path} keeps its changes, because Delta cannot parse {feed.unreadable}",
        remedy="set a valid interval, such as 'interval 30 days', with ALTER TABLE … SET TBLPROPERTIES",
    )


def _headroom(path: str, barriers: Sequence[Barrier], feed: ChangeFeed, now: dt.datetime) -> Alarm | None:
    """Return an alarm if needed changes may be gone before the next epochs read them."""
    left = feed.headroom(now)
    if left is None:
        return None
    kept_for = feed.kept_for or dt.timedelta(0)
    kept = "an unknown time" if feed.kept_for is None else _span(kept_for)
    needed = f"the changes of {path} from offset {feed.needed} on"
    longer = f"keep changes longer ({feed.kept_by})" if feed.kept_by else "keep changes longer"
    if not left:
        return Alarm(
            kind=AlarmKind.HEADROOM,
            message=f"{needed} may be gone: no epoch has read them, and the table keeps changes for {kept}",
            remedy=f"run an epoch now; if it is refused, rebuild the job, and {longer}",
        )
    interval = _usual_interval(barriers) or dt.timedelta(0)
    if left >= max(min(HEADROOM, kept_for / HEADROOM_SHARE), PATIENCE * interval):
        return None
    return Alarm(
        kind=AlarmKind.HEADROOM,
        message=f"{needed} may be gone in {_span(left)}: no epoch has read them, and the table keeps changes for "
        f"{kept}",
        remedy=f"run an epoch before then, or {longer}",
    )


def _log_fills(path: str, feed: ChangeFeed) -> Alarm | None:
    """Return an alarm if the log that the upstream keeps for the job has filled half of what it keeps at most."""
    if feed.kept_bytes is None or feed.bytes_left is None or feed.bytes_left > feed.kept_bytes:
        return None
    kept, left = text.size(feed.kept_bytes), text.size(feed.bytes_left)
    return Alarm(
        kind=AlarmKind.HEADROOM,
        message=f"{path} keeps {kept} of log for the job, and gives it up after {left} more; then changes are lost",
        remedy="run an epoch now, which releases the log; run epochs more often, or let the server keep more "
        "(max_slot_wal_keep_size)",
    )


def _pinned(barriers: Sequence[Barrier], commits: Sequence[EpochCommit]) -> Barrier | None:
    """Return the barrier that is pinned and not committed, if any."""
    if barriers and (not commits or barriers[-1].epoch > commits[-1].epoch):
        return barriers[-1]
    return None


def _usual_epoch(barriers: Sequence[Barrier], commits: Sequence[EpochCommit]) -> dt.timedelta | None:
    """Return how long it usually takes from an epoch's injection to its commit."""
    injected = {barrier.epoch: barrier.injected_at for barrier in barriers}
    return _median(c.committed_at - injected[c.epoch] for c in commits if c.epoch in injected)


def _usual_interval(barriers: Sequence[Barrier]) -> dt.timedelta | None:
    """Return the usual interval between DAG runs; each barrier of another requester counts as one."""
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
