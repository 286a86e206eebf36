"""Several epochs in one task run: each has its own barrier, and a mutation takes effect with the next one."""

from __future__ import annotations

import pytest

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.barrier import Mutation
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import JobCancelledError
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.protocol import loop as epochs
from airflow_backfill_provider.sources.delta.versions import offset_of
from tests.dying import Died, dying_at
from tests.property.backfilling import Backfilling, Prepared

pytestmark = pytest.mark.slow  # whole epochs through Delta tables

TASK = Requester(dag_id="orders", run_id="scheduled__1", task_id="run_epoch", map_index=0)
OTHER = TASK.model_copy(update={"map_index": 1})


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return Prepared(tmp_path_factory.mktemp("prepared"), range(12), rate_limit=3)


@pytest.fixture
def backfilling(prepared):
    """A created job over the orders 0 to 11, three rows an epoch."""
    return prepared.restore()


def run(backfilling: Backfilling, most, *meanwhile, requester=TASK, until=None):
    """Run epochs as an application does; after each, do something. Return what happened."""
    happens, engine = list(meanwhile), backfilling.engine()
    first, done = backfilling.inject(requester, until, most), []
    for step in protocol.run_epochs(
        first,
        store=backfilling.store,
        upstream=backfilling.orders.table,
        engine=lambda _: engine,
        epochs=most,
        until=until,
        clock=backfilling.clock,
    ):
        done.append(step.commit.epoch if step.commit else step.reason)
        if happens:
            happens.pop(0)()
    return done


def change_of(backfilling, change, *value):
    return lambda: change(*value, store=backfilling.store, requested_by="vera")


def test_each_epoch_of_a_run_is_pinned_for_its_task_run_and_committed_before_the_next(backfilling):
    assert run(backfilling, 3) == [1, 2, 3]
    barriers, commits = backfilling.store.log()
    assert [barrier.injected_by for barrier in barriers] == [TASK] * 3
    assert [commit.snapshot_read_row_count for commit in commits] == [3, 3, 3]
    assert all(b.injected_at > c.committed_at for b, c in zip(barriers[1:], commits, strict=False))
    assert len(backfilling.engines) == 1
    backfilling.assert_truth()


def test_a_task_run_pins_no_more_epochs_than_requested_in_all_its_tries(backfilling):
    run(backfilling, 2)
    last, commit = backfilling.store.barriers()[-1], backfilling.store.commits()[-1]
    assert backfilling.ask(TASK, epochs=2) == protocol.Injection(last, commit)
    assert run(backfilling, 2) == [2]
    assert run(backfilling, 2, requester=OTHER) == [3, 4]


def test_a_run_ends_with_the_epoch_that_completes_every_vnode(backfilling):
    def change():
        backfilling.orders.change([0], amount=50)

    assert run(backfilling, 9, change, change, change, change) == [1, 2, 3, 4]
    assert backfilling.store.state().completed
    assert run(backfilling, 9, change, requester=OTHER) == [5], "what came since is carried; what comes then is not"
    backfilling.assert_truth()


def test_changes_after_each_epoch_are_in_the_next(backfilling):
    def change():
        backfilling.orders.change([0], amount=50)

    run(backfilling, 3, change, change)
    assert [b.upstream.to_offset.number for b in backfilling.store.barriers()] == [0, 1, 2]
    backfilling.assert_truth()


def test_a_run_up_to_an_instant_stays_there(backfilling):
    until = backfilling.orders.table.watermark(offset_of(0))
    backfilling.orders.change([0], amount=50)
    run(backfilling, 3, until=until)
    assert [b.upstream.to_offset.number for b in backfilling.store.barriers()] == [0, 0, 0]


def test_a_pause_takes_effect_with_the_next_epoch_and_nothing_to_do_ends_the_run(backfilling):
    pause = change_of(backfilling, mutations.pause_job)
    assert run(backfilling, 4, pause) == [1, "paused, and the upstream has no changes after offset 0"]
    assert backfilling.store.last_epoch() == 1


def test_a_paused_run_applies_changes_and_reads_on_once_it_is_resumed(backfilling):
    def pause():
        backfilling.orders.change([0], amount=50)
        mutations.pause_job(store=backfilling.store, requested_by="vera")

    assert run(backfilling, 3, pause, change_of(backfilling, mutations.resume_job)) == [1, 2, 3]
    _, paused, resumed = backfilling.store.barriers()
    assert (paused.parts, [found.mutation for found in paused.mutations]) == ((), [Mutation.PAUSE])
    assert [found.mutation for found in resumed.mutations] == [Mutation.RESUME]
    assert [c.snapshot_read_row_count for c in backfilling.store.commits()] == [3, 0, 3]
    backfilling.assert_truth()


def test_another_rate_limit_and_a_repair_take_effect_with_the_next_epoch(backfilling):
    repair = change_of(backfilling, lambda **asked: mutations.repair_job(keys=[[0]], vnodes=[], **asked))
    run(backfilling, 3, change_of(backfilling, mutations.throttle_job, 1), repair)
    assert [c.snapshot_read_row_count for c in backfilling.store.commits()] == [3, 1, 1]
    assert [bool(b.repair) for b in backfilling.store.barriers()] == [False, False, True]


def test_a_cancelled_job_fails_the_run_and_keeps_what_is_committed(backfilling):
    with pytest.raises(JobCancelledError, match="was cancelled by vera"):
        run(backfilling, 3, change_of(backfilling, mutations.cancel_job))
    assert len(backfilling.store.commits()) == 1
    backfilling.assert_truth()


def test_a_rebuilt_job_is_left_to_another_run(backfilling):
    assert run(backfilling, 3, backfilling.rebuild) == [1, epochs.REBUILT]
    assert backfilling.store.last_epoch() == 1
    assert run(backfilling, 2) == [2, 3], "what the task run carried before the rebuild is gone"
    backfilling.assert_truth()


def test_another_requesters_barrier_in_between_is_completed_and_not_counted(backfilling):
    assert run(backfilling, 3, lambda: backfilling.inject(OTHER)) == [1, 2, 3]
    assert [b.injected_by for b in backfilling.store.barriers()] == [TASK, OTHER, TASK]
    assert run(backfilling, 3) == [4]


@pytest.mark.parametrize("point", [CrashPoint.AFTER_PIN, CrashPoint.BEFORE_STATE_COMMIT, CrashPoint.BEFORE_LOG_COMMIT])
def test_a_retry_goes_on_with_the_epoch_that_died_and_runs_what_is_left(backfilling, point):
    """I2."""
    with pytest.raises(Died):
        run(backfilling, 3, lambda: crash_points.install(dying_at(point)))
    crash_points.install(None)
    assert len(backfilling.store.commits()) == 1
    assert run(backfilling, 3) == [2, 3]
    assert [b.injected_by for b in backfilling.store.barriers()] == [TASK] * 3
    backfilling.assert_truth()


def test_the_next_epoch_of_a_user_at_a_terminal_is_injected_and_run(backfilling):
    def next_epoch():
        return protocol.run_next_epoch(
            store=backfilling.store,
            upstream=backfilling.orders.table,
            requester=Requester(user="vera"),
            engine=lambda _: backfilling.engine(),
        )

    assert [next_epoch().commit.epoch for _ in range(4)] == [1, 2, 3, 4]
    assert next_epoch().reason == "the upstream has no changes after offset 0"
    assert len(backfilling.engines) == 4, "none where there is nothing to do"


def test_a_task_run_whose_epoch_is_committed_needs_no_engine(backfilling):
    def next_epoch(engine):
        return protocol.run_next_epoch(
            store=backfilling.store, upstream=backfilling.orders.table, requester=TASK, engine=engine
        )

    done = next_epoch(lambda _: backfilling.engine())
    assert next_epoch(None) == done


def test_the_next_epoch_is_up_to_the_requested_instant(backfilling):
    until = backfilling.orders.table.watermark(offset_of(0))
    backfilling.orders.change([0], amount=50)
    for _ in range(2):
        done = protocol.run_next_epoch(
            store=backfilling.store,
            upstream=backfilling.orders.table,
            requester=TASK,
            engine=lambda _: backfilling.engine(),
            until=until,
            epochs=2,
        )
        assert done.barrier.upstream.to_offset.number == 0
    assert done.barrier.epoch == 2, "the task run carries two"
