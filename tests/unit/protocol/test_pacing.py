"""The pace of a run of several epochs, without waiting: the clock moves when the run waits."""

from __future__ import annotations

import datetime as dt

import pytest

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.errors import JobCancelledError
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.protocol.pacing import LOOK_EVERY
from tests.builders import NOW
from tests.property.backfilling import Prepared

pytestmark = pytest.mark.slow  # whole epochs through Delta tables

TASK = Requester(dag_id="orders", run_id="manual__1", task_id="run_epoch", map_index=0)


class Time:
    """
    A clock that stands still unless somebody waits.

    :param happens: what others do, by the number of the wait after which they do it.
    """

    def __init__(self, **happens):
        self.now, self.waits, self.happens = NOW, [], {int(n.lstrip("_")): do for n, do in happens.items()}

    def clock(self):
        return self.now

    def wait(self, seconds):
        self.waits.append(seconds)
        self.now += dt.timedelta(seconds=seconds)
        self.happens.get(len(self.waits), lambda: None)()

    @property
    def waited(self):
        return (self.now - NOW).total_seconds()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return Prepared(tmp_path_factory.mktemp("prepared"), range(12), rate_limit=3, max_rows_per_second=2)


@pytest.fixture
def backfilling(prepared):
    """A created job over the orders 0 to 11, three rows an epoch, at most two a second."""
    return prepared.restore()


def run(backfilling, time, epochs=4):
    first, engine = backfilling.inject(TASK, epochs=epochs), backfilling.engine()
    return list(
        protocol.run_epochs(
            first,
            store=backfilling.store,
            upstream=backfilling.orders.table,
            engine=lambda _: engine,
            epochs=epochs,
            clock=time.clock,
            wait=time.wait,
        )
    )


def test_a_run_reads_no_more_rows_per_second_than_the_job_allows(backfilling):
    """Twelve rows at two a second; the last epoch begins when the nine rows before it have had their time."""
    time = Time()
    steps = run(backfilling, time)
    assert [step.commit.snapshot_read_row_count for step in steps] == [3, 3, 3, 3]
    begun = [(step.barrier.injected_at - NOW).total_seconds() for step in steps[1:]]
    assert begun == [1.5, 3.0, 4.5]
    assert max(time.waits) <= LOOK_EVERY
    backfilling.assert_truth()


def test_the_last_epoch_of_a_run_is_not_followed_by_a_wait(backfilling):
    time = Time()
    run(backfilling, time, epochs=2)
    assert time.waited == 1.5


def test_time_that_epochs_took_counts(backfilling):
    """A run that is slower than its pace never waits."""
    time = Time()
    slow = backfilling.engine()
    first = backfilling.inject(TASK, epochs=4)

    def engine(_):
        time.now += dt.timedelta(seconds=10)
        return slow

    steps = protocol.run_epochs(
        first,
        store=backfilling.store,
        upstream=backfilling.orders.table,
        engine=engine,
        epochs=4,
        clock=time.clock,
        wait=time.wait,
    )
    assert len(list(steps)) == 4
    assert time.waits == []


def test_a_pause_ends_the_wait(backfilling):
    """The next barrier is that of a paused job, as soon as it would be without a pace."""
    store = backfilling.store
    mutations.throttle_job(3, max_rows_per_second=1, store=store, requested_by="x")
    time = Time(_1=lambda: mutations.pause_job(store=store, requested_by="x"))
    steps = run(backfilling, time)
    assert time.waited == 1.0
    assert steps[-1].barrier is None
    assert steps[-1].reason.startswith("paused")


def test_a_cancellation_ends_the_wait(backfilling):
    store = backfilling.store
    mutations.throttle_job(3, max_rows_per_second=1, store=store, requested_by="x")
    time = Time(_1=lambda: mutations.cancel_job(store=store, requested_by="x"))
    with pytest.raises(JobCancelledError):
        run(backfilling, time)
    assert time.waited == 1.0


def test_a_new_pace_takes_effect_while_the_run_waits(backfilling):
    store = backfilling.store
    mutations.throttle_job(3, max_rows_per_second=1, store=store, requested_by="x")
    time = Time(_1=lambda: mutations.throttle_job(3, max_rows_per_second=None, store=store, requested_by="x"))
    assert len(run(backfilling, time)) == 4
    assert time.waited == 1.0


def test_a_chunk_has_no_more_rows_than_the_pace_allows_in_the_target(backfilling):
    """So no single epoch bursts far, also without a rate limit."""
    store = backfilling.store
    mutations.throttle_job("auto", target_epoch_seconds=2, store=store, requested_by="x")
    barrier = backfilling.inject(TASK)
    assert barrier.rate_limit == 4
    assert barrier.rate.reason == "because a chunk has no more rows than 2 s of max_rows_per_second"


def test_a_wait_that_is_interrupted_ends_the_run(backfilling):
    def interrupted(_):
        raise KeyboardInterrupt

    time = Time()
    time.wait = interrupted
    with pytest.raises(KeyboardInterrupt):
        run(backfilling, time)
    assert len(backfilling.store.commits()) == 1
