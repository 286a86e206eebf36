"""Which vnodes each of several parallel task runs reads."""

from __future__ import annotations

import dataclasses

from airflow_backfill_provider.core.epoch.shared_vnodes import shared_vnodes
from airflow_backfill_provider.core.scan.progress import BackfillState, Completed, NotStarted
from tests.builders import barrier_of

UNREAD = BackfillState(epoch=0, vnodes=(NotStarted(),) * 6)
DIVIDED = ((0, 2), (3, 5))


def without(*completed: int) -> BackfillState:
    return dataclasses.replace(
        UNREAD, vnodes=tuple(Completed((n,), 1) if n in completed else vnode for n, vnode in enumerate(UNREAD.vnodes))
    )


def weights() -> list[float]:
    return [1.0] * 6


def test_the_first_epoch_divides_the_vnodes_by_their_unread_rows():
    assert shared_vnodes(UNREAD, 2, None, weights) == DIVIDED


def test_task_runs_keep_their_vnodes_while_each_has_work():
    """So each reads on in the files that it has read before."""
    previous = barrier_of(parallelism=2, vnode_ranges=DIVIDED)

    def no_weights() -> list[float]:
        raise AssertionError("the rows are estimated, and nobody needs them")

    assert shared_vnodes(without(0, 1, 3), 2, previous, no_weights) == DIVIDED


def test_vnodes_are_divided_again_if_a_task_run_would_be_idle():
    previous = barrier_of(parallelism=2, vnode_ranges=DIVIDED)
    assert shared_vnodes(without(0, 1, 2), 2, previous, weights) == ((0, 4), (5, 5))


def test_a_rescale_divides_the_vnodes_again():
    previous = barrier_of(parallelism=2, vnode_ranges=DIVIDED)
    assert shared_vnodes(UNREAD, 3, previous, weights) == ((0, 1), (2, 3), (4, 5))
