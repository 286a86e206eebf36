"""The order of (vnode, key), and dividing vnodes among parallel task runs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_backfill_provider.core.scan.columns import OwnColumns
from airflow_backfill_provider.core.scan.progress import Completed, NotStarted
from airflow_backfill_provider.core.scan.scan import by_vnode, divide
from tests.builders import order_of
from tests.unit.strategies.scan_states import divided, state_of


def test_vnodes_of_equal_weight_are_divided_evenly():
    state = state_of(*[NotStarted()] * 8)
    assert divide(state, 1, [1.0] * 8) == ((0, 7),)
    for weight in (1.0, 5.0):
        assert divide(state, 4, [weight] * 8) == ((0, 1), (2, 3), (4, 5), (6, 7))
    assert [last - first + 1 for first, last in divide(state, 3, [5.0] * 8)] in ([3, 3, 2], [3, 2, 3], [2, 3, 3])


@pytest.mark.parametrize(
    ("weights", "runs"),
    [
        ([1.0, 1.0, 1.0], ((0, 1), (2, 2))),
        ([2.0, 3.0, 1.0], ((0, 0), (1, 2))),
        ([1.0, 1.0, 1.0, 3.0], ((0, 2), (3, 3))),
        ([0.0, 0.5, 1.0, 3.0], ((0, 2), (3, 3))),
    ],
)
def test_a_vnode_goes_to_the_task_run_that_has_more_of_it_in_its_share(weights, runs):
    """If both have the same, to the one before. Each vnode counts as at least one row."""
    assert divide(state_of(*[NotStarted()] * len(weights)), 2, weights) == runs


def test_a_heavy_vnode_has_its_own_task_run():
    assert divide(state_of(*[NotStarted()] * 4), 2, [100.0, 1.0, 1.0, 1.0]) == ((0, 0), (1, 3))
    assert divide(state_of(*[NotStarted()] * 4), 2, [1.0, 1.0, 1.0, 100.0]) == ((0, 2), (3, 3))


def test_vnodes_without_a_row_count_are_divided_by_their_number():
    assert divide(state_of(*[NotStarted()] * 4), 2, [0.0] * 4) == ((0, 1), (2, 3))


def test_there_are_no_more_task_runs_than_vnodes_to_read():
    done, left = Completed(None, 1), NotStarted()
    assert divide(state_of(done, left, done, left), 4, [9.0] * 4) == ((0, 2), (3, 3))
    assert divide(state_of(done, done), 4, [9.0] * 2) == ()


@settings(max_examples=50)
@given(divided(), st.integers(1, 8))
def test_task_runs_own_all_vnodes_and_each_has_some_to_read(drawn, parallelism):
    """A completed vnode goes with its neighbours."""
    state, _, weights = drawn
    runs = divide(state, parallelism, weights)
    unfinished = {vnode for vnode, progress in enumerate(state.vnodes) if not isinstance(progress, Completed)}
    assert len(runs) == min(parallelism, len(unfinished))
    if runs:
        owned = [vnode for first, last in runs for vnode in range(first, last + 1)]
        assert owned == list(range(len(state.vnodes)))
        assert all(unfinished & set(range(first, last + 1)) for first, last in runs)


@settings(max_examples=50)
@given(divided(), st.integers(1, 8))
def test_no_task_run_has_much_more_to_read_than_its_share(drawn, parallelism):
    state, _, weights = drawn
    runs = divide(state, parallelism, weights)
    left = [
        max(weight, 1) if not isinstance(progress, Completed) else 0
        for weight, progress in zip(weights, state.vnodes, strict=True)
    ]
    for first, last in runs:
        assert sum(left[first : last + 1]) <= sum(left) / len(runs) + 2 * max(left)


def test_the_vnode_comes_before_the_key():
    key = order_of("long", ("string", True))
    order = by_vnode(key, OwnColumns())
    assert order.fields[1:] == key.fields
    assert (order.names[0], order.fields[0].type, order.fields[0].descending) == ("__vnode", "integer", False)
