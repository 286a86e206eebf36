"""Which vnodes each of several parallel task runs reads, from one epoch to the next."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.scan.progress import BackfillState, Completed
from airflow_backfill_provider.core.scan.scan import VnodeRange, divide


def shared_vnodes(
    state: BackfillState, parallelism: int, previous: Barrier | None, weights: Callable[[], Sequence[float]]
) -> tuple[VnodeRange, ...]:
    """
    Return the vnodes of each parallel task run.

    They stay as before, unless some task runs would be idle while others have several vnodes left. A rescale takes
    effect here.

    :param previous: the previous barrier, if this incarnation has one.
    :param weights: returns the estimated unread rows by vnode, if they are needed.
    """
    if previous is not None and previous.parallelism == parallelism:
        unfinished = [vnode for vnode, progress in enumerate(state.vnodes) if not isinstance(progress, Completed)]
        working = sum(any(first <= vnode <= last for vnode in unfinished) for first, last in previous.vnode_ranges)
        if working == min(parallelism, len(unfinished)):
            return previous.vnode_ranges
    return divide(state, parallelism, weights())
