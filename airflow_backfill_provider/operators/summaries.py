"""The values that tasks return, in plain types that XCom can store and templates can use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_backfill_provider.core.epoch.announced import CommittedEpoch
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.jobs.progress import progress_after

if TYPE_CHECKING:
    from airflow_backfill_provider.jobs.backfill import Backfill


def barrier_summary(barrier: Barrier) -> dict[str, Any]:
    """Describe a pinned barrier."""
    return {
        "epoch": barrier.epoch,
        "from_version": barrier.upstream.from_offset.number,
        "to_version": barrier.upstream.to_offset.number,
        "rate_limit": barrier.rate_limit,
        "parts": len(barrier.parts),
        "paused": barrier.paused,
        "mutations": [str(pinned.mutation) for pinned in barrier.mutations],
        "warnings": list(barrier.warnings),
        **_windows([barrier]),
    }


def epoch_summary(barrier: Barrier, commit: EpochCommit, progress: float) -> dict[str, Any]:
    """Describe a committed epoch."""
    return {
        "epoch": barrier.epoch,
        "from_version": barrier.upstream.from_offset.number,
        "to_version": barrier.upstream.to_offset.number,
        "rows": commit.snapshot_read_row_count,
        "changes": commit.upstream_output_row_count,
        "progress": progress,
        "finished": commit.is_finished,
        **_windows([barrier]),
    }


def _windows(barriers: Sequence[Barrier]) -> dict[str, Any]:
    """
    Return the windows of the upstreams of a job that has several, by their names; nothing if there is only one.

    :param barriers: one epoch or several in their order, which have their windows together.
    """
    if not barriers[-1].others:
        return {}
    windows = {
        window.relation: {
            "from_version": barriers[0].window(window.relation).from_offset.number,
            "to_version": window.to_offset.number,
        }
        for window in barriers[-1].windows
    }
    return {"upstreams": windows}


def epochs_summary(barriers: Sequence[Barrier], commits: Sequence[EpochCommit], progress: float) -> dict[str, Any]:
    """Describe all epochs that a task run committed; ``epoch`` is the last one."""
    return {
        **epoch_summary(barriers[-1], commits[-1], progress),
        "epochs": [barrier.epoch for barrier in barriers],
        "from_version": barriers[0].upstream.from_offset.number,
        **_windows(barriers),
        "rows": sum(commit.snapshot_read_row_count for commit in commits),
        "changes": sum(commit.upstream_output_row_count for commit in commits),
    }


def name_of_epochs(epochs: Sequence[int]) -> int | str:
    """Return the name of a task run, from the epochs that it ran in ascending order."""
    if not epochs:
        return "nothing to do"
    return epochs[0] if len(epochs) == 1 else f"{epochs[0]} to {epochs[-1]}"


def epoch_event(backfill: Backfill, barrier: Barrier, commit: EpochCommit) -> dict[str, Any]:
    """Return the extra of the view's asset event for a committed epoch."""
    return {
        "job": backfill.job.name,
        **epoch_summary(barrier, commit, progress_after(commit, barrier)),
        "rows_read": commit.rows_read,
        "view_version": commit.view_version,
        "watermark": commit.watermark.isoformat(),
        **({"given_up": True} if commit.given_up else {}),
    }


def event_of_epochs(backfill: Backfill, epochs: Sequence[CommittedEpoch]) -> dict[str, Any]:
    """
    Return the extra of the view's asset event for one or more committed epochs.

    An event of several epochs is as of the last one. It has their sums, and ``first_epoch``.
    """
    extra = {"event": "epoch", **epoch_event(backfill, *epochs[-1])}
    if len(epochs) == 1:
        return extra
    return {
        **extra,
        "first_epoch": epochs[0].number,
        "from_version": epochs[0].barrier.upstream.from_offset.number,
        **_windows([epoch.barrier for epoch in epochs]),
        "rows": sum(epoch.commit.snapshot_read_row_count for epoch in epochs),
        "changes": sum(epoch.commit.upstream_output_row_count for epoch in epochs),
    }


def no_barrier(reason: str) -> dict[str, Any]:
    """Return the summary when there was no barrier to inject; ``epoch`` is ``None``."""
    return {"epoch": None, "reason": reason}


def no_epoch(reason: str, progress: float) -> dict[str, Any]:
    """Return the summary when there was no epoch to run, with an epoch's fields; ``epoch`` is ``None``."""
    return {
        "epoch": None,
        "epochs": [],
        "from_version": None,
        "to_version": None,
        "rows": 0,
        "changes": 0,
        "progress": progress,
        "finished": progress >= 1,
        "reason": reason,
    }


def settings_summary(settings: JobSettings) -> dict[str, Any]:
    """Describe the settings in force."""
    return {
        "name": settings.job["name"],
        "incarnation": settings.incarnation,
        "paused": settings.paused,
        "rate_limit": settings.rate_limit,
        "target_epoch_seconds": settings.target_epoch_seconds,
        "max_rows_per_second": settings.max_rows_per_second,
        "parallelism": settings.parallelism,
        "cancelled": settings.cancelled,
        "finished_epoch": settings.finished_epoch,
    }
