"""What a verification compares, step by step, and what it says afterwards."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from airflow_backfill_provider.core.epoch.repair import Repair
from airflow_backfill_provider.core.scan.columns import OwnColumns
from airflow_backfill_provider.core.scan.progress import BackfillState, Completed, InProgress, NotStarted
from airflow_backfill_provider.core.status.differences import (
    VnodeDifference,
)
from airflow_backfill_provider.core.status.verification import (
    ComparedVnodes,
    Verification,
    read_vnodes,
    steps_of,
)
from airflow_backfill_provider.strategies.snapshot.scan import FILES_END, SnapshotScan
from airflow_backfill_provider.strategies.vnode_scan import VnodeScan
from tests.builders import NOW, compared_of, order_of, pinned_verification_of


def verification_of(*steps: ComparedVnodes, **changes: Any) -> Verification:
    return Verification(pinned_verification_of(**changes), steps)


# --- checksums ------------------------------------------------------------------------------------


# --- steps ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vnodes", "rows", "wanted", "steps"),
    [
        (4, 0, None, ((0, 3),)),
        (4, 50_000_000, None, ((0, 3),)),
        (4, 50_000_001, None, ((0, 1), (2, 3))),
        (4, 10**12, None, ((0, 0), (1, 1), (2, 2), (3, 3))),
        (8, 0, 3, ((0, 1), (2, 4), (5, 7))),
        (1, 10**12, 9, ((0, 0),)),
    ],
)
def test_steps_have_each_vnode_once(vnodes, rows, wanted, steps):
    assert steps_of(vnodes, rows=rows, wanted=wanted) == steps


def test_a_verification_is_equal_once_all_steps_are_done_and_none_found_anything():
    begun = verification_of()
    assert (begun.steps_left, begun.equal, begun.verified_at) == (((0, 1), (2, 3)), False, NOW)
    half = begun.with_step(compared_of(2, 3))
    assert (half.steps_left, half.finished, half.equal) == (((0, 1),), False, False)
    whole = half.with_step(compared_of(0, 1, seconds=30))
    assert (whole.finished, whole.equal, [step.first for step in whole.compared]) == (True, True, [0, 2])
    assert whole.verified_at == NOW + dt.timedelta(seconds=60)
    assert (whole.expected_rows, whole.found_rows) == (20, 20)
    assert not half.with_step(compared_of(0, 1, (1, "7"))).equal
    assert not verification_of(compared_of(0, 1), compared_of(2, 3, differences=(VnodeDifference(vnode=3),))).equal


def test_the_first_result_of_a_step_stays_and_an_unknown_step_is_ignored():
    half = verification_of(compared_of(0, 1))
    assert half.with_step(compared_of(0, 1, (1, "7"))) == half
    assert half.with_step(compared_of(0, 3)) == half


# --- what was read --------------------------------------------------------------------------------


def test_what_was_read_of_the_vnodes_that_the_job_is_about():
    at = InProgress((5, None), 3)
    state = BackfillState(
        epoch=4,
        vnodes=(Completed(None, 1), Completed((9, "z"), 2), at, NotStarted(), at, at, Completed(None, 0)),
    )
    key = order_of("long", "string")
    read = read_vnodes(state, VnodeScan(key, 7, frozenset(range(6))), key, frozenset(range(6)))
    assert [(run.first, run.last, run.up_to) for run in read] == [
        (0, 1, None),
        (2, 2, ("5", None)),
        (4, 5, ("5", None)),
    ]


def test_all_rows_may_be_read_before_any_vnode_is_completed():
    scan = SnapshotScan(3, OwnColumns())
    state = BackfillState(epoch=4, vnodes=(InProgress(FILES_END, 9),) * 3)
    read = read_vnodes(state, scan, scan.order, frozenset({0, 2}))
    assert [(run.first, run.last, run.up_to) for run in read] == [(0, 0, None), (2, 2, None)]
    begun = BackfillState(epoch=4, vnodes=(InProgress((2, 7), 9),) * 3)
    assert read_vnodes(begun, scan, scan.order, frozenset({0}))[0].up_to == ("2", "7")


# --- repair ---------------------------------------------------------------------------------------


def test_differing_keys_are_repaired_and_vnodes_where_they_are_too_many():
    few = verification_of(compared_of(0, 1, (0, "7"), (1, "8")), compared_of(2, 3, (2, "8")))
    assert few.repair(4, 10) == Repair(keys=(("7",), ("8",)))
    assert few.repair(4, 1) == Repair(vnodes=(0, 1, 2))
    cut = verification_of(compared_of(0, 1, (0, "7"), has_all_keys=False), compared_of(2, 3, (2, "8")))
    assert cut.repair(4, 10) == Repair(vnodes=(0,), keys=(("8",),))
    assert not verification_of(compared_of(0, 1), compared_of(2, 3)).repair(4, 10)


def test_as_many_keys_as_a_repair_can_have_are_repaired_one_by_one():
    """A key that two vnodes have is one of them."""
    steps = compared_of(0, 1, (0, "7"), (1, "8")), compared_of(2, 3, (2, "8"))
    for by_key in (False, True):
        assert verification_of(*steps, by_key=by_key).repair(4, 2) == Repair(keys=(("7",), ("8",)))


def test_a_vnode_whose_differing_keys_were_not_found_is_repaired_whole():
    """I6: rows that are not the same each time they are read."""
    strange = compared_of(0, 1, (0, "7"), differences=(VnodeDifference(vnode=0, missing=1), VnodeDifference(vnode=1)))
    assert verification_of(strange, compared_of(2, 3)).repair(4, 10) == Repair(vnodes=(0, 1))


def test_if_rows_are_compared_by_key_all_vnodes_are_repaired():
    cut = verification_of(compared_of(0, 1, (0, "7"), has_all_keys=False), compared_of(2, 3), by_key=True)
    assert cut.repair(4, 10) == Repair(vnodes=(0, 1, 2, 3))


# --- what is said ---------------------------------------------------------------------------------
