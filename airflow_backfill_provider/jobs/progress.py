"""The progress of a job, from two records of its barrier log instead of every vnode's state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.status.job_status import progress_of

if TYPE_CHECKING:
    from airflow_backfill_provider.state.backfill_reader import BackfillReader


def current_progress(reader: BackfillReader, incarnation: str) -> tuple[float, int]:
    """Return a job's progress and its last committed epoch; both are 0 before the first one."""
    # If the newest epoch is pinned but not committed, the one before it is the newest committed one.
    barriers, commits = reader.log(since_epoch=max(reader.last_epoch() - 1, 0))
    ours = [commit for commit in commits if commit.incarnation == incarnation]
    return (progress_after(ours[-1], barriers[-1]), ours[-1].epoch) if ours else (0.0, 0)


def progress_after(commit: EpochCommit, barrier: Barrier) -> float:
    """
    Return the progress after a commit, from 0 to 1; below 1 until the view is finished.

    :param commit: the newest commit to count.
    :param barrier: the barrier that holds the estimate of the upstream's rows.
    """
    return progress_of(commit.rows_read, barrier.upstream.row_count, finished=commit.is_finished)
