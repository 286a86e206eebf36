"""Whether a job is finished, or why not."""

from __future__ import annotations

from enum import StrEnum

from airflow_backfill_provider.core.epoch.settings import JobSettings


class JobCondition(StrEnum):
    """Whether a job is finished, or why not. If several conditions hold, the first in this list."""

    CANCELLED = "cancelled"
    FINISHED = "finished"
    READY = "ready"
    """Every vnode is Completed, and the view waits for an approval."""
    PAUSED = "paused"
    RATE_LIMIT_ZERO = "rate_limit_zero"
    RUNNING = "running"
    """An epoch is pinned and not committed: a task run executes it, or it waits for a retry."""
    WAITING = "waiting"
    """No epoch is pinned: the job waits for the next DAG run."""


def condition_of(settings: JobSettings, *, finished: bool, ready: bool, pinned: bool) -> JobCondition:
    """
    Return whether a job is finished, or why not.

    :param finished: whether every vnode is Completed, the view is there, and it is marked as finished.
    :param ready: whether every vnode is Completed, and it waits for an approval.
    :param pinned: whether an epoch is pinned and not committed.
    """
    if settings.cancelled:
        return JobCondition.CANCELLED
    if finished:
        return JobCondition.FINISHED
    if ready:
        return JobCondition.READY
    if settings.paused:
        return JobCondition.PAUSED
    if settings.rate_limit == 0:
        return JobCondition.RATE_LIMIT_ZERO
    return JobCondition.RUNNING if pinned else JobCondition.WAITING
