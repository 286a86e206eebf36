"""Injecting the same barrier again: retries, other injectors, and those that overlap."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.errors import ConcurrentUpdateError
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.state.store import BackfillStore
from tests.builders import part_of
from tests.unit.protocol import inject_helpers
from tests.unit.protocol.inject_helpers import TASK, write_a_version_without_rows
from tests.variants import exhaustive

prepared = inject_helpers.prepared
backfilling = inject_helpers.backfilling

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


def test_a_retry_of_a_task_run_finds_its_own_barrier(backfilling):
    """I2: also long after, when later epochs were committed."""
    mine = backfilling.inject(TASK)
    assert backfilling.ask(TASK) == protocol.Injection(mine)
    commit = backfilling.run(mine)
    assert backfilling.ask(TASK) == protocol.Injection(mine, commit)
    backfilling.epoch()
    assert backfilling.ask(TASK) == protocol.Injection(mine, commit)
    assert len(backfilling.store.barriers()) == 2


def test_a_task_run_of_several_epochs_gets_the_one_that_is_due_and_no_commit_of_another(backfilling):
    backfilling.run(backfilling.inject(TASK, epochs=3))
    due = backfilling.inject(TASK, epochs=3)
    assert due.epoch == 2
    assert backfilling.ask(TASK, epochs=3) == protocol.Injection(due)


def test_a_task_run_that_pinned_a_barrier_before_a_rebuild_pins_another(backfilling):
    """I5: the barrier that it finds as its own belongs to an incarnation that is over."""
    backfilling.run(backfilling.inject(TASK))
    rebuilt = backfilling.rebuild().incarnation
    barrier = backfilling.inject(TASK)
    assert (barrier.epoch, barrier.incarnation) == (2, rebuilt)


@pytest.mark.parametrize(
    "other",
    [
        Requester(dag_id="orders", run_id="manual__2", task_id="inject"),
        Requester(dag_id="orders", run_id="manual__1", task_id="inject", map_index=1),
        Requester(user="tester"),
    ],
)
def test_a_request_while_a_barrier_is_pinned_adopts_it(backfilling, other):
    """
    A pinned barrier that was not committed is returned again.

    See docs/concepts/rules.md#a-pinned-barrier-is-the-one-that-runs.
    """
    mine = backfilling.inject(TASK)
    backfilling.orders.add(50)
    assert backfilling.ask(other) == protocol.Injection(mine)
    commit = backfilling.run(mine)
    assert backfilling.inject(other).epoch == 2
    assert commit.epoch == 1


def test_a_user_at_a_terminal_gets_a_new_barrier_every_time(backfilling):
    assert [backfilling.epoch().epoch for _ in range(2)] == [1, 2]


def test_injectors_at_once_all_get_one_barrier(backfilling):
    """
    The first in log order wins and the others adopt it.

    See docs/concepts/rules.md#a-pinned-barrier-is-the-one-that-runs.
    """
    with ThreadPoolExecutor(6) as threads:
        requesters = [Requester(dag_id="d", run_id=f"r{n}", task_id="t") for n in range(6)]
        found = list(threads.map(backfilling.inject, requesters))
    assert found == [found[0]] * 6
    assert backfilling.store.barriers() == [found[0]]


@pytest.mark.exhaustive
def test_an_injector_without_work_that_adopts_another_barrier_does_not_commit_it(backfilling):
    """I1: its commit would say that changes are in the view which were never written there."""
    backfilling.finish()
    write_a_version_without_rows(backfilling)
    others = []

    class Sleeper(BackfillStore):
        def pin(self, barrier):
            backfilling.orders.add(50)
            others.append(backfilling.inject(TASK))
            return super().pin(barrier)

    injection = protocol.inject_barrier(
        store=Sleeper(backfilling.job.state),
        upstream=backfilling.orders.table,
        requester=Requester(user="vera"),
        clock=backfilling.clock,
    )
    assert [injection] == [protocol.Injection(other) for other in others]
    assert backfilling.store.commit_of(others[0].epoch) is None
    backfilling.finish()


@pytest.fixture
def rebuilt(backfilling):
    """The job, rebuilt, and what pins a barrier from before the rebuild as the next epoch."""
    old = backfilling.inject()
    backfilling.rebuild()

    def pin_late():
        last = backfilling.store.last_epoch()
        return backfilling.store.pin(old.model_copy(update={"epoch": last + 1, "prev_epoch": last}))

    return backfilling, pin_late


def test_an_epoch_goes_on_where_the_newest_of_its_own_incarnation_ended(rebuilt):
    """I1 and I3: a late injector of an earlier one may have pinned the last of all."""
    backfilling, pin_late = rebuilt
    backfilling.orders.change([0], amount=50)
    backfilling.epoch()
    pin_late()
    barrier = backfilling.inject()
    assert (barrier.epoch, barrier.prev_epoch, barrier.upstream.from_offset.number) == (4, 3, 1)
    assert barrier.parts == (part_of(("2",), ("5",)),)


def test_an_epoch_without_work_after_another_requesters_does_not_vouch_for_the_view(rebuilt):
    """I6: writes to the view in between were not checked."""
    backfilling, pin_late = rebuilt
    backfilling.finish()
    late = pin_late()
    write_a_version_without_rows(backfilling)
    barrier, commit = backfilling.ask().newest
    assert (barrier.prev_epoch, commit.view_version) == (late.epoch, None)


MEANWHILE = {
    "injected": lambda other: other.inject(),
    "ran an epoch and injected": lambda other: (other.epoch(), other.inject()),
}


@pytest.mark.parametrize("meanwhile", MEANWHILE)
@pytest.mark.parametrize(
    "asleep_before", [exhaustive("settings_history"), "log_end", exhaustive("repair_state"), "pin"]
)
def test_an_injector_that_sleeps_anywhere_while_another_works_pins_nothing_twice(backfilling, asleep_before, meanwhile):
    """I2 and I3: each barrier goes on where the one before ended, whichever was faster."""
    if meanwhile != "injected":
        backfilling.epoch()
    awake = []

    class Sleeper(BackfillStore):
        def __getattribute__(self, name):
            if name == asleep_before and not awake:
                awake.append(name)
                MEANWHILE[meanwhile](backfilling)
            return super().__getattribute__(name)

    protocol.inject_barrier(
        store=Sleeper(backfilling.job.state), upstream=backfilling.orders.table, requester=TASK, clock=backfilling.clock
    )
    assert awake
    backfilling.epoch()
    backfilling.assert_truth()
    barriers = backfilling.store.barriers()
    assert [barrier.epoch for barrier in barriers] == list(range(1, len(barriers) + 1))
    for earlier, later in pairwise(barriers):
        assert later.upstream.from_offset.number == earlier.upstream.to_offset.number
        assert later.parts[0].ranges[0].after == earlier.parts[0].ranges[0].up_to


@pytest.mark.exhaustive
def test_a_job_that_is_rebuilt_under_every_injection_is_left_alone(backfilling):
    """Each time the epoch is pinned already, for another incarnation."""
    rebuilt = []

    class Rebuilding(BackfillStore):
        def pin(self, barrier):
            rebuilt.append(backfilling.rebuild().incarnation)
            backfilling.epoch()
            return super().pin(barrier)

    store = Rebuilding(backfilling.job.state)
    with pytest.raises(ConcurrentUpdateError, match="is being rebuilt; try again"):
        protocol.inject_barrier(store=store, upstream=backfilling.orders.table, requester=TASK, clock=backfilling.clock)
    assert len(rebuilt) == 3
    assert [barrier.incarnation for barrier in backfilling.store.barriers()] == rebuilt
    backfilling.finish()
