"""The lines about an epoch in a task's log: its window and plan, what it did, and the job's progress."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.job.rate_limit import described_limit
from airflow_backfill_provider.core.status.job_status import JobStatus


def begin(barrier: Barrier, upstream: str) -> Iterator[str]:
    """
    Yield the lines about a barrier, before its epoch runs.

    :param upstream: the location of the upstream.
    """
    window = barrier.upstream
    if window.is_wide:
        yield (
            f"epoch {barrier.epoch}: upstream versions ({window.from_offset}, {window.to_offset}] of {upstream}, "
            f"committed up to {window.watermark:%Y-%m-%d %H:%M:%S} UTC"
        )
    else:
        yield f"epoch {barrier.epoch}: the upstream {upstream} has nothing after version {window.to_offset}"
    for name, other in barrier.others.items():
        yield (
            f"and versions ({other.from_offset}, {other.to_offset}] of {name}"
            if other.is_wide
            else f"and {name} as of version {other.to_offset}"
        )
    yield f"planned: {_plan(barrier)}"
    if barrier.rate is not None and barrier.parts:
        yield f"rate limit: {described_limit(barrier.rate.asked, barrier.rate_limit, barrier.rate.reason)}"
    for pinned in barrier.mutations:
        number = isinstance(pinned.value, int)
        value = "" if pinned.value is None else f" {pinned.value:,}" if number else f" {pinned.value}"
        yield f"takes effect: {pinned.mutation}{value}, asked for by {pinned.requested_by}"


def end(commit: EpochCommit) -> str:
    """Return the line about a committed epoch."""
    seconds = text.duration(sum(commit.seconds.values()))
    return (
        f"epoch {commit.epoch} is committed: {text.rows(commit.snapshot_read_row_count)} read, "
        f"{commit.upstream_output_row_count:,} changes applied, {seconds} in Spark"
    )


def progress(status: JobStatus) -> str:
    """Return the line about a job's progress, with an estimate of the remaining time."""
    if status.finished:
        return f"every vnode is completed: {text.rows(status.rows_read)} read in all"
    speed = f", {text.rows(status.rows_per_second)}/s" if status.rows_per_second else ""
    left = f", about {text.duration(status.eta_seconds)} left" if status.eta_seconds is not None else ""
    return (
        f"{text.percent(status.progress)} of the snapshot: {status.rows_read:,} of {text.rows(status.rows_estimated)}, "
        f"{status.vnodes.completed} of {status.vnodes.total} vnodes completed{speed}{left}"
    )


def _plan(barrier: Barrier) -> str:
    if barrier.filter_change is not None:
        return "rows that only one of the former condition and the new one lets through, and the rest of the epoch"
    if barrier.repair:
        return "rows to repair, and the rest of the epoch"
    if not barrier.parts:
        return "changes only, " + ("the job is paused" if barrier.paused else "no snapshot to read")
    limit = (
        "all snapshot rows that are left" if barrier.rate_limit is None else f"at most {text.rows(barrier.rate_limit)}"
    )
    task_runs = f" in {len(barrier.parts)} parallel task runs" if len(barrier.parts) > 1 else ""
    last = "; every vnode is completed then" if barrier.completes else ""
    changes = "changes, then" if barrier.publishes else "changes of rows that were read wait;"
    return f"{changes} {limit}{task_runs}{last}"
