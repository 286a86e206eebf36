"""Reading a job's control tables: its settings, the barrier log, and what a task run pinned."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.epoch.task_run_epochs import TaskRunEpochs
from airflow_backfill_provider.core.errors import JobNotCreatedError, StateError, StateLayoutError
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.state import records
from airflow_backfill_provider.state.backfill_reader import LogEnd
from airflow_backfill_provider.state.control_table import ControlTable, Write
from airflow_backfill_provider.state.store import BackfillStore
from tests.builders import barrier_of, commit_of, settings_of
from tests.unit.state.store_helpers import TASK, at_position
from tests.variants import mostly_exhaustive

OTHER = TASK.model_copy(update={"map_index": 1})


# --- created or not -------------------------------------------------------------------------------


def test_a_store_that_was_not_created_says_so(lake):
    store = BackfillStore(str(lake / "state"))
    assert not store.created()
    with pytest.raises(JobNotCreatedError, match="create it first") as caught:
        store.settings()
    assert store.location in str(caught.value)
    for look in (store.state, store.log_end):
        with pytest.raises(JobNotCreatedError):
            look()
    assert list(lake.iterdir()) == [], "looking creates nothing"


def test_a_job_whose_creation_died_before_its_first_settings_is_not_created(lake):
    store = BackfillStore(str(lake / "state"))
    ControlTable(f"{store.location}/settings", records.SETTINGS_SCHEMA).create()
    assert not store.created()


def test_the_watched_tables_are_settings_barrier_log_and_verifications(store):
    assert store.watched_tables == tuple(
        f"{store.location}/{name}" for name in ("settings", "barrier_log", "verifications")
    )


# --- what a task run pinned, and the end of the log -----------------------------------------------


def test_barriers_are_found_by_the_task_run_that_pinned_them(store):
    """Names with quotes are compared whole. Another map index and another DAG run are other task runs."""
    requesters = [
        TASK,
        TASK.model_copy(update={"map_index": 1}),
        TASK.model_copy(update={"map_index": 2}),
        TASK.model_copy(update={"run_id": "x' OR '1'='1"}),
        Requester(user=str(TASK)),
    ]
    for epoch, requester in enumerate(requesters, 1):
        store.pin(barrier_of(epoch, injected_by=requester))
    for epoch, requester in enumerate(requesters, 1):
        (found,) = store.epochs_of(requester).barriers
        assert found.epoch == epoch
    assert store.epochs_of(Requester(dag_id="x' OR '1'='1", run_id="", task_id="")) == TaskRunEpochs()


def test_the_epochs_of_a_requester_are_its_barriers_and_their_commits(store):
    barriers = [store.pin(barrier_of(epoch, injected_by=OTHER if epoch == 2 else TASK)) for epoch in (1, 2, 3)]
    commits = [store.record_commit(barrier, commit_of(barrier)) for barrier in barriers[:2]]
    assert store.epochs_of(TASK) == TaskRunEpochs(barriers=(barriers[0], barriers[2]), commits=(commits[0],))
    assert store.epochs_of(OTHER) == TaskRunEpochs(barriers=(barriers[1],), commits=(commits[1],))


def test_epochs_of_a_requester_from_before_a_rebuild_count_until_it_pins_again(store):
    before = store.pin(barrier_of(1, injected_by=TASK))
    assert store.epochs_of(TASK).barriers == (before,)
    after = store.pin(barrier_of(2, injected_by=TASK, incarnation="b2"))
    assert store.epochs_of(TASK).barriers == (after,)


def test_commits_of_a_requester_from_before_a_rebuild_are_left_out_once_it_pins_again(store):
    before = store.pin(barrier_of(1, injected_by=TASK))
    store.record_commit(before, commit_of(before))
    after = store.pin(barrier_of(2, injected_by=TASK, incarnation="b2"))
    assert store.epochs_of(TASK) == TaskRunEpochs(barriers=(after,))


def test_the_end_of_the_log_has_the_last_epochs_barrier_and_commit(store):
    assert store.log_end() == LogEnd(last_epoch=0)
    store.pin(barrier_of(1))
    second = store.pin(barrier_of(2, incarnation="b2"))
    assert store.log_end() == LogEnd(last_epoch=2, barrier=second)
    done = store.record_commit(second, commit_of(second))
    assert store.log_end() == LogEnd(last_epoch=2, barrier=second, commit=done)


# --- state and settings ---------------------------------------------------------------------------


def test_a_state_is_read_again_after_a_write(store):
    """A version's rows are parsed once. Another version or another incarnation has another state."""
    read = store.state()
    assert store.state() is read
    BackfillStore(store.location).write_state(at_position(7, epoch=4, rows=5), settings_of())
    assert store.state() == at_position(7, epoch=4, rows=5)
    with pytest.raises(StateLayoutError, match="another incarnation"):
        store.state_of(settings_of(incarnation="another"))
    assert store.state() == at_position(7, epoch=4, rows=5)


def test_settings_older_than_the_newest_barrier_are_refused(store):
    """I6: settings restored from a copy would undo the changes since the copy."""
    settings = settings_of(sequence=3)
    for pinned in (1, 3):
        store.require_settings_of(barrier_of(1, settings_sequence=pinned), settings)
    with pytest.raises(StateError, match="end with record 3, but epoch 1 was pinned with record 4"):
        store.require_settings_of(barrier_of(1, settings_sequence=4), settings)


# --- reading the log ------------------------------------------------------------------------------


def test_the_log_is_read_from_an_epoch_on(store):
    barriers = [store.pin(barrier_of(epoch)) for epoch in (1, 2, 3)]
    commits = [store.record_commit(barrier, commit_of(barrier)) for barrier in barriers[:2]]
    assert store.log() == (barriers, commits)
    assert store.log(since_epoch=2) == (barriers[1:], commits[1:])
    assert store.log(since_epoch=2, before_epoch=3) == (barriers[1:2], commits[1:])
    assert store.log(before_epoch=2) == (barriers[:1], commits[:1])
    assert store.barriers(since_epoch=3) == barriers[2:]
    assert store.commits(since_epoch=3) == []
    assert [store.pinned(epoch) for epoch in (1, 2, 3)] == barriers
    assert [store.commit_of(epoch) for epoch in (1, 2, 3)] == [*commits, None]
    with pytest.raises(StateError, match="epoch 4 is not pinned in .*; inject its barrier first"):
        store.pinned(4)


def test_an_epoch_that_was_never_committed_is_not_taken_for_a_later_one(store):
    """I2: the barrier of an injector that slept through a rebuild is never run."""
    late, next_one = store.pin(barrier_of(1)), store.pin(barrier_of(2))
    done = store.record_commit(next_one, commit_of(next_one))
    assert (store.commit_of(1), store.commit_of(2)) == (None, done)
    first = commit_of(late)
    assert store.record_commit(late, first) == first == store.commit_of(1)


@pytest.mark.slow
@pytest.mark.parametrize("late", mostly_exhaustive([0, 1, 2, 8, 9, 20], [0, 9]))
def test_the_newest_barrier_of_an_incarnation_is_found_among_late_ones_of_an_earlier_one(store, late):
    """An injector that slept through a rebuild pins a barrier that is never run."""
    settings = settings_of(incarnation="b2", base_epoch=2)
    for epoch in (1, 2):
        store.pin(barrier_of(epoch))
    assert store.newest_barrier(settings) is None
    assert store.newest_barrier(settings_of()).epoch == 2
    for epoch in range(3, 3 + late):
        store.pin(barrier_of(epoch))
    assert store.newest_barrier(settings) is None
    ours = store.pin(barrier_of(3 + late, incarnation="b2"))
    assert store.newest_barrier(settings) == ours
    for epoch in range(4 + late, 4 + 2 * late):
        store.pin(barrier_of(epoch))
    assert store.newest_barrier(settings) == ours


def test_the_newest_barrier_of_an_incarnation_is_not_one_of_another_nor_an_older_one(store):
    settings = settings_of(incarnation="b2", base_epoch=1)
    barriers = [
        store.pin(barrier_of(epoch, incarnation=incarnation))
        for epoch, incarnation in enumerate(("a1", "a1", "b2", "b2", "a1"), 1)
    ]
    assert store.newest_barrier(settings) == barriers[3]
    assert store.newest_barrier(settings_of(incarnation="c3", base_epoch=1)) is None
    assert store.newest_barrier(settings_of(incarnation="c3", base_epoch=5)) is None


@pytest.mark.parametrize(
    ("epochs", "said"),
    [
        ((1, 1), "record 1 is repeated"),
        ((1, 2, 2, 3), "record 2 is repeated"),
        ((1, 2, 2), "record 2 is repeated"),
        ((1, 3), "record 2 is missing"),
        ((2,), "record 1 is missing"),
    ],
)
def test_barriers_that_are_not_one_for_each_epoch_are_refused(store, epochs, said):
    """I3 and I6: also if each barrier is as it was written."""
    for epoch in epochs:
        store._barrier_log.update(lambda _: Write(records.barrier_row(barrier_of(epoch))))  # noqa: B023 - at once
    with pytest.raises(StateError, match=rf"control table .*/barrier_log: {said}, so something else wrote to it"):
        store.barriers()


def test_a_missing_barrier_is_noticed_also_at_the_end_of_the_log(store):
    """The epoch's commit shows that its barrier is missing."""
    store.pin(barrier_of(1))
    store._barrier_log.update(lambda _: Write(records.commit_row(barrier_of(2), commit_of(barrier_of(2)))))
    for look in (store.barriers, store.log, store.log_end):
        with pytest.raises(StateError, match="record 2 is missing"):
            look()
