"""Which epochs a task run announces, and whose metrics it sends."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.epoch.announced import (
    Announced,
    CommittedEpoch,
    after,
    committed,
    in_events,
    to_announce,
    to_measure,
)
from airflow_backfill_provider.core.job.requester import Requester
from tests.builders import barrier_of, commit_of

KNOWN = Announced(incarnation="a1", epoch=3, measured=4)


def epochs(*numbers: int, dag_id: str | None = None) -> list[CommittedEpoch]:
    who = Requester(user="tester") if dag_id is None else Requester(dag_id=dag_id, run_id="r", task_id="t")
    barriers = [barrier_of(number, injected_by=who) for number in numbers]
    return [CommittedEpoch(barrier, commit_of(barrier)) for barrier in barriers]


def numbers(found: list[CommittedEpoch]) -> list[int]:
    return [epoch.number for epoch in found]


def test_a_record_never_goes_back():
    """Two task runs of a DAG may end in any order."""
    assert KNOWN.up_to(2, "a2") == Announced(incarnation="a2", epoch=3, measured=4)
    assert KNOWN.up_to(7, "a2").epoch == 7
    assert KNOWN.measured_up_to(3).measured == 4
    assert KNOWN.measured_up_to(9) == Announced(incarnation="a1", epoch=3, measured=9)


def test_only_epochs_that_are_committed_are_announced():
    barriers = [barrier_of(4), barrier_of(5), barrier_of(6)]
    assert numbers(committed(barriers, [commit_of(barriers[0]), commit_of(barriers[1])])) == [4, 5]
    assert committed([], []) == []


def test_epochs_are_announced_in_order_and_each_once():
    assert numbers(to_announce(epochs(6, 7), epochs(5, 6))) == [5, 6, 7]
    assert numbers(to_announce([], epochs(2))) == [2]
    assert numbers(after(6, epochs(5, 6, 7))) == [7]


@pytest.mark.parametrize(
    ("most", "events"),
    [
        (9, [[1], [2], [3], [4], [5]]),
        (5, [[1], [2], [3], [4], [5]]),
        (4, [[1, 2], [3], [4], [5]]),
        (1, [[1, 2, 3, 4, 5]]),
    ],
)
def test_too_many_events_are_fewer_of_the_oldest_epochs(most, events):
    found = in_events(epochs(1, 2, 3, 4, 5), most)
    assert [[epoch.number for epoch in event] for event in found] == events


def test_nothing_is_announced_by_no_event():
    assert in_events([]) == []


def test_a_dag_measures_what_it_pinned_and_what_it_ran():
    log = [*epochs(4), *epochs(5, dag_id="mine"), *epochs(6, dag_id="other"), *epochs(7)]
    assert numbers(to_measure(log, dag_id="mine", ran=[7])) == [5, 7]
    assert to_measure(log, dag_id="third", ran=[]) == []
