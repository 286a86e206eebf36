"""The writes of the epoch protocol: created once, pinned once, committed once, and never taken back."""

from __future__ import annotations

import datetime as dt
import shutil

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.core.epoch.settings import SettingsChange
from airflow_backfill_provider.core.epoch.task_run_epochs import TaskRunEpochs
from airflow_backfill_provider.core.errors import JobNotCreatedError, StateError
from airflow_backfill_provider.core.scan.progress import BackfillState, InProgress, NotStarted
from airflow_backfill_provider.state import control_table
from airflow_backfill_provider.state.backfill_reader import BackfillReader
from airflow_backfill_provider.state.control_table import ControlTable
from airflow_backfill_provider.state.store import BackfillStore
from tests.builders import NOW, barrier_of, commit_of, job_of, part_of, settings_of
from tests.unit.state.store_helpers import TASK, at_position, changed, nothing_read, together, versions


def test_the_object_stores_options_go_to_every_table():
    options = {"timeout": "7s"}
    store = BackfillStore("s3://lake/state", options)
    assert store.storage_options == options
    state = store._state_table(settings_of())
    for table in (store._settings, store._barrier_log, state, store.verifications.table):
        assert table._options == options
    assert state.location == "s3://lake/state/vnode_state"
    assert BackfillStore("/lake/state").storage_options == {}


# --- creating -------------------------------------------------------------------------------------


def test_a_state_that_another_writer_made_meanwhile_is_left_as_it_is(store):
    """I3: the other one may have run an epoch already."""
    written = at_position(7, epoch=1, rows=5)

    class Sleeper(BackfillStore):
        def newest_barrier(self, settings):
            other = BackfillStore(self.location)
            other.repair_state()
            other.write_state(written, settings)

    shutil.rmtree(f"{store.location}/vnode_state")
    assert Sleeper(store.location).repair_state() == store.state() == written


def test_a_created_job_has_settings_and_has_read_nothing(store):
    assert store.created()
    assert store.settings() == settings_of()
    assert store.settings_history() == [settings_of()]
    assert store.state() == nothing_read(4)
    assert (store.barriers(), store.commits(), store.last_epoch()) == ([], [], 0)


def test_creating_again_changes_nothing_and_returns_what_is_in_force(store):
    before = versions(store)
    assert store.create(settings_of(incarnation="other", requested_by="second")) == settings_of()
    assert versions(store) == before


def test_of_creators_at_once_one_wins_and_the_others_find_its_settings(lake):
    stores = [BackfillStore(str(lake / "state")) for _ in range(4)]
    found = together(4, lambda n: stores[n].create(settings_of(incarnation=f"i{n}")))
    assert len({settings.incarnation for settings in found}) == 1
    assert len(stores[0].settings_history()) == 1
    assert stores[0].state() == nothing_read(4)


@pytest.mark.parametrize("dies_after", ["settings", "barrier_log", "first settings", "vnode_state"])
def test_a_creation_that_died_between_its_commits_is_completed_by_creating_again(lake, monkeypatch, dies_after):
    """I2: a crash between any two commits is repaired by running again."""
    store = BackfillStore(str(lake / "state"))

    class DiedError(Exception):
        pass

    create, update = ControlTable.create, ControlTable.update

    def dying_create(table):
        create(table)
        if table.location.endswith(dies_after):
            raise DiedError

    def dying_update(table, decide, **options):
        update(table, decide, **options)
        if dies_after == "first settings" and table.location.endswith("settings"):
            raise DiedError

    with monkeypatch.context() as patched:
        patched.setattr(ControlTable, "create", dying_create)
        patched.setattr(ControlTable, "update", dying_update)
        with pytest.raises(DiedError):
            store.create(settings_of())
    assert store.created() is (dies_after in {"first settings", "vnode_state"})
    assert store.create(settings_of()) == settings_of()
    assert store.state() == nothing_read(4)
    assert len(store.settings_history()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 7, 256, 32_768])
def test_any_allowed_number_of_vnodes_is_kept(lake, count):
    job = job_of(vnode_count=count)
    store = BackfillStore(str(lake / "state"))
    settings = store.create(settings_of(job))
    assert store.state() == nothing_read(count)
    store.write_state(at_position(7, epoch=1, vnodes=count), settings)
    assert store.state() == at_position(7, epoch=1, vnodes=count)


# --- settings -------------------------------------------------------------------------------------


def test_a_change_is_in_force_and_the_history_has_all_changes(store):
    store.change_settings(lambda s: changed(s, paused=True))
    found = store.change_settings(lambda s: changed(s, SettingsChange.THROTTLE, rate_limit=7, value=7))
    assert (found.paused, found.rate_limit, found.sequence) == (True, 7, 3)
    assert [record.change.value for record in store.settings_history()] == ["create", "pause", "throttle"]
    assert BackfillReader(store.location).settings() == found


def test_a_change_to_nothing_writes_nothing(store):
    before = versions(store)
    assert store.change_settings(lambda _: None) == settings_of()
    assert versions(store) == before


def test_changes_at_once_all_happen_one_after_the_other(store):
    together(6, lambda n: BackfillStore(store.location).change_settings(lambda s: changed(s, rate_limit=n)))
    history = store.settings_history()
    assert [record.sequence for record in history] == list(range(1, 8))
    assert {record.rate_limit for record in history[1:]} == set(range(6))


def test_settings_of_a_job_that_was_not_created_cannot_be_changed(lake):
    with pytest.raises(JobNotCreatedError):
        BackfillStore(str(lake / "state")).change_settings(lambda s: s)


# --- pinning --------------------------------------------------------------------------------------


def test_a_pinned_barrier_is_found_by_all_readers(store):
    barrier = barrier_of(1, injected_by=TASK)
    assert store.pin(barrier) == barrier
    assert store.barriers() == [barrier]
    assert store.last_epoch() == 1
    assert store.epochs_of(TASK) == TaskRunEpochs(barriers=(barrier,))


def test_pinning_an_epoch_again_returns_the_barrier_that_the_log_holds(store):
    """I2: the plan is pinned once for all who ask."""
    first = store.pin(barrier_of(1))
    before = versions(store)
    second = barrier_of(1, parts=(), injected_by=TASK)
    assert store.pin(second) == first
    assert versions(store) == before


def test_of_injectors_at_once_the_first_in_log_order_wins_and_the_others_adopt_its_barrier(store):
    """docs/concepts/rules.md#a-pinned-barrier-is-the-one-that-runs."""
    candidates = [barrier_of(1, parts=(part_of(None, (str(n),)),)) for n in range(8)]
    found = together(8, lambda n: BackfillStore(store.location).pin(candidates[n]))
    assert found == [found[0]] * 8
    assert store.barriers() == [found[0]]
    assert found[0] in candidates


def test_epochs_are_pinned_one_after_the_other(store):
    """I3: epochs are consecutive."""
    store.pin(barrier_of(1))
    store.pin(barrier_of(2))
    with pytest.raises(StateError, match=r"epoch 4 cannot follow epoch 2 .* rebuild the job"):
        store.pin(barrier_of(4, prev_epoch=1))
    assert store.last_epoch() == 2


def test_an_epoch_whose_predecessor_was_never_pinned_is_refused(store):
    """I3: without its predecessor, an epoch's log was cut off."""
    with pytest.raises(StateError):
        store.pin(barrier_of(5))


# --- committing -----------------------------------------------------------------------------------


def test_a_committed_state_is_read_back(store):
    state = at_position(7, epoch=1, rows=5)
    store.write_state(state, settings_of())
    assert store.state() == state


@pytest.mark.parametrize("epoch", [0, 3, 4])
def test_a_state_of_the_same_or_an_earlier_epoch_is_a_no_op(store, epoch):
    """I5: a zombie writes nothing, and neither does a replay."""
    store.write_state(at_position(7, epoch=4, rows=5), settings_of())
    before = versions(store)
    store.write_state(at_position(99, epoch=epoch, rows=99), settings_of())
    assert versions(store) == before
    assert store.state() == at_position(7, epoch=4, rows=5)


@pytest.mark.parametrize(
    "later",
    [
        at_position(6, epoch=5, rows=9),
        at_position(9, epoch=5, rows=4),
        BackfillState(epoch=5, vnodes=(NotStarted(),) * 4),
        at_position(9, epoch=5, rows=9, vnodes=3),
    ],
)
def test_a_later_state_that_would_go_back_is_refused_and_not_written(store, later):
    """I3."""
    store.write_state(at_position(7, epoch=4, rows=5), settings_of())
    before = versions(store)
    with pytest.raises(StateError):
        store.write_state(later, settings_of())
    assert versions(store) == before


def test_the_state_of_another_incarnation_is_left_alone(store):
    """I5: a zombie from before a rebuild."""
    before = versions(store)
    store.write_state(at_position(7, epoch=9), settings_of(incarnation="older"))
    assert versions(store) == before


def test_of_two_writers_of_one_epoch_at_once_both_succeed_and_one_writes(store):
    """I2: both write the same state."""
    state = at_position(7, epoch=1, rows=5)
    before = versions(store)["vnode_state"]
    together(4, lambda _: BackfillStore(store.location).write_state(state, settings_of()))
    assert store.state() == state
    assert versions(store)["vnode_state"] == before + 1


def test_the_first_commit_of_an_epoch_wins(store):
    barrier = store.pin(barrier_of(1))
    first = store.record_commit(barrier, commit_of(barrier))
    later = commit_of(barrier, view_version=99, committed_at=NOW + dt.timedelta(days=1))
    assert store.record_commit(barrier, later) == first
    assert store.commits() == [first]


def test_of_committers_at_once_all_return_the_one_commit(store):
    barrier = store.pin(barrier_of(1))
    found = together(
        6, lambda n: BackfillStore(store.location).record_commit(barrier, commit_of(barrier, view_version=n))
    )
    assert len({commit.view_version for commit in found}) == 1
    assert store.commits() == [found[0]]


# --- growing --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_long_log_keeps_everything_through_compaction(store, monkeypatch):
    monkeypatch.setattr(control_table, "_COMPACT_FILES_AT", 10)
    for epoch in range(1, 13):
        barrier = store.pin(barrier_of(epoch))
        store.record_commit(barrier, commit_of(barrier))
    barriers, commits = store.log()
    assert [barrier.epoch for barrier in barriers] == list(range(1, 13))
    assert [commit.epoch for commit in commits] == list(range(1, 13))
    assert (store.last_epoch(), store.barriers(since_epoch=12)) == (12, barriers[-1:])
    table = DeltaTable(f"{store.location}/barrier_log")
    assert table.version() > 2 * 12, "compactions are versions of their own"
    assert len(table.file_uris()) < 10


def test_key_columns_of_any_name_are_kept_in_the_state(lake):
    names = ["order id", "a.b", 'quo"te', "it's", "back`tick", "ünï", "UPPER", "vnode", "epoch", "select"]
    job = job_of(upstream={"path": "/lake/orders", "key": names}, query="SELECT * FROM upstream")
    settings = settings_of(job, types=dict.fromkeys(names, "string"))
    store = BackfillStore(str(lake / "state"))
    store.create(settings)
    position = ("x", None, "", "'", '"', "`", "ü", "1", "2", "3")
    state = BackfillState(epoch=1, vnodes=(InProgress(position, 1),) * 4)
    store.write_state(state, settings)
    assert store.state() == state
    table = pa.table(DeltaTable(f"{store.location}/vnode_state").to_pyarrow_table())
    assert {*names} - {"vnode", "epoch"} <= set(table.column_names)
