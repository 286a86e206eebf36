"""Creating and rebuilding a job: checked whole before anything is written, repaired after a crash, idempotent."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core import crash_points
from airflow_backfill_provider.core.barrier import Repair, decoded
from airflow_backfill_provider.core.columns import OwnColumns
from airflow_backfill_provider.core.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import (
    BackfillError,
    ChangeDataFeedDisabledError,
    DuplicateKeyError,
    InvalidJobError,
    JobNotCreatedError,
    MaterializedViewError,
    NotFinishedError,
    StateError,
    UpstreamError,
    UpstreamNotFoundError,
)
from airflow_backfill_provider.core.job import BackfillJob
from airflow_backfill_provider.core.progress import BackfillState, NotStarted
from airflow_backfill_provider.core.settings import SettingsChange
from airflow_backfill_provider.protocol import creation, mutations
from airflow_backfill_provider.state.store import BackfillStore
from airflow_backfill_provider.strategies.arrangement.files import ArrangementFiles
from airflow_backfill_provider.strategies.arrangement.place import location_of
from tests.builders import NOW, PAID, commit_file, write_table
from tests.dying import Died, dies_at
from tests.plain_engine import PlainSource
from tests.property.memory_engine import TESTER, Backfilling, Prepared

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


@pytest.fixture
def backfilling(lake):
    """A job over ten orders, not created yet, five rows an epoch."""
    made = Backfilling(lake, rate_limit=5)
    made.orders.add(*range(10))
    return made


def files_of(lake):
    return sorted(str(path.relative_to(lake)) for path in lake.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return Prepared(tmp_path_factory.mktemp("prepared"), range(10), rate_limit=5)


@pytest.fixture
def created(prepared):
    """The same job, created."""
    return prepared.restore()


# --- creating -------------------------------------------------------------------------------------


def test_creating_writes_settings_state_and_an_empty_view(backfilling):
    settings = backfilling.create()
    assert settings == backfilling.store.settings()
    assert (settings.sequence, settings.change, settings.strategy) == (1, SettingsChange.CREATE, "no_shuffle")
    assert (settings.requested_by, settings.rate_limit) == ("creator", 5)
    assert settings.requested_at > NOW
    assert backfilling.store.state() == BackfillState(epoch=0, vnodes=(NotStarted(),) * 4)
    assert backfilling.rows() == []
    assert [call for engine in backfilling.engines for call in engine.calls] == ["check", "ensure_tables"]


def test_the_settings_begin_where_the_definition_says(lake):
    backfilling = Backfilling(lake, strategy="arrangement", parallelism=3, rate_limit=7)
    backfilling.orders.add(1)
    settings = backfilling.create()
    assert (settings.parallelism, settings.rate_limit) == (3, 7)
    rebuilt = backfilling.rebuild(parallelism=2, rate_limit=8)
    assert (rebuilt.parallelism, rebuilt.rate_limit) == (2, 8)


@pytest.mark.parametrize(
    ("query", "distribution_key", "used"),
    [
        ("SELECT id FROM upstream", ["amount"], ["id", "amount"]),
        ("SELECT amount FROM upstream", [], ["id", "amount"]),
        ("SELECT status FROM upstream", ["amount"], ["id", "status", "amount"]),
    ],
)
def test_columns_of_the_keys_are_used_also_if_the_query_leaves_them_out(backfilling, query, distribution_key, used):
    settings = backfilling.create(query=query, **upstream(backfilling, distribution_key=distribution_key))
    assert [column.name for column in settings.upstream.columns] == used


def test_only_the_used_columns_are_remembered(backfilling):
    settings = backfilling.create(query="SELECT id FROM upstream WHERE amount > 0")
    assert [(column.name, column.type) for column in settings.upstream.columns] == [("id", "long"), ("amount", "long")]
    assert settings.upstream.table_id == backfilling.orders.table.at().table_id


def test_creating_again_changes_nothing_and_starts_no_engine(backfilling):
    """Starting Spark takes seconds."""
    first = backfilling.create()
    started, files = len(backfilling.engines), files_of(backfilling.lake)
    assert backfilling.create() == first
    assert len(backfilling.engines) == started
    assert files_of(backfilling.lake) == files
    assert creation.is_created(backfilling.job, backfilling.store)


def test_another_rate_limit_is_no_other_definition_and_does_not_throttle(created):
    """Design §5.11: the settings are authoritative; the definition only says where they begin."""
    assert created.create(rate_limit=99).rate_limit == 5


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"query": PAID}, "query"),
        ({"vnode_count": 8}, "vnode_count"),
        ({"upstream": {"path": "/elsewhere", "key": ["id"]}}, "upstream"),
        ({"strategy": "no_shuffle"}, "strategy"),
        ({"table_properties": {"a": "b"}}, "table_properties"),
        ({"visibility": "on_finish"}, "visibility"),
        ({"keep_arrangement": True}, "keep_arrangement"),
        ({"restrict_to": {"vnodes": [1]}}, "restrict_to"),
        ({"query": PAID, "vnode_count": 8}, "query, vnode_count"),
    ],
)
def test_a_changed_definition_is_refused_naming_what_changed(created, change, field):
    """I6."""
    files = files_of(created.lake)
    with pytest.raises(InvalidJobError, match=f"with another {field}; rebuild the job to change its definition"):
        created.create(**change)
    with pytest.raises(InvalidJobError, match=f"another {field}"):
        created.backfill.require_created()
    with pytest.raises(InvalidJobError, match=f"another {field}"):
        creation.is_created(created.job, created.store)
    assert files_of(created.lake) == files


def test_a_creator_that_finds_another_definition_in_force_is_refused(backfilling):
    """I6: somebody else was faster, with another job of that name."""

    class Sleeper(BackfillStore):
        def create(self, settings):
            Backfilling(backfilling.lake, rate_limit=5, vnode_count=8).create()
            return super().create(settings)

    with pytest.raises(InvalidJobError, match="with another vnode_count"):
        creation.create_job(
            backfilling.job,
            store=Sleeper(backfilling.job.state),
            upstream=backfilling.orders.table,
            engine=backfilling.engine,
            requested_by="x",
        )
    assert backfilling.store.settings().job["vnode_count"] == 8


@pytest.mark.parametrize(
    ("bounds", "allowed"),
    [
        ({"after": ["draft"], "up_to": ["draft", 5]}, False),  # all of draft's keys lie at or before the lower one
        ({"after": ["draft", 5], "up_to": ["draft"]}, True),
        ({"after": ["draft", 5], "up_to": ["draft", 6]}, True),
        ({"after": ["paid", 5], "up_to": ["draft"]}, False),
    ],
)
def test_bounds_that_are_shorter_than_the_key_have_all_keys_that_begin_with_them(backfilling, bounds, allowed):
    described = backfilling.orders.table.at()
    job = backfilling.job.model_dump(mode="json")
    job |= {**upstream(backfilling, key=["status", "id"]), "restrict_to": {"keys": bounds}}
    if allowed:
        assert creation.resolve_upstream(BackfillJob(**job), described).columns
        return
    with pytest.raises(InvalidJobError, match="no key lies after"):
        creation.resolve_upstream(BackfillJob(**job), described)


def upstream(backfilling, **fields):
    return {"upstream": {"path": backfilling.orders.path, "key": ["id"], **fields}}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"key": ["order_id"]}, "upstream.key: .* has no column 'order_id'; it has id, status, amount"),
        ({"key": ["ID"]}, "has no column 'ID'"),
        ({"key": ["id", "nope"]}, "has no column 'nope'"),
        ({"distribution_key": ["customer"]}, "upstream.distribution_key: .* has no column 'customer'"),
    ],
)
def test_a_key_column_that_the_upstream_does_not_have_is_refused(backfilling, fields, said):
    """I6."""
    files = files_of(backfilling.lake)
    with pytest.raises(InvalidJobError, match=said):
        backfilling.create(**upstream(backfilling, **fields))
    assert files_of(backfilling.lake) == files


@pytest.mark.parametrize("values", [pa.array([1.5]), pa.array([{"a": 1}]), pa.array([[1]])])
def test_a_key_of_a_type_without_a_common_order_is_refused(lake, values):
    backfilling = Backfilling(lake)
    write_table(backfilling.orders.path, {"id": values})
    with pytest.raises(InvalidJobError, match=r"upstream.key: column 'id' has type .* allowed are"):
        backfilling.create()
    assert not backfilling.store.created()


def test_vnodes_cannot_come_from_a_column_that_spark_cannot_hash(lake):
    backfilling = Backfilling(lake, distribution_key=("tags",))
    tags = pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))
    write_table(backfilling.orders.path, {"id": pa.array([1]), "tags": tags})
    with pytest.raises(InvalidJobError, match=r"upstream.distribution_key: column 'tags' holds maps"):
        backfilling.create()
    assert not backfilling.store.created()


@pytest.mark.parametrize("name", ["_change_type", "_Commit_Version", "_COMMIT_TIMESTAMP"])
def test_a_column_of_a_name_that_deltas_change_feed_uses_itself_is_refused(lake, name):
    """Also where nothing uses it: Delta reads no change of such a table."""
    backfilling = Backfilling(lake)
    write_table(backfilling.orders.path, {"id": pa.array([1]), name: pa.array([2])})
    with pytest.raises(UpstreamError, match=rf"has a column {name}, .* rename or remove the column"):
        backfilling.create(query="SELECT id FROM upstream")
    assert not backfilling.store.created()


@pytest.mark.parametrize("name", ["__vnode", "__Epoch", "__IS_UPSERT", "___appeared", "_commit"])
def test_a_column_of_a_name_that_the_package_uses_itself_is_one_like_any_other(lake, name):
    backfilling = Backfilling(lake)
    write_table(backfilling.orders.path, {"id": pa.array([1]), name: pa.array([2])})
    assert [column.name for column in backfilling.create().upstream.columns] == ["id", name]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"query": "SELECT id, user FROM upstream"}, "user, which does not give the same value every time"),
        (
            {"restrict_to": {"keys": {"after": ["x"]}}},
            r"restrict_to.keys.after: .* key column 'id' is no long",
        ),
        ({"restrict_to": {"keys": {"up_to": [1, 2]}}}, r"restrict_to.keys.up_to: .* has 2 columns"),
        ({"restrict_to": {"keys": {"after": [6], "up_to": [2]}}}, r"no key lies after .*6.* and at or before .*2"),
        ({"restrict_to": {"keys": {"after": [6], "up_to": [6]}}}, r"no key lies after .*6.* and at or before .*6"),
    ],
)
def test_what_cannot_be_done_right_is_refused_before_anything_is_written(backfilling, change, said):
    """I6."""
    files = files_of(backfilling.lake)
    with pytest.raises(InvalidJobError, match=said):
        backfilling.create(**change)
    assert files_of(backfilling.lake) == files
    assert backfilling.engines == []


def test_an_upstream_that_is_missing_or_records_no_changes_is_refused(lake):
    """I6."""
    backfilling = Backfilling(lake)
    with pytest.raises(UpstreamNotFoundError):
        backfilling.create()
    write_deltalake(backfilling.orders.path, pa.table({"id": [1]}))
    with pytest.raises(ChangeDataFeedDisabledError, match="ALTER TABLE"):
        backfilling.create()
    assert [path.name for path in lake.iterdir()] == ["orders"]


@pytest.mark.parametrize(
    "refusal", [DuplicateKeyError("twice"), MaterializedViewError("taken"), InvalidJobError("query")]
)
def test_what_the_engine_refuses_is_refused_before_anything_is_written(backfilling, monkeypatch, refusal):
    """I6."""
    files = files_of(backfilling.lake)
    start = Backfilling.engine

    def refusing(self):
        engine = start(self)
        engine.refusal = refusal
        return engine

    monkeypatch.setattr(Backfilling, "engine", refusing)
    with pytest.raises(type(refusal)):
        backfilling.create()
    assert files_of(backfilling.lake) == files
    assert not backfilling.store.created()


def test_a_view_of_another_job_is_refused(created):
    """I6: the view's path holds another table."""
    other = Backfilling(created.lake, name="other", state=str(created.lake / "other state"))
    with pytest.raises(MaterializedViewError):
        other.create()
    assert not other.store.created()


def test_a_creation_that_died_before_the_view_is_completed_by_creating_again(backfilling, monkeypatch):
    """I2."""
    with monkeypatch.context() as patched:
        patched.setattr("tests.property.memory_engine.MemoryEngine.ensure_tables", _die)
        with pytest.raises(Died):
            backfilling.create()
    assert not creation.is_created(backfilling.job, backfilling.store)
    first = backfilling.store.settings()
    assert backfilling.create() == first
    backfilling.finish()
    assert len(backfilling.rows()) == 10


def test_a_creation_that_died_before_the_view_is_completed_by_the_first_epoch(backfilling, monkeypatch):
    """I2."""
    with monkeypatch.context() as patched:
        patched.setattr("tests.property.memory_engine.MemoryEngine.ensure_tables", _die)
        with pytest.raises(Died):
            backfilling.create()
    assert len(backfilling.finish()) == 2
    assert len(backfilling.rows()) == 10


def test_a_creation_that_died_before_the_view_is_completed_by_the_first_epoch_that_has_work(backfilling, monkeypatch):
    """I2: an epoch without work, which needs no view, may come before it."""
    with monkeypatch.context() as patched:
        patched.setattr("tests.property.memory_engine.MemoryEngine.ensure_tables", _die)
        with pytest.raises(Died):
            backfilling.create()
    mutations.pause_job(store=backfilling.store, requested_by="x")
    assert backfilling.ask().newest is not None
    mutations.resume_job(store=backfilling.store, requested_by="x")
    backfilling.finish()
    assert len(backfilling.rows()) == 10


def _die(*_, **__):
    raise Died


def test_creators_at_once_create_one_job(backfilling):
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: backfilling.create(), range(4)))
    assert len({settings.incarnation for settings in found}) == 1
    assert len(backfilling.store.settings_history()) == 1
    backfilling.finish()
    assert len(backfilling.rows()) == 10


def test_a_view_that_is_gone_after_epochs_wrote_to_it_is_not_made_anew(created):
    """I6: an empty view would miss the rows that were read."""
    created.epoch()
    shutil.rmtree(created.job.materialized_view)
    with pytest.raises(MaterializedViewError, match="is gone from .* restore it, or rebuild the job"):
        created.create()
    assert not Path(created.job.materialized_view).exists()
    created.rebuild()
    created.finish()
    assert len(created.rows()) == 10


def test_a_state_that_is_gone_after_epochs_wrote_it_is_not_made_anew(created):
    """I6: create is the first task of every run, so it meets a lost state first."""
    created.epoch()
    shutil.rmtree(f"{created.job.state}/vnode_state")
    with pytest.raises(StateError):
        created.create()


def test_a_state_restored_from_an_older_copy_is_refused(created):
    """I6: to restore the state from a copy is what its own errors advise."""
    created.epoch()
    DeltaTable(f"{created.job.state}/vnode_state").restore(1)
    with pytest.raises(StateError):
        created.epoch()


def test_a_job_that_was_not_created_says_so(backfilling):
    with pytest.raises(JobNotCreatedError, match="create it first"):
        backfilling.ask()
    assert not creation.is_created(backfilling.job, backfilling.store)


# --- rebuilding -----------------------------------------------------------------------------------


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
    """What was asked of the old view; its sequence would ask for an epoch of the new one."""
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


@pytest.mark.parametrize("again", ["create", "rebuild"])
@pytest.mark.parametrize(
    "changed", [lambda lake: {"materialized_view": str(lake / "elsewhere")}, lambda _: {"vnode_count": 9}]
)
def test_a_job_whose_view_could_not_be_made_may_be_mended(lake, monkeypatch, changed, again):
    """What only Spark refuses is refused after the job is there; whoever mends the definition creates it once more."""
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


@pytest.mark.parametrize("lost", [False, True])
def test_a_view_that_was_made_is_not_moved(lake, lost):
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
        ({"restrict_to": {"keys": {"after": ["x"]}}}, "restrict_to.keys.after"),
        ({"query": "SELECT id, user FROM upstream"}, "user"),
        ({"name": "renamed"}, "paid_orders"),
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
    """I6: its view would be gone before anybody looked at the new definition."""
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


def test_what_was_asked_for_before_a_rebuild_is_over_with_it(created):
    """I1: a repair, too, for the rebuilt view has nothing that was damaged."""
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
        ("repair_state", "rebuild"),
        ("repair_state", "epoch"),
        ("_ensure_tables", "create"),
        ("_ensure_tables", "rebuild"),
        ("_ensure_tables", "epoch"),
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
    """I2 and I5: whatever it pins or not, the rebuilt job reads every row once and comes to its end."""
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


# --- arrangements ---------------------------------------------------------------------------------


@pytest.fixture
def arranging(lake):
    """A job over ten orders with a position per vnode, not created yet, five rows an epoch."""
    made = Backfilling(lake, rate_limit=5, strategy="arrangement", distribution_key=("amount", "id"))
    made.orders.add(*range(10))
    return made


def arrangement(backfilling):
    return ArrangementFiles(location_of(backfilling.store.settings()))


def test_creating_makes_the_arrangement_of_the_version_that_was_looked_at(arranging):
    arranging.orders.add(10)
    settings = arranging.create()
    assert (settings.strategy, settings.first_offset.number) == ("arrangement", 1)
    assert arrangement(arranging).exists()
    assert creation.is_created(arranging.job, arranging.store)
    barrier = arranging.inject()
    assert (barrier.upstream.from_offset.number, barrier.upstream.to_offset.number) == (1, 1)
    arranging.finish()
    assert len(arranging.rows()) == 11


def test_what_happens_between_the_arrangement_and_the_first_epoch_is_not_lost(arranging):
    """I1: the first window begins where the arrangement was made."""
    arranging.create()
    arranging.orders.change([3, 4], amount=7)
    arranging.orders.remove(5)
    arranging.orders.rekey({6: 60})
    arranging.finish_watched()
    assert sorted(row[0] for row in arranging.rows()) == [0, 1, 2, 3, 4, 7, 8, 9, 60]


def test_an_empty_upstream_is_arranged_and_completes_at_once(lake):
    """Design §5.7."""
    backfilling = Backfilling(lake, strategy="arrangement")
    backfilling.orders.add()
    backfilling.create()
    assert [commit.completed for commit in backfilling.finish()] == [True]
    backfilling.orders.add(5, None)
    backfilling.finish()
    assert [row[0] for row in backfilling.rows()] == [None, 5]


@pytest.mark.parametrize("point", [CrashPoint.BEFORE_ARRANGEMENT_COMMIT, CrashPoint.AFTER_ARRANGEMENT_COMMIT])
@pytest.mark.parametrize("repair", ["create", "rebuild", "epoch"])
def test_a_creation_that_died_around_the_arrangement_is_completed(arranging, point, repair):
    """I2: by creating again, by rebuilding, or by the next epoch, whatever was written meanwhile."""

    with dies_at(point):
        arranging.create()
    assert arrangement(arranging).exists() is (point is CrashPoint.AFTER_ARRANGEMENT_COMMIT)
    arranging.orders.change([3], amount=7)
    arranging.orders.add(30)
    if repair != "epoch":
        getattr(arranging, repair)()
        assert arrangement(arranging).exists()
    arranging.finish_watched()
    assert len(arranging.rows()) == 11


def test_a_rebuild_that_slept_through_another_one_leaves_its_arrangement_alone(arranging):
    """I5: its chunks are read from it already."""
    arranging.create()
    arranging.epoch()

    def overtaken(reached):
        if reached is CrashPoint.AFTER_ARRANGEMENT_COMMIT:
            crash_points.install(None)
            arranging.rebuild()
            arranging.epoch()

    crash_points.install(overtaken)
    arranging.rebuild()
    assert arrangement(arranging).exists()
    arranging.finish_watched()


def test_a_creation_that_died_before_the_arrangement_is_completed_by_an_epoch_that_has_nothing_else_to_do(arranging):
    """I4: as long as it is not made there is nothing to read, and no version comes that would ask for an epoch."""

    with dies_at(CrashPoint.BEFORE_ARRANGEMENT_COMMIT):
        arranging.create()
    first = arranging.inject()
    assert (first.parts, first.has_window) == ((), False)
    arranging.run(first)
    assert arrangement(arranging).exists()
    arranging.finish_watched()
    assert len(arranging.rows()) == 10


def test_a_rebuild_leaves_one_arrangement(arranging):
    arranging.create()
    arranging.epoch()
    before = arrangement(arranging)
    arranging.orders.add(30)
    arranging.rebuild()
    assert not before.exists()
    assert arrangement(arranging).exists()
    arranging.finish_watched()
    assert len(arranging.rows()) == 11


def test_a_rebuild_that_died_and_was_completed_leaves_one_arrangement(arranging):
    arranging.create()
    before = arrangement(arranging)

    with dies_at(CrashPoint.BEFORE_ARRANGEMENT_COMMIT):
        arranging.rebuild()
    assert before.exists()
    arranging.create()
    assert not before.exists()
    assert arrangement(arranging).exists()


@pytest.mark.parametrize("strategies", [("arrangement", "no_shuffle"), ("no_shuffle", "arrangement")])
def test_a_rebuild_may_change_the_strategy(arranging, strategies):
    first, second = strategies
    arranging.create(strategy=first)
    arranging.epoch()
    arranging.rebuild(strategy=second)
    assert arrangement(arranging).exists() is (second == "arrangement")
    arranging.finish_watched()
    assert len(arranging.rows()) == 10


@pytest.mark.parametrize("keep", [False, True])
def test_finishing_drops_the_arrangement_unless_it_is_to_be_kept(arranging, keep):
    arranging.create(keep_arrangement=keep)
    arranging.finish()
    assert arrangement(arranging).exists()
    for _ in range(2):
        protocol.finish_job(store=arranging.store, requested_by="x")
        assert arrangement(arranging).exists() is keep
    arranging.orders.change([3], amount=7)
    arranging.orders.add(30)
    arranging.finish()
    assert len(arranging.rows()) == 11


def test_an_arrangement_that_is_lost_is_not_made_up_again(arranging):
    """I6: of which version its rows are is not known any more."""
    arranging.create()
    arranging.epoch()
    arrangement(arranging).drop()
    with pytest.raises(StateError, match="arrangement of job paid_orders is gone .* restore it, or rebuild the job"):
        arranging.ask()


@pytest.mark.parametrize("repair", ["create", "rebuild"])
def test_an_arrangement_that_is_lost_once_an_epoch_is_pinned_is_made_anew_by_a_rebuild_alone(arranging, repair):
    """I6: the epoch may have read of it, and what it reads next would not be what it has read."""
    arranging.create()
    arranging.inject()
    arrangement(arranging).drop()
    assert creation.is_created(arranging.job, arranging.store)
    getattr(arranging, repair)()
    assert arrangement(arranging).exists() is (repair == "rebuild")


def test_an_arrangement_that_a_rebuild_did_not_come_to_make_is_made_by_creating_again(arranging):
    """I2: the epochs that were pinned before are no reason not to."""
    arranging.create()
    arranging.epoch()

    with dies_at(CrashPoint.BEFORE_ARRANGEMENT_COMMIT):
        arranging.rebuild()
    assert not creation.is_created(arranging.job, arranging.store), "the view is made, the arrangement is not"
    arranging.create()
    assert arrangement(arranging).exists()


def test_finishing_that_died_before_the_arrangement_was_dropped_drops_it_the_next_time(arranging, monkeypatch):
    arranging.create()
    arranging.finish()
    with monkeypatch.context() as patched:
        patched.setattr(ArrangementFiles, "drop", _die)
        with pytest.raises(Died):
            protocol.finish_job(store=arranging.store, requested_by="x")
    assert arrangement(arranging).exists()
    protocol.finish_job(store=arranging.store, requested_by="y")
    assert not arrangement(arranging).exists()


def test_a_chunk_of_an_arrangement_leaves_room_for_what_the_window_inserts(arranging):
    """I4: the rate limit is a cap, and the arrangement's files don't count these rows yet."""
    arranging.create()
    arranging.orders.add(*range(10, 20))
    assert 2 <= arranging.epoch().snapshot_read_row_count <= 5
    arranging.finish_watched()


def test_a_chunk_reads_at_least_one_row_however_much_is_inserted(lake):
    """I4."""
    backfilling = Backfilling(lake, rate_limit=1, strategy="arrangement")
    backfilling.orders.add(0)
    backfilling.create()
    backfilling.orders.add(*range(1, 6))
    assert backfilling.epoch().snapshot_read_row_count >= 1
    backfilling.finish_watched()


def test_a_chunk_is_as_large_as_the_rate_limit_where_nobody_knows_how_many_rows_there_were(arranging):
    arranging.create()
    arranging.orders.change([3], amount=7)
    DeltaTable(arranging.orders.path).create_checkpoint()
    commit_file(arranging.orders.path, 0).unlink()
    (part,) = arranging.inject().parts
    rows = arrangement(arranging).statistics(arranging.store.settings().scan.order, 0, OwnColumns())
    files, keys = rows
    order = arranging.store.settings().scan.order
    planned = sum(keys.count(file, covered) for file in files for covered in decoded(part.ranges, order))
    assert planned == 5


def test_runs_keep_their_vnodes_until_one_is_idle_while_another_has_some_to_spare(lake):
    """A run that goes on where it was finds the files that it needs in its caches."""
    backfilling = Backfilling(lake, rate_limit=16, strategy="arrangement", parallelism=2, vnode_count=8)
    backfilling.orders.add(*range(40))
    backfilling.create()
    backfilling.epoch()
    # Drawn anew, the boundary would move to where these are.
    backfilling.orders.add(*(i for i in range(40, 300) if vnode_of(backfilling, i) == 6))
    mutations.pause_job(store=backfilling.store, requested_by="x")
    backfilling.epoch()
    mutations.resume_job(store=backfilling.store, requested_by="x")
    backfilling.finish()
    ranges = [barrier.vnode_ranges for barrier in backfilling.store.barriers()]
    assert ranges == [*[((0, 3), (4, 7))] * 4, *[((0, 6), (7, 7))] * 2]


def vnode_of(backfilling, i):
    return PlainSource(backfilling.store.settings(), lambda _: []).vnode_of({"id": i})


# --- parts of an upstream -------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["no_shuffle", "arrangement"])
@pytest.mark.parametrize(
    ("restriction", "ids"),
    [
        ({"keys": {"after": [2], "up_to": [6]}}, {3, 4, 5, 6}),
        ({"keys": {"after": [7]}}, {8, 9, 20}),
        ({"keys": {"up_to": [0]}}, {None, 0}),
        ({"vnodes": ["0-1"]}, None),
        ({"vnodes": [3], "keys": {"after": [1]}}, None),
    ],
)
def test_a_job_about_a_part_of_the_upstream_shows_that_part(lake, strategy, restriction, ids):
    """I1, while rows come into the part and leave it."""
    backfilling = Backfilling(lake, rate_limit=1, strategy=strategy, restrict_to=restriction)
    backfilling.orders.add(None, *range(1, 10))
    backfilling.create()
    backfilling.epoch()
    backfilling.orders.add(0, 20)
    backfilling.orders.change([2, 3, 8], amount=9)
    backfilling.finish_watched()
    backfilling.orders.rekey({9: 90, 6: 60})
    backfilling.orders.rekey({90: 9, 60: 6})
    backfilling.finish()
    if ids is not None:
        assert {row[0] for row in backfilling.rows()} == ids


@pytest.mark.parametrize(
    ("strategy", "restriction", "rows"),
    [
        ("no_shuffle", {"vnodes": ["0-1"]}, 6),
        ("arrangement", {"vnodes": ["0-1"]}, 6),
        ("arrangement", {"keys": {"after": [2], "up_to": [6]}}, 4),
        ("no_shuffle", {}, 12),
    ],
)
def test_a_job_about_a_part_expects_that_part_of_the_rows(lake, strategy, restriction, rows):
    """Otherwise its progress would never come near the end; a share of the vnodes is a share of the rows."""
    backfilling = Backfilling(lake, rate_limit=1, strategy=strategy, restrict_to=restriction)
    backfilling.orders.add(*range(12))
    backfilling.create()
    assert backfilling.inject().upstream.row_count == rows


def test_a_part_that_begins_within_a_composite_key_is_read_in_one_epoch(lake):
    """Its bound is shorter than the key; the state has a column for each key column."""
    upstream = {"path": f"{lake}/orders", "key": ["status", "id"]}
    backfilling = Backfilling(
        lake,
        upstream=upstream,
        strategy="no_shuffle",
        rate_limit=None,
        restrict_to={"keys": {"after": ["draft"], "up_to": ["paid"]}},
    )
    backfilling.orders.add(1, 2, status="draft")
    backfilling.orders.add(3, 4, status="paid")
    backfilling.orders.add(5, status="void")
    backfilling.create()
    backfilling.finish_watched()
    assert [row[0] for row in backfilling.rows()] == [3, 4]
