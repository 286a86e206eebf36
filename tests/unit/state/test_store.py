"""The control tables together: created once, pinned once, committed once, and never taken back."""

from __future__ import annotations

import datetime as dt
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.core.errors import JobNotCreatedError, StateError, StateLayoutError
from airflow_backfill_provider.core.progress import BackfillState, Completed, InProgress, NotStarted
from airflow_backfill_provider.core.requester import Requester
from airflow_backfill_provider.core.settings import SettingsChange
from airflow_backfill_provider.core.task_run_epochs import TaskRunEpochs
from airflow_backfill_provider.state import control_table, records, stamps
from airflow_backfill_provider.state.backfill_reader import BackfillReader, LogEnd
from airflow_backfill_provider.state.control_table import ControlTable, Write
from airflow_backfill_provider.state.store import BackfillStore
from tests.builders import NOW, Template, barrier_of, commit_file, commit_of, job_of, part_of, report_of, settings_of

TASK = Requester(dag_id="o'brien's dag", run_id="manual__2026-01-01T00:00:00+00:00", task_id="inject")
OTHER = TASK.model_copy(update={"map_index": 1})


@pytest.fixture(scope="module")
def created(tmp_path_factory):
    return Template(
        tmp_path_factory.mktemp("created"), lambda place: BackfillStore(str(place / "state")).create(settings_of())
    )


@pytest.fixture
def store(created):
    """The control tables of a created job."""
    return BackfillStore(str(created.restore() / "state"))


def nothing_read(vnodes):
    return BackfillState(epoch=0, vnodes=(NotStarted(),) * vnodes)


def at_position(value, *, epoch, rows=0, vnodes=4):
    return BackfillState(epoch=epoch, vnodes=(InProgress((value,), rows),) * vnodes)


def versions(store):
    """The version of each control table."""
    return {
        name: DeltaTable(f"{store.location}/{name}").version() for name in ("settings", "barrier_log", "vnode_state")
    }


def together(count, work):
    """Do something in so many threads at the same moment."""
    start = threading.Barrier(count)

    def begin(number):
        start.wait()
        return work(number)

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(begin, range(count)))


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


def test_a_state_that_somebody_else_made_meanwhile_is_left_as_it_is(store):
    """I3: who was faster may have run an epoch already."""
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


def test_a_job_whose_creation_died_before_its_first_settings_is_not_created(lake):
    store = BackfillStore(str(lake / "state"))
    ControlTable(f"{store.location}/settings", records.SETTINGS_SCHEMA).create()
    assert not store.created()


def test_whoever_looks_at_a_job_watches_what_is_wanted_done_and_verified(store):
    assert store.watched_tables == tuple(
        f"{store.location}/{name}" for name in ("settings", "barrier_log", "verifications")
    )


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
    """I2: crash between any two commits is repaired by running again."""
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


def changed(settings, change=SettingsChange.PAUSE, **fields):
    return settings.changed(change, requested_by="vera", requested_at=NOW, **fields)


def test_a_change_is_in_force_and_the_history_tells_all(store):
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


def test_a_pinned_barrier_is_what_everybody_finds(store):
    barrier = barrier_of(1, injected_by=TASK)
    assert store.pin(barrier) == barrier
    assert store.barriers() == [barrier]
    assert store.last_epoch() == 1
    assert store.epochs_of(TASK) == TaskRunEpochs(barriers=(barrier,))


def test_pinning_an_epoch_again_returns_the_barrier_that_the_log_holds(store):
    """I2: the plan is pinned once, whoever asks."""
    first = store.pin(barrier_of(1))
    before = versions(store)
    second = barrier_of(1, parts=(), injected_by=TASK)
    assert store.pin(second) == first
    assert versions(store) == before


def test_of_injectors_at_once_the_first_in_log_order_wins_and_the_others_adopt_its_barrier(store):
    """Design §3.1."""
    candidates = [barrier_of(1, parts=(part_of(None, (str(n),)),)) for n in range(8)]
    found = together(8, lambda n: BackfillStore(store.location).pin(candidates[n]))
    assert found == [found[0]] * 8
    assert store.barriers() == [found[0]]
    assert found[0] in candidates


def test_epochs_are_pinned_one_after_the_other(store):
    """I3: consecutive."""
    store.pin(barrier_of(1))
    store.pin(barrier_of(2))
    with pytest.raises(StateError, match=r"epoch 4 cannot follow epoch 2 .* rebuild the job"):
        store.pin(barrier_of(4, prev_epoch=1))
    assert store.last_epoch() == 2


def test_an_epoch_whose_predecessor_was_never_pinned_is_refused(store):
    """I3: as the method's own documentation says; somebody cut the log."""
    with pytest.raises(StateError):
        store.pin(barrier_of(5))


def test_barriers_are_found_by_the_very_task_run_that_pinned_them(store):
    """Names with quotes are compared whole; a mapped index and another run are other task runs."""
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


def test_what_a_requester_carried_are_its_barriers_and_their_commits(store):
    barriers = [store.pin(barrier_of(epoch, injected_by=OTHER if epoch == 2 else TASK)) for epoch in (1, 2, 3)]
    commits = [store.record_commit(barrier, commit_of(barrier)) for barrier in barriers[:2]]
    assert store.epochs_of(TASK) == TaskRunEpochs(barriers=(barriers[0], barriers[2]), commits=(commits[0],))
    assert store.epochs_of(OTHER) == TaskRunEpochs(barriers=(barriers[1],), commits=(commits[1],))


def test_what_a_requester_carried_before_a_rebuild_counts_until_it_pins_again(store):
    before = store.pin(barrier_of(1, injected_by=TASK))
    assert store.epochs_of(TASK).barriers == (before,)
    after = store.pin(barrier_of(2, injected_by=TASK, incarnation="b2"))
    assert store.epochs_of(TASK).barriers == (after,)


def test_what_a_requester_committed_before_a_rebuild_is_left_out_once_it_has_pinned_again(store):
    before = store.pin(barrier_of(1, injected_by=TASK))
    store.record_commit(before, commit_of(before))
    after = store.pin(barrier_of(2, injected_by=TASK, incarnation="b2"))
    assert store.epochs_of(TASK) == TaskRunEpochs(barriers=(after,))


def test_where_the_log_ends_is_told_with_what_is_known_of_the_last_epoch(store):
    assert store.log_end() == LogEnd(last_epoch=0)
    store.pin(barrier_of(1))
    second = store.pin(barrier_of(2, incarnation="b2"))
    assert store.log_end() == LogEnd(last_epoch=2, barrier=second)
    done = store.record_commit(second, commit_of(second))
    assert store.log_end() == LogEnd(last_epoch=2, barrier=second, commit=done)


# --- committing -----------------------------------------------------------------------------------


def test_a_committed_state_is_read_back(store):
    state = at_position(7, epoch=1, rows=5)
    store.write_state(state, settings_of())
    assert store.state() == state


@pytest.mark.parametrize("epoch", [0, 3, 4])
def test_a_state_of_the_same_or_an_earlier_epoch_is_a_no_op(store, epoch):
    """I5: a zombie writes nothing, and a replay the same."""
    store.write_state(at_position(7, epoch=4, rows=5), settings_of())
    before = versions(store)
    store.write_state(at_position(99, epoch=epoch, rows=99), settings_of())
    assert versions(store) == before
    assert store.state() == at_position(7, epoch=4, rows=5)


def test_what_was_read_is_not_believed_once_somebody_wrote(store):
    """A version's rows are parsed once; the state of another version, or of another incarnation, is another one."""
    read = store.state()
    assert store.state() is read
    BackfillStore(store.location).write_state(at_position(7, epoch=4, rows=5), settings_of())
    assert store.state() == at_position(7, epoch=4, rows=5)
    with pytest.raises(StateLayoutError, match="another incarnation"):
        store.state_of(settings_of(incarnation="another"))
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
    """I2: a duplicate says the same."""
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


# --- reports --------------------------------------------------------------------------------------


def test_runs_that_share_an_epoch_report_one_by_one(store):
    barrier = store.pin(barrier_of(1))
    assert store.reports(barrier) == []
    reports = [report_of(barrier, part) for part in (1, None, 0)]
    for count, report in enumerate(reports, 1):
        store.record_report(barrier, report)
        assert sorted(store.reports(barrier), key=str) == sorted(reports[:count], key=str)
    assert (store.barriers(), store.commits(), store.commit_of(1)) == ([barrier], [], None)


@pytest.mark.parametrize("part", [None, 0])
def test_the_first_report_of_a_run_wins(store, part):
    """I2: a zombie of an earlier attempt reports the same rows; its timings do not count."""
    barrier = store.pin(barrier_of(1))
    first = report_of(barrier, part)
    store.record_report(barrier, first)
    before = versions(store)
    store.record_report(barrier, report_of(barrier, part, seconds={"snapshot": 99.0}))
    assert store.reports(barrier) == [first]
    assert versions(store) == before


def test_runs_that_report_at_once_are_all_heard_once(store):
    barrier = store.pin(barrier_of(1))
    together(8, lambda n: BackfillStore(store.location).record_report(barrier, report_of(barrier, n % 4)))
    assert sorted(report.part for report in store.reports(barrier)) == [0, 1, 2, 3]


def test_each_epoch_has_its_own_reports(store):
    first, second = (store.pin(barrier_of(epoch)) for epoch in (1, 2))
    store.record_report(first, report_of(first, 0))
    store.record_report(second, report_of(second, 1))
    assert [report.part for report in store.reports(first)] == [0]
    assert [report.part for report in store.reports(second)] == [1]


def test_a_report_is_a_row_that_people_can_query(store):
    barrier = store.pin(barrier_of(1))
    store.record_report(barrier, report_of(barrier, None, rows={0: 7}))
    store.record_report(barrier, report_of(barrier, 1, rows={2: 5, 3: 6}))
    rows = pa.table(DeltaTable(f"{store.location}/barrier_log").to_pyarrow_table()).to_pylist()
    reported = {row["snapshot_read_row_count"]: row for row in rows if row["event"] == "reported"}
    assert set(reported) == {None, 11}
    assert (reported[None]["upstream_output_row_count"], reported[11]["upstream_output_row_count"]) == (7, None)
    assert (reported[11]["epoch"], reported[11]["seconds"]) == (1, 1.5)


def test_a_report_that_somebody_edited_is_refused(store):
    """I6."""
    barrier = store.pin(barrier_of(1))
    store.record_report(barrier, report_of(barrier, 0))
    DeltaTable(f"{store.location}/barrier_log").update(updates={"record": "'{}'"}, predicate="event = 'reported'")
    with pytest.raises(StateError, match=r"row __version 2 \(epoch 1\) has a wrong checksum"):
        store.reports(barrier)


# --- earlier incarnations -------------------------------------------------------------------------


def test_earlier_incarnations_come_with_the_most_runs_that_they_ever_had(store):
    """I5: a rebuild fences the writes of every run that may still be about."""

    def change(kind, **fields):
        store.change_settings(lambda s: s.changed(kind, requested_by="x", requested_at=NOW, **fields))

    assert store.earlier_incarnations(store.settings()) == {}
    for parallelism in (3, 2):
        change(SettingsChange.RESCALE, parallelism=parallelism, value=parallelism)
    change(SettingsChange.REBUILD, incarnation="b2", parallelism=1)
    change(SettingsChange.RESCALE, parallelism=5, value=5)
    assert store.earlier_incarnations(store.settings()) == {"a1": 3}
    change(SettingsChange.REBUILD, incarnation="c3", parallelism=1)
    assert store.earlier_incarnations(store.settings()) == {"a1": 3, "b2": 5}
    change(SettingsChange.REBUILD, incarnation="d4", parallelism=2)
    assert store.earlier_incarnations(store.settings()) == {"a1": 3, "b2": 5, "c3": 1}
    assert store.incarnations() == {"a1", "b2", "c3", "d4"}


def test_settings_are_held_to_the_newest_barrier(store):
    """I6: whatever was asked for since the copy that they were restored from would be undone."""
    settings = settings_of(sequence=3)
    for carried in (1, 3):
        store.require_settings_of(barrier_of(1, settings_sequence=carried), settings)
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
    """I2: nobody runs the barrier of an injector that slept through a rebuild."""
    late, next_one = store.pin(barrier_of(1)), store.pin(barrier_of(2))
    done = store.record_commit(next_one, commit_of(next_one))
    assert (store.commit_of(1), store.commit_of(2)) == (None, done)
    first = commit_of(late)
    assert store.record_commit(late, first) == first == store.commit_of(1)


@pytest.mark.slow
@pytest.mark.parametrize("late", [0, 1, 2, 8, 9, 20])
def test_the_newest_barrier_of_an_incarnation_is_found_behind_late_ones_of_an_earlier_one(store, late):
    """An injector that slept through a rebuild pins what nobody will run."""
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
    """I3 and I6: also where each of them is as it was written."""
    for epoch in epochs:
        store._barrier_log.update(lambda _: Write(records.barrier_row(barrier_of(epoch))))  # noqa: B023 - at once
    with pytest.raises(StateError, match=rf"control table .*/barrier_log: {said}, so something else wrote to it"):
        store.barriers()


def test_an_epoch_whose_barrier_is_gone_is_missed_also_at_the_end(store):
    """Its commit says that there was one."""
    store.pin(barrier_of(1))
    store._barrier_log.update(lambda _: Write(records.commit_row(barrier_of(2), commit_of(barrier_of(2)))))
    for look in (store.barriers, store.log, store.log_end):
        with pytest.raises(StateError, match="record 2 is missing"):
            look()


@pytest.mark.parametrize("column", ["vnode", "epoch", "row_count", "backfill_finished", "has_position", "incarnation"])
def test_a_hole_in_the_state_is_not_what_was_written(store, column):
    """I6: a null where none can be."""
    DeltaTable(f"{store.location}/vnode_state").update({column: "NULL"}, predicate="vnode = 2")
    for look in (store.state, store.repair_state, lambda: store.write_state(at_position(7, epoch=1), settings_of())):
        with pytest.raises(StateError, match=r"vnode_state: row __version 1 .* a wrong checksum.* rebuild the job"):
            look()


# --- rebuilding -----------------------------------------------------------------------------------


def rebuilt(settings, **fields):
    return changed(
        settings,
        SettingsChange.REBUILD,
        **{"incarnation": "b2", "state_table": "vnode_state_b2", "base_epoch": 4, **fields},
    )


def test_a_rebuilt_job_starts_over_from_its_base_epoch(store):
    store.write_state(at_position(7, epoch=4, rows=5), settings_of())
    store.change_settings(rebuilt)
    with pytest.raises(StateLayoutError, match="is missing"):
        store.state()
    store.repair_state()
    assert store.state() == BackfillState(epoch=4, vnodes=(NotStarted(),) * 4)


def test_repairing_leaves_alone_what_an_epoch_of_the_incarnation_wrote(store):
    store.write_state(at_position(7, epoch=4, rows=5), settings_of())
    before = versions(store)
    store.repair_state()
    assert versions(store) == before


def test_a_state_is_that_of_the_settings_at_hand(store):
    """I5: whoever began before a rebuild decides on what was true then."""
    store.write_state(at_position(7, epoch=1, rows=5), settings_of())
    before = store.settings()
    rebuilt = {"incarnation": "b2", "state_table": "vnode_state_b2", "base_epoch": 1}
    store.change_settings(lambda s: s.changed(SettingsChange.REBUILD, requested_by="x", requested_at=NOW, **rebuilt))
    assert store.repair_state() == BackfillState(epoch=1, vnodes=(NotStarted(),) * 4)
    assert store.repair_state(before) == store.state_of(before) == at_position(7, epoch=1, rows=5)


def test_a_rebuilt_job_may_have_another_number_of_vnodes(store):
    store.change_settings(lambda s: rebuilt(s, job=job_of(vnode_count=9).model_dump(mode="json")))
    store.repair_state()
    assert len(store.state().vnodes) == 9


@pytest.mark.parametrize(
    ("types", "position"),
    [
        ({"status": "string"}, ("paid",)),
        ({"id": "string"}, ("abc",)),
        ({"id": "long", "status": "string"}, (7, "paid")),
    ],
)
def test_a_rebuilt_job_may_have_another_key(store, types, position):
    """A rebuild takes another definition, and is what a changed schema's error asks for."""
    job = job_of(upstream={"path": "/lake/orders", "key": list(types)}, query="SELECT * FROM upstream")
    resolved = settings_of(job, types=types).upstream
    settings = store.change_settings(lambda s: rebuilt(s, job=job.model_dump(mode="json"), upstream=resolved))
    store.repair_state()
    assert store.state() == BackfillState(epoch=4, vnodes=(NotStarted(),) * 4)
    state = BackfillState(epoch=5, vnodes=(InProgress(position, 1),) * 4)
    store.write_state(state, settings)
    assert store.state() == state


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


# --- damage ---------------------------------------------------------------------------------------


def used(store):
    """Give a store something to lose."""
    barrier = store.pin(barrier_of(1, read_before=()))
    store.write_state(at_position(9, epoch=1, rows=5), settings_of())
    store.record_commit(barrier, commit_of(barrier))
    return barrier


LOOKS = {
    "settings": [BackfillReader.created, BackfillReader.settings, BackfillReader.state],
    "barrier_log": [
        BackfillReader.barriers,
        BackfillReader.commits,
        BackfillReader.log_end,
        lambda store: store.pin(barrier_of(2)),
    ],
    "vnode_state": [
        BackfillReader.state,
        BackfillStore.repair_state,
        lambda store: store.write_state(at_position(10, epoch=2, rows=9), settings_of()),
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["log", "data"])
@pytest.mark.parametrize("name", LOOKS)
def test_a_damaged_control_table_is_refused_whatever_is_asked(store, name, damage):
    """I6: unreadable state; nothing is written over it."""
    used(store)
    location = Path(store.location) / name
    if damage == "log":
        newest = commit_file(location, DeltaTable(str(location)).version())
        newest.write_bytes(newest.read_bytes()[:50])
    else:
        for file in location.glob("*.parquet"):
            file.write_bytes(b"PAR1")
    for look in LOOKS[name]:
        with pytest.raises(StateLayoutError) as caught:
            look(store)
        assert str(location) in str(caught.value)


@pytest.mark.parametrize("name", ["settings", "barrier_log"])
def test_a_record_that_somebody_edited_is_refused(store, name):
    """I6."""
    used(store)
    table = DeltaTable(f"{store.location}/{name}")
    table.update(updates={"record": "'{\"epoch\": 1}'"})
    with pytest.raises(StateError, match=r"row __version \d+ .* has a wrong checksum"):
        store.settings() if name == "settings" else store.barriers()


@pytest.mark.parametrize("name", ["settings", "barrier_log"])
def test_a_record_that_another_version_wrote_is_refused_with_its_place(store, name):
    used(store)
    row = records.settings_row(store.settings()) if name == "settings" else records.barrier_row(barrier_of(2))
    record = row.schema.get_field_index("record")
    written = row.set_column(record, row.schema.field(record), [['{"of": "another version"}']])
    ControlTable(f"{store.location}/{name}", row.schema).update(lambda _: Write(written))
    with pytest.raises(StateLayoutError, match=f"a record of control table {store.location}/{name} is damaged"):
        store.settings() if name == "settings" else store.barriers()


@pytest.mark.parametrize("column", ["id", "row_count", "backfill_finished"])
def test_progress_that_somebody_edited_is_refused(store, column):
    """I6: a position further on would leave rows out."""
    used(store)
    value = "true" if column == "backfill_finished" else "77"
    DeltaTable(f"{store.location}/vnode_state").update(updates={column: value}, predicate="vnode = 2")
    with pytest.raises(StateError, match=r"vnode_state: row __version \d+ \(vnode 2\) has a wrong checksum"):
        store.state()


@pytest.mark.parametrize("gone", ["epoch = 1", "epoch = 1 AND event = 'injected'", "epoch = 2", "true"])
def test_a_log_with_a_gap_is_refused(store, gone):
    """I6: also where rows of the newest epochs are whole."""
    used(store)
    store.pin(barrier_of(2))
    store.record_commit(barrier_of(2), commit_of(barrier_of(2)))
    DeltaTable(f"{store.location}/barrier_log").delete(gone)
    with pytest.raises(StateError, match="missing"):
        store.log()
    if "1" not in gone:
        with pytest.raises(StateError, match="missing"):
            store.log_end()


@pytest.mark.parametrize("gone", ["sequence = 1", "sequence = 2", "sequence = 3"])
def test_settings_with_a_gap_are_refused(store, gone):
    """I6: a pause that is lost would read on."""
    for value in (5, 6):
        store.change_settings(
            lambda settings: settings.changed(
                SettingsChange.THROTTLE,
                requested_by="tester",
                requested_at=NOW,
                rate_limit=value,  # noqa: B023
            )
        )
    DeltaTable(f"{store.location}/settings").delete(gone)
    with pytest.raises(StateError, match="missing"):
        store.settings()


def test_a_record_that_is_there_twice_is_refused(store):
    used(store)
    rows = pa.table(DeltaTable(f"{store.location}/settings").to_pyarrow_table())
    write_deltalake(f"{store.location}/settings", rows, mode="append")
    with pytest.raises(StateError, match=r"row __version 1 \(sequence 1\) is repeated"):
        store.settings()


def test_rows_that_somebody_appended_to_the_state_are_refused(store):
    used(store)
    rows = records.state_rows(at_position(1, epoch=1, vnodes=1), "a1", settings_of().key_order)
    write_deltalake(f"{store.location}/vnode_state", stamps.stamped(rows, 2), mode="append")
    with pytest.raises(StateLayoutError, match=f"{store.location}/vnode_state has 5 rows"):
        store.state()


def test_a_state_that_completed_and_was_taken_back_is_refused_to_go_on(store):
    """I3: a completed vnode is never scanned again."""
    store.write_state(BackfillState(epoch=1, vnodes=(Completed(None, 9),) * 4), settings_of())
    with pytest.raises(StateError, match="vnode 0 would go back"):
        store.write_state(at_position(7, epoch=2, rows=20), settings_of())


@pytest.mark.parametrize("loss", ["table", "rows"])
def test_a_lost_state_is_not_made_up_again(store, loss):
    """I6: with epochs in the log an empty state means that every row would be read and appended a second time."""
    used(store)
    location = Path(store.location) / "vnode_state"
    if loss == "table":
        for file in sorted(location.rglob("*"), reverse=True):
            file.unlink() if file.is_file() else file.rmdir()
    else:
        DeltaTable(str(location)).delete()
    with pytest.raises(StateError):
        store.repair_state()


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
