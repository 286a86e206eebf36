"""The status of a job: progress, speed, remaining time, and what it waits for."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.epoch.failures import EpochFailure, LastFailure
from airflow_backfill_provider.core.epoch.repair import PARTIAL_REPAIR
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.job.rate_limit import RateLimit
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.scan.progress import BackfillState, Completed, NotStarted
from airflow_backfill_provider.core.scan.scan import rows_read as rows_read_in
from airflow_backfill_provider.core.status.adoption_text import unknown_rows
from airflow_backfill_provider.core.status.alarm import Alarm
from airflow_backfill_provider.core.status.chain import NO_CHAIN, ChainedJob, HeldUpstream, UpstreamChain, waits_for
from airflow_backfill_provider.core.status.change_feed import ChangeFeed
from airflow_backfill_provider.core.status.cut_over import CutOverStatus
from airflow_backfill_provider.core.status.job_condition import JobCondition, condition_of
from airflow_backfill_provider.core.status.recent_work import RecentWork, recent_work
from airflow_backfill_provider.core.status.speed import Speed, recent_speed
from airflow_backfill_provider.core.status.split_status import SplitStatus, split_map
from airflow_backfill_provider.core.status.upstream_status import (
    UpstreamStatus,
    furthest_behind,
    smallest_headroom,
    upstream_statuses,
)
from airflow_backfill_provider.core.status.verified_state import VerifiedState
from airflow_backfill_provider.core.status.vnode_map import ALMOST_DONE, VnodeSpan, vnode_map
from airflow_backfill_provider.core.status.watchdog import answered_at, watch


class VnodeCounts(BaseModel):
    """The number of vnodes by progress."""

    model_config = ConfigDict(frozen=True)

    total: int
    not_started: int
    in_progress: int
    completed: int


class JobSummary(BaseModel):
    """
    The status of a job, all vnodes together.

    :param epoch: newest committed epoch, 0 before the first.
    :param pinned_epoch: the epoch that is pinned and not committed, if any: it is executed, or waits for a retry.
    :param pinned_at: when it was pinned.
    :param committed_at: when the newest committed epoch was committed.
    :param condition: ``finished``, or why not: ``cancelled``, ``ready`` (for an approval), ``paused``,
        ``rate_limit_zero``, ``running`` (an epoch is pinned and not committed) or ``waiting`` (for the next DAG run).
    :param finished: whether every vnode is Completed as of the newest commit, the view is there, and it is marked as
        finished.
    :param rows_read: snapshot rows read so far.
    :param rows_estimated: estimate of the rows that the job reads in total (under ``restrict_to``, only these rows), by
        the log's statistics when the newest barrier was pinned; once all are read, their number.
    :param progress: 0 to 1; below 1 until finished.
    :param rows_per_second: snapshot rows read per second while an epoch runs, over the newest epochs.
    :param eta_seconds: seconds until finished at this speed, including waits between epochs but no pauses; ``None`` if
        nothing is read now, or if more rows were read than estimated.
    :param watermark: commit time of the upstream's offset that the view is at; only once it is finished.
    :param upstream_version: the upstream's offset that the view is at; ``None`` before the first epoch.
    :param oldest_rows_version: the oldest offset that rows of the view are as of. It differs from ``upstream_version``
        only while changes wait until the view is finished.
    :param lag_versions: how many offsets the upstream has after the one that the view is at.
    :param offset_name: what an offset of the upstream is called, such as ``version``.
    :param lag_unit: what ``lag_versions`` counts, such as ``version``; ``byte`` of a database's log.
    :param lag_seconds: age of the oldest unread offset; ``None`` before the first epoch, or if it is unknown.
    :param behind_since: when the oldest unread offset was committed.
    :param upstream_answers: whether the upstream answered. If not, the lag is unknown, and all else is as recorded.
    :param upstream_answered_at: if it did not, when it answered last, as far as is recorded.
    :param kept_bytes: the bytes of log that a database keeps for the job; ``None`` for other upstreams.
    :param kept_bytes_left: how many more bytes it keeps before changes are lost; ``None`` if it keeps all.
    :param headroom_hours: hours until the upstream may delete changes that an epoch needs, 0 if it may have deleted
        them already; ``None`` if no epoch needs any.
    :param rate_limit: the rate limit in the settings: rows per epoch, ``None`` is unlimited, or ``auto``.
    :param effective_rate_limit: the rate limit in force: with ``auto``, that of the newest epoch; ``None`` if it is
        unlimited or not chosen yet.
    :param rate_limit_reason: why another limit is in force than that in the settings; empty if it is the same.
    :param target_epoch_seconds: how long an epoch should take with ``auto``; ``None`` without.
    :param max_rows_per_second: the most snapshot rows per second of a run of several epochs; ``None`` is unlimited.
    :param parallelism: the number of task runs that share an epoch, from the next barrier on.
    :param replay_epoch: the number of the newest epoch among those that replay changes; 0 if it is none.
    :param alarms: the watchdog's alarms: each with a ``kind`` (``stalled``, ``headroom``, ``replaced``,
        ``view_lost``), a ``message`` and a ``remedy``.
    :param warnings: sentences: warnings of the newest epoch, of adopted rows that are not all known to be equal,
        ``waits_for``, the alarms, an epoch that failed and is still pinned, and verifications that cannot be read.
    :param last_failure: the last failure, if no epoch was committed since.
    :param verified: the result of the newest finished verification; ``None`` if there is none since the job was created
        or rebuilt.
    :param verification_waits: whether a verification is requested; the next epoch's application carries it out.
    :param verification_problem: why the table of verifications cannot be read; ``None`` if it can.
    :param work: what the newest epochs did to apply changes, if the view consists of groups or is computed whole: per
        epoch the touched units, the rows that were read again and the technique, and how they compare. Otherwise
        ``None``.
    :param chain: if the upstream is itself a job's view, the jobs before this one, in the order in which they run: each
        with its ``name``, ``materialized_view``, ``state``, whether it is ``finished``, and its ``progress``.
    :param waits_for: which job this one waits for, such as ``waits for paid_orders, 43 %``; ``None`` if for none.
    :param root_lag_seconds: age of the oldest change of the chain's first upstream that the view may lack; ``None`` if
        there is no chain, or if it is unknown.
    :param rebuild: the status of the rebuild that grows beside the view; ``None`` if there is none. The other fields
        are about the view that is served meanwhile.
    :param cut_over: what is ready to go live, and waits for an approval; ``None`` if nothing does.
    :param upstreams: of a job with several: by name the ``version`` that the view is at and when it was committed
        (``as_of``), the ``latest_version``, the lag and the headroom of each. The fields beside it are those of the one
        that leads, and the smallest headroom.
    :param furthest_behind: of a job with several: the name of the one that the view is furthest behind.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    strategy: str
    epoch: int
    pinned_epoch: int | None
    pinned_at: dt.datetime | None
    committed_at: dt.datetime | None
    condition: JobCondition
    finished: bool
    paused: bool
    cancelled: bool
    rate_limit: RateLimit
    effective_rate_limit: int | None = None
    rate_limit_reason: str = ""
    target_epoch_seconds: float | None = None
    max_rows_per_second: int | None = None
    parallelism: int
    replay_epoch: int = 0
    vnodes: VnodeCounts
    rows_read: int
    rows_estimated: int
    progress: float
    rows_per_second: float | None
    eta_seconds: float | None
    watermark: dt.datetime | None
    upstream_version: Offset | None
    oldest_rows_version: Offset | None
    upstream_latest_version: Offset
    lag_versions: int
    offset_name: str = "version"
    lag_unit: str = "version"
    lag_seconds: float | None
    behind_since: dt.datetime | None
    upstream_answers: bool = True
    upstream_answered_at: dt.datetime | None = None
    kept_bytes: int | None = None
    kept_bytes_left: int | None = None
    headroom_hours: float | None
    alarms: tuple[Alarm, ...]
    warnings: tuple[str, ...]
    last_failure: LastFailure | None = None
    verified: VerifiedState | None = None
    verification_waits: bool = False
    verification_problem: str | None = None
    work: RecentWork | None = None
    chain: tuple[ChainedJob, ...] = ()
    waits_for: str | None = None
    root_lag_seconds: float | None = None
    rebuild: JobSummary | None = None
    cut_over: CutOverStatus | None = None
    upstreams: Annotated[dict[str, UpstreamStatus], Field(exclude_if=lambda found: not found)] = {}
    furthest_behind: Annotated[str, Field(exclude_if=lambda name: not name)] = ""

    @property
    def furthest(self) -> UpstreamStatus | None:
        """The one of several upstreams that the view is furthest behind; ``None`` if there is only one."""
        return self.upstreams.get(self.furthest_behind)


class JobStatus(JobSummary):
    """
    The status of a job, vnode by vnode.

    :param vnode_map: the progress of each vnode; adjacent vnodes with the same progress are one entry.
    :param splits: the progress of each split, such as a partition of a topic; empty if the upstream has none.
    """

    vnode_map: tuple[VnodeSpan, ...]
    splits: tuple[SplitStatus, ...] = ()


def job_status(*, settings: JobSettings, state: BackfillState, **seen: Any) -> JobStatus:
    """
    Return the status of a job, vnode by vnode.

    :param seen: the other arguments of :func:`job_summary`.
    """
    summary = job_summary(settings=settings, state=state, **seen)
    return JobStatus(
        **dict(summary),
        vnode_map=tuple(vnode_map(settings, state, summary.rows_estimated)),
        splits=splits_of(settings, state, summary),
    )


def splits_of(settings: JobSettings, state: BackfillState, summary: JobSummary) -> tuple[SplitStatus, ...]:
    """Return the progress of each split of a job that has this status."""
    return split_map(settings, state, reached=summary.upstream_version, latest=summary.upstream_latest_version)


def job_summary(  # noqa: PLR0913 - a status is made of all that is known of a job
    *,
    settings: JobSettings,
    state: BackfillState,
    barriers: Sequence[Barrier],
    commits: Sequence[EpochCommit],
    feed: ChangeFeed,
    now: dt.datetime,
    lost_view: str = "",
    failures: Sequence[EpochFailure] = (),
    verified: VerifiedState | None = None,
    verification_waits: bool = False,
    verification_problem: str | None = None,
    chain: UpstreamChain = NO_CHAIN,
    other_feeds: Mapping[str, ChangeFeed] = MappingProxyType({}),
    other_chains: Mapping[str, UpstreamChain] = MappingProxyType({}),
    held: Sequence[HeldUpstream] = (),
    cut_over: CutOverStatus | None = None,
) -> JobSummary:
    """
    Return the status of a job.

    :param barriers: the newest barriers of the log, ascending; at least the last two epochs, more for the speed.
    :param commits: their commits.
    :param feed: the upstream's changes that these have not read.
    :param lost_view: why the view is not the one that the last epoch left; empty if it is.
    :param failures: recorded failures of the newest epochs, in order of epoch and time.
    :param verified: the result of the newest finished verification.
    :param verification_waits: whether a verification is requested.
    :param verification_problem: why verifications cannot be read, if so.
    :param chain: the jobs before this one, whose views lead to its upstream.
    :param other_feeds: such changes of the upstreams beside the one that leads, by their names.
    :param other_chains: the jobs whose views lead to these.
    :param held: the upstreams that wait until another job's view has as much of a common table.
    :param cut_over: what is ready to go live, and waits for an approval.
    """
    barriers = [barrier for barrier in barriers if barrier.incarnation == settings.incarnation]
    commits = [commit for commit in commits if commit.incarnation == settings.incarnation]
    committed = commits[-1] if commits else None
    newest = barriers[-1] if barriers else None
    committed_barrier = next((b for b in reversed(barriers) if committed and b.epoch == committed.epoch), None)
    completed = state.completed and committed is not None and committed.completed
    finished = completed and committed is not None and committed.is_finished and not lost_view
    rows_read = rows_read_in(settings.scan, state)
    # A finished view's later rows come as changes, so its snapshot is what was read.
    estimated = newest.upstream.row_count if newest and not completed else 0
    rows_estimated = max(estimated, rows_read)
    speed = recent_speed(barriers, commits)
    pinned = newest if newest and (not committed or newest.epoch > committed.epoch) else None
    lag_versions = feed.latest.distance_from(
        committed_barrier.upstream.to_offset if committed_barrier else settings.first_window_after
    )
    last_failure = _last_failure(newest, pinned, failures)
    chains = {settings.definition.lead_name: chain, **other_chains}
    upstreams = upstream_statuses(settings, committed_barrier, feed, other_feeds, chains, now)
    waits = [*(waits_for(one.jobs) for one in chains.values()), *(one.waits_for for one in held)]
    waiting = next(filter(None, waits), None)
    alarms = watch(
        settings=settings,
        barriers=barriers,
        commits=commits,
        feed=feed,
        others=other_feeds,
        held=held,
        lost_view=lost_view,
        finished=completed,
        now=now,
    )
    return JobSummary(
        name=settings.job["name"],
        strategy=settings.strategy,
        epoch=committed.epoch if committed else settings.base_epoch,
        pinned_epoch=pinned.epoch if pinned else None,
        pinned_at=pinned.injected_at if pinned else None,
        committed_at=committed.committed_at if committed else None,
        condition=condition_of(
            settings, finished=finished, ready=completed and not finished and not lost_view, pinned=pinned is not None
        ),
        finished=finished,
        paused=settings.paused,
        cancelled=settings.cancelled,
        **settings.rate.in_force(newest.rate_limit if newest else None, newest.rate if newest else None),
        parallelism=settings.parallelism,
        replay_epoch=newest.replay if newest and not finished else 0,
        vnodes=_count(state),
        rows_read=rows_read,
        rows_estimated=rows_estimated,
        progress=progress_of(rows_read, rows_estimated, finished=finished),
        rows_per_second=speed.rows_per_second if speed else None,
        eta_seconds=_eta(settings, rows_estimated - rows_read, speed, finished=finished),
        watermark=committed.watermark if committed and finished else None,
        upstream_version=committed_barrier.upstream.reached_point.offset
        if committed_barrier and committed_barrier.upstream.reached_point
        else None,
        oldest_rows_version=committed_barrier.oldest_offset_after if committed_barrier else None,
        upstream_latest_version=feed.latest,
        lag_versions=lag_versions,
        offset_name=settings.definition.upstream.offset_name,
        lag_unit=settings.definition.upstream.lag_unit,
        lag_seconds=_lag(feed, lag_versions, now) if committed_barrier else None,
        behind_since=feed.unread_since if lag_versions else None,
        upstream_answers=not feed.unanswered,
        upstream_answered_at=answered_at(feed, barriers) if feed.unanswered else None,
        kept_bytes=feed.kept_bytes,
        kept_bytes_left=feed.bytes_left,
        headroom_hours=smallest_headroom([feed, *other_feeds.values()], now),
        alarms=alarms,
        warnings=(
            *(_warnings(newest, verified) if newest else ()),
            *filter(None, [unknown_rows(settings)]),
            *([waiting] if waiting else []),
            *([str(cut_over)] if cut_over else []),
            *map(str, alarms),
            # An epoch that was given up has an alarm instead.
            *([f"{last_failure}; {last_failure.remedy}"] if last_failure and not last_failure.given_up else []),
            *([f"it is unknown whether the view was verified: {verification_problem}"] if verification_problem else []),
        ),
        last_failure=last_failure,
        # A verification's result is about a view that is there.
        verified=None if lost_view else verified,
        verification_waits=verification_waits,
        verification_problem=verification_problem,
        work=recent_work(barriers, commits),
        chain=chain.jobs,
        waits_for=waiting,
        root_lag_seconds=None if chain.behind_root is None else chain.behind_root.seconds(now),
        cut_over=cut_over,
        upstreams=upstreams,
        furthest_behind=furthest_behind(upstreams),
    )


def _warnings(newest: Barrier, verified: VerifiedState | None) -> tuple[str, ...]:
    """Return the warnings of the newest epoch, without the advice to verify once the view is known to be right."""
    known = verified is not None and verified.equal and verified.epoch >= newest.epoch
    return tuple(warning for warning in newest.warnings if not (known and warning == PARTIAL_REPAIR))


def _last_failure(
    newest: Barrier | None, pinned: Barrier | None, failures: Sequence[EpochFailure]
) -> LastFailure | None:
    if newest is not None and newest.given_up is not None:
        return LastFailure.of_given_up(newest.epoch, newest.given_up)
    if pinned is None:
        return None
    ours = [
        failure for failure in failures if (failure.epoch, failure.incarnation) == (pinned.epoch, pinned.incarnation)
    ]
    return LastFailure.of_attempt(ours[-1]) if ours else None


def _count(state: BackfillState) -> VnodeCounts:
    completed = sum(isinstance(progress, Completed) for progress in state.vnodes)
    not_started = sum(isinstance(progress, NotStarted) for progress in state.vnodes)
    total = len(state.vnodes)
    in_progress = total - completed - not_started
    return VnodeCounts(total=total, not_started=not_started, in_progress=in_progress, completed=completed)


def progress_of(rows_read: int, rows_estimated: int, *, finished: bool) -> float:
    """
    Return the progress from 0 to 1; below 1 until finished.

    :param rows_estimated: the estimate at the newest barrier; lower than the rows read if many rows were deleted.
    """
    if finished:
        return 1.0
    return min(rows_read / max(rows_estimated, rows_read), ALMOST_DONE) if rows_estimated or rows_read else 0.0


def _lag(feed: ChangeFeed, lag_versions: int, now: dt.datetime) -> float | None:
    if not lag_versions:
        return None if feed.unanswered else 0.0
    return None if feed.unread_since is None else max((now - feed.unread_since).total_seconds(), 0.0)


def _eta(settings: JobSettings, rows_left: int, speed: Speed | None, *, finished: bool) -> float | None:
    if finished:
        return 0.0
    # Above the estimate, the number of remaining rows is unknown.
    if not settings.reads_snapshot or settings.cancelled or speed is None or rows_left <= 0:
        return None
    return speed.seconds_for(rows_left)
