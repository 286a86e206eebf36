"""How far a job is, from its barrier log alone: two records instead of every vnode's state."""

from __future__ import annotations

from airflow_backfill_provider.core.barrier import Barrier, EpochCommit
from airflow_backfill_provider.core.status import ALMOST_DONE


def progress_after(commit: EpochCommit, barrier: Barrier) -> float:
    """
    Return the progress after a commit, from 0 to 1; below 1 until every vnode is Completed.

    :param commit: the newest commit to count.
    :param barrier: the barrier whose count of the upstream's rows is the estimate.
    """
    if commit.completed:
        return 1.0
    estimate = max(barrier.upstream.row_count, commit.rows_read)
    return min(commit.rows_read / estimate, ALMOST_DONE) if estimate else 0.0
