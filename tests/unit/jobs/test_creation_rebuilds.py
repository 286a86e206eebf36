"""Rebuilding a job: checked whole before anything is written, repaired after a crash."""

from __future__ import annotations

import shutil
from contextlib import contextmanager, suppress

import pytest

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.repair import Repair
from airflow_backfill_provider.core.epoch.settings import SettingsChange
from airflow_backfill_provider.core.errors import (
    BackfillError,
    InvalidJobError,
    JobNotCreatedError,
    NotFinishedError,
    StateError,
)
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.scan.progress import BackfillState, NotStarted
from airflow_backfill_provider.jobs import creation, mutations
from airflow_backfill_provider.state.store import BackfillStore
from tests.builders import PAID
from tests.dying import Died
from tests.property.backfilling import TESTER, Backfilling
from tests.unit.jobs import creation_helpers
from tests.unit.jobs.creation_helpers import _die, upstream
from tests.variants import exhaustive

backfilling = creation_helpers.backfilling
prepared = creation_helpers.prepared
created = creation_helpers.created

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


def test_a_rebuilt_job_starts_over_while_its_epochs_count_on(backfilling):
    """I3: epochs, positions and counts go back by an explicit rebuild only."""
    first = backfilling.create()
    backfilling.finish()
    settings = backfilling.rebuild(query=PAID, rate_limit=4)
    assert settings.incarnation != first.incarnation
    assert (settings.change, settings.base_epoch, settings.rate_limit) == (SettingsChange.REBUILD, 2, 4)
    assert backfilling.store.state() == BackfillState(epoch=2, vnodes=(NotStarted(),) * 4)
    assert backfilling.rows() == []
    commits = backfilling.finish()
    assert [commit.epoch for commit in commits] == [3, 4, 5]
    assert [commit.rows_read for commit in commits] == [4, 8, 10]
    assert backfilling.rows() == [(i, 100) for i in range(10)]


def test_a_rebuild_forgets_pause_cancellation_and_finish(created):
    created.finish()
    store = created.store
    protocol.finish_job(store=store, requested_by="x")
    mutations.pause_job(store=store, requested_by="x")
    mutations.cancel_job(store=store, requested_by="x")
    settings = created.rebuild()
    assert (settings.paused, settings.cancelled, settings.finished_epoch) == (False, False, None)
    created.finish()
    assert protocol.finish_job(store=store, requested_by="x").finished_epoch == 4


def test_a_rebuild_forgets_a_repair(created):
    """It was requested for the old view; its sequence would request an epoch of the new one."""
    created.finish()
    mutations.repair_job(store=created.store, requested_by="x", keys=["3"])
    assert created.store.settings().repair_sequence == 2
    settings = created.rebuild()
    assert (settings.repair, settings.repair_sequence) == (Repair(), 0)


def test_a_rebuild_reads_from_an_upstream_that_replaced_the_old_one(created):
    created.epoch()
    shutil.rmtree(created.orders.path)
    created.orders.rows.clear()
    created.orders.add(100, 101)
    with pytest.raises(BackfillError, match="rebuild the job"):
        created.ask()
    created.rebuild()
    created.finish()
    assert [row[0] for row in created.rows()] == [100, 101]


def elsewhere(lake):
    return {"materialized_view": str(lake / "elsewhere")}


def more_vnodes(_):
    return {"vnode_count": 9}


@pytest.mark.parametrize(
    ("changed", "again"),
    [
        (elsewhere, "create"),
        exhaustive(elsewhere, "rebuild"),
        exhaustive(more_vnodes, "create"),
        (more_vnodes, "rebuild"),
    ],
)
def test_a_job_whose_view_could_not_be_created_may_be_corrected(lake, monkeypatch, changed, again):
    """Spark refuses some definitions only after the job is created. A corrected definition creates it once more."""
    backfilling, change = Backfilling(lake, state=str(lake / "state")), changed(lake)
    backfilling.orders.add(*range(4))
    with monkeypatch.context() as patched:
        patched.setattr("tests.property.memory_engine.MemoryEngine.ensure_tables", _die)
        with pytest.raises(Died):
            backfilling.create()
    mended = BackfillJob(**{**backfilling.job.model_dump(mode="json"), **change})
    assert not creation.is_created(mended, backfilling.store)
    getattr(backfilling, again)(**change)
    assert creation.is_created(mended, backfilling.store)
    backfilling.finish()
    assert len(backfilling.rows()) == 4
    assert backfilling.store.settings().definition == mended


@pytest.mark.parametrize("lost", [exhaustive(False), True])
def test_a_view_that_was_created_is_not_moved(lake, lost):
    backfilling = Backfilling(lake, state=str(lake / "state"))
    backfilling.orders.add(*range(4))
    backfilling.create()
    if lost:
        backfilling.epoch()
        shutil.rmtree(backfilling.job.materialized_view)
    with pytest.raises(InvalidJobError, match="materialized_view: a rebuild keeps the view at"):
        backfilling.rebuild(materialized_view=str(lake / "elsewhere"))


def test_a_rebuild_can_change_the_number_of_vnodes(created):
    created.epoch()
    created.rebuild(vnode_count=9)
    created.finish()
    assert len(created.store.state().vnodes) == 9


def test_a_rebuild_can_change_the_key(created):
    created.epoch()
    created.rebuild(**upstream(created, key=["status", "id"]))
    created.finish()
    assert len(created.rows()) == 10


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"materialized_view": "/elsewhere/view"}, "materialized_view: a rebuild keeps the view at"),
        exhaustive({"restrict_to": {"keys": {"after": ["x"]}}}, "restrict_to.keys.after"),
        ({"query": "SELECT id, user FROM upstream"}, "user"),
        exhaustive({"name": "renamed"}, "paid_orders"),
    ],
)
def test_a_rebuild_that_cannot_be_done_is_refused_and_leaves_the_job_as_it_was(lake, change, said):
    """I6."""
    backfilling = Backfilling(lake, state=str(lake / "state"), rate_limit=5)
    backfilling.orders.add(*range(10))
    before = backfilling.create()
    backfilling.epoch()
    job = backfilling.job
    with pytest.raises(BackfillError, match=said):
        backfilling.rebuild(**change)
    backfilling.job = job
    assert backfilling.store.settings() == before
    backfilling.finish()
    assert len(backfilling.rows()) == 10


def test_a_rebuild_that_the_engine_refuses_leaves_the_job_as_it_was(created):
    """I6: its view would be gone before the new definition is checked."""
    created.finish()
    before = created.store.settings()
    engine = created.engine()
    engine.refusal = InvalidJobError("query")
    with pytest.raises(InvalidJobError, match="query"):
        creation.rebuild_job(
            created.job,
            store=created.store,
            upstream=created.orders.table,
            engine=lambda: engine,
            requested_by="x",
        )
    assert engine.calls == ["check"]
    assert (created.store.settings(), len(created.rows())) == (before, 10)


def test_a_rebuild_ends_what_was_requested_before(created):
    """I1: a repair, too, because the rebuilt view has nothing that was damaged."""
    created.epoch()
    mutations.pause_job(store=created.store, requested_by="x")
    mutations.repair_job(keys=[[0]], store=created.store, requested_by="x")
    created.rebuild()
    barrier = created.inject()
    assert (bool(barrier.repair), barrier.mutations, barrier.warnings) == (False, (), ())


def test_a_rebuilt_job_is_not_finished_by_what_completed_before(created):
    """I1: the newest commit is of an earlier incarnation, whose vnodes were all Completed."""
    created.finish()
    created.rebuild()
    with pytest.raises(NotFinishedError, match="not every vnode is Completed as of epoch 2"):
        protocol.finish_job(store=created.store, requested_by="x")
    assert created.store.settings().finished_epoch is None


def taking_turns(backfilling, meanwhile):
    """An engine for which something happens while it waits for its turn."""
    engine = backfilling.engine()

    @contextmanager
    def exclusive(_):
        engine.calls.append("waits")
        meanwhile()
        yield
        engine.calls.append("is done")

    engine.exclusive = exclusive
    return engine


def test_a_job_that_is_rebuilt_while_its_creator_waits_for_its_turn_is_left_to_the_rebuild(created):
    """I5: the view that would be made is that of an incarnation which is over."""
    shutil.rmtree(created.job.materialized_view)
    arguments = {"store": created.store, "upstream": created.orders.table, "requested_by": "x"}
    engine = taking_turns(created, created.rebuild)
    with pytest.raises(StateError, match="was rebuilt meanwhile by rebuilder"):
        creation.create_job(created.job, engine=lambda: engine, **arguments)
    assert engine.calls == ["waits"]
    assert created.view.identity.incarnation == created.store.settings().incarnation


def test_tables_are_made_in_turn_with_other_drivers(created):
    """I5: two that commit to a local table at the same instant may both succeed."""
    engine = taking_turns(created, bool)
    creation.rebuild_job(
        created.job, store=created.store, upstream=created.orders.table, engine=lambda: engine, requested_by="x"
    )
    assert engine.calls == ["check", "waits", "ensure_tables", "is done"]


def test_an_epoch_whose_job_is_rebuilt_while_it_waits_for_its_turn_does_nothing(created):
    """I5."""
    barrier = created.inject()
    engine = taking_turns(created, created.rebuild)
    with pytest.raises(StateError, match="belongs to an earlier incarnation"):
        created.run(barrier, engine)
    assert engine.calls == ["waits"]


def test_a_job_that_was_not_created_cannot_be_rebuilt(backfilling):
    with pytest.raises(JobNotCreatedError):
        backfilling.rebuild()


def test_a_barrier_from_before_a_rebuild_is_refused_and_the_next_one_is_a_new_one(created):
    """I5."""
    created.epoch()
    pinned = created.inject()
    created.rebuild()
    with pytest.raises(StateError, match="epoch 2 belongs to an earlier incarnation .* inject a new barrier"):
        created.run(pinned)
    assert created.rows() == []
    barrier = created.inject()
    assert (barrier.epoch, barrier.prev_epoch) == (3, 2)
    assert (barrier.upstream.from_offset.number, barrier.read_before) == (-1, ())
    created.run(barrier)
    created.assert_truth()
    created.finish()
    assert len(created.rows()) == 10


@pytest.mark.parametrize(
    ("dies_in", "repair"),
    [
        ("repair_state", "create"),
        exhaustive("repair_state", "rebuild"),
        exhaustive("repair_state", "epoch"),
        exhaustive("ensure_tables", "create"),
        exhaustive("ensure_tables", "rebuild"),
        ("ensure_tables", "epoch"),
    ],
)
def test_a_rebuild_that_died_is_completed_by_creating_by_an_epoch_or_by_rebuilding_again(
    created, monkeypatch, dies_in, repair
):
    """I2, as :func:`rebuild_job` promises."""
    created.epoch()
    with monkeypatch.context() as patched:
        patched.setattr(BackfillStore if dies_in == "repair_state" else creation, dies_in, _die)
        with pytest.raises(Died):
            created.rebuild()
    if repair != "epoch":
        getattr(created, repair)()
        assert created.rows() == []
    created.finish()
    assert len(created.rows()) == 10


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("asleep_before", "meanwhile"),
    [
        ("log_end", "rebuilt"),
        ("settings_history", "rebuilt"),
        ("settings_history", "rebuilt and injected"),
        ("log_end", "rebuilt and injected"),
        ("repair_state", "rebuilt and injected"),
        ("repair_state", "rebuilt and ran an epoch"),
        ("pin", "rebuilt"),
        ("pin", "rebuilt and ran an epoch"),
    ],
)
def test_an_injector_from_before_a_rebuild_that_wakes_up_after_it_does_no_harm(created, asleep_before, meanwhile):
    """I2 and I5: whether it pins a barrier or not, the rebuilt job reads every row once and completes."""
    created.epoch()
    awake = []

    class Sleeper(BackfillStore):
        def __getattribute__(self, name):
            if name == asleep_before and not awake:
                awake.append(name)
                created.rebuild()
                if meanwhile == "rebuilt and injected":
                    created.inject()
                elif meanwhile == "rebuilt and ran an epoch":
                    created.epoch()
            return super().__getattribute__(name)

    with suppress(BackfillError):
        protocol.inject_barrier(
            store=Sleeper(created.job.state),
            upstream=created.orders.table,
            requester=TESTER,
            clock=created.clock,
        )
    assert awake
    created.finish()
    assert [row[0] for row in created.rows()] == list(range(10))
