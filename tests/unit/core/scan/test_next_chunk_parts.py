"""Planning one chunk for several task runs that share the rate limit."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_backfill_provider.core.scan.next_chunk import ChunkPart, choose_parts
from tests.builders import ExactKeys
from tests.unit.core.layouts import Vnodes, plan_of, vnode


def test_task_runs_share_the_rate_limit_fairly():
    layout = Vnodes(100, 100, 100)
    plans, rows = layout.parts([[vnode(0)], [vnode(1)], [vnode(2)]], 60)
    assert rows == [20, 20, 20]
    assert not any(plan.completes for plan in plans)


def test_the_remainder_goes_to_the_first_task_runs():
    _, rows = Vnodes(100, 100, 100).parts([[vnode(0)], [vnode(1)], [vnode(2)]], 5)
    assert rows == [2, 2, 1]


def test_rows_that_one_task_run_does_not_need_go_to_the_others():
    layout = Vnodes(100, 3, 100, 7)
    plans, rows = layout.parts([[vnode(0)], [vnode(1)], [vnode(2)], [vnode(3)]], 60)
    assert rows == [25, 3, 25, 7]
    assert [plan.completes for plan in plans] == [False, True, False, True]


@pytest.mark.parametrize(("stored", "read"), [((10, 20, 100), [10, 20, 30]), ((5, 18, 100), [5, 18, 37])])
def test_leftovers_are_shared_until_every_task_run_has_enough(stored, read):
    """One task run gets enough only with the rows that another one leaves."""
    plans, rows = Vnodes(*stored).parts([[vnode(0)], [vnode(1)], [vnode(2)]], 60)
    assert rows == read
    assert [plan.completes for plan in plans] == [True, True, False]


def test_a_rate_limit_below_the_number_of_task_runs_leaves_some_without_a_part():
    """I4: the rate limit is a cap, and at least one row is read."""
    plans, rows = Vnodes(10, 10, 10).parts([[vnode(0)], [vnode(1)], [vnode(2)]], 1)
    assert rows == [1, 0, 0]
    assert [plan.ranges for plan in plans[1:]] == [(), ()]
    assert not any(plan.completes for plan in plans)
    assert plans[1] == ChunkPart((), 0, False, 0, 0, 0)


def test_a_task_run_with_nothing_left_has_no_part():
    plans, rows = Vnodes(10, 10).parts([[], [vnode(1)]], 4)
    assert (rows, plans[0]) == ([0, 4], ChunkPart((), 0, True, 0, 0, 0))


def test_a_task_run_that_takes_all_of_the_rate_limit_leaves_nothing():
    plans, rows = Vnodes(1, 10).parts([[vnode(0)], [vnode(1)]], 1)
    assert (rows, [plan.completes for plan in plans]) == ([1, 0], [True, False])


def test_a_task_run_that_needs_less_than_the_others_is_counted_without_reading_keys():
    layout = Vnodes(10, 10, 100)
    index = ExactKeys(layout.keys, layout.order)
    plans = choose_parts(layout.files, unread=[[vnode(0)], [vnode(2)]], rate_limit=40, order=layout.order, keys=index)
    assert [plan.rows for plan in plans] == [10, 30]
    assert index.read == {"part-001"}, "the file that ends where the other run begins"


def test_without_a_rate_limit_every_task_run_reads_all_of_its_vnodes():
    unread = [[vnode(0, 1)], [vnode(2), vnode(3)]]
    plans, rows = Vnodes(10, 20, 30, 40).parts(unread, None)
    assert rows == [30, 70]
    assert [plan.ranges for plan in plans] == [tuple(ranges) for ranges in unread]
    assert all(plan.completes for plan in plans)


@pytest.mark.parametrize("rate_limit", [None, 9])
def test_without_task_runs_there_are_no_parts(rate_limit):
    assert Vnodes(10).parts([], rate_limit) == ((), [])


def test_one_task_run_plans_as_if_there_were_no_parts():
    layout = Vnodes(30, 30)
    (part,), _ = layout.parts([[vnode(0, 1)]], 25)
    assert part == plan_of(layout, [vnode(0, 1)], 25)[0]


@st.composite
def shared_vnodes(draw):
    """Draw vnodes, and the ones that each task run owns."""
    rows = draw(st.lists(st.integers(0, 30), min_size=1, max_size=6))
    cuts = draw(st.sets(st.integers(0, len(rows))))
    return Vnodes(*rows), [[vnode(first, end - 1)] for first, end in pairwise(sorted({0, *cuts, len(rows)}))], sum(rows)


@pytest.mark.slow
@given(shared_vnodes(), st.integers(1, 80))
def test_task_runs_hold_the_cap_together_and_read_nothing_twice(drawn, rate_limit):
    layout, unread, stored = drawn
    plans, read = layout.parts(unread, rate_limit)
    chunk = [covered for plan in plans for covered in plan.ranges]
    assert len(ExactKeys(layout.keys, layout.order).within(layout.keys, *chunk)) == sum(read) <= rate_limit
    assert sum(read) > 0 or not stored
    assert sum(read) == stored or not all(plan.completes for plan in plans)
    for plan, count in zip(plans, read, strict=True):
        assert plan.completes or count >= 0.9 * (rate_limit // len(unread)) - 1, "its fair share"


@example((Vnodes(1, 10), [[vnode(0)], [vnode(1)]], 11), 19)
@given(shared_vnodes(), st.integers(1, 80))
def test_task_runs_together_read_as_much_as_the_rate_limit_allows(drawn, rate_limit):
    """I4: finished within about rows ÷ rate limit epochs."""
    layout, unread, _ = drawn
    plans, read = layout.parts(unread, rate_limit)
    assert all(plan.completes for plan in plans) or sum(read) >= 0.9 * rate_limit - len(plans)
