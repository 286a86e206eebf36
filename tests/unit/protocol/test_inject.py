"""Injecting a barrier: what is pinned, for whom, and when there is nothing to do."""

from __future__ import annotations

import datetime as dt
import shutil
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core import crash_points
from airflow_backfill_provider.core.barrier import Mutation, PinnedRange
from airflow_backfill_provider.core.errors import (
    ChangeDataFeedDisabledError,
    ChangeFeedGapError,
    ConcurrentUpdateError,
    JobCancelledError,
    JobNotCreatedError,
    StateError,
    UpstreamError,
    UpstreamNotFoundError,
    UpstreamReplacedError,
    UpstreamSchemaChangedError,
)
from airflow_backfill_provider.core.progress import BackfillState, Completed, InProgress
from airflow_backfill_provider.core.requester import Requester
from airflow_backfill_provider.protocol import mutations
from airflow_backfill_provider.protocol.decision import PARTIAL_REPAIR
from airflow_backfill_provider.sources.delta.versions import offset_of
from airflow_backfill_provider.state import records
from airflow_backfill_provider.state.control_table import ControlTable
from airflow_backfill_provider.state.store import BackfillStore
from airflow_backfill_provider.state.table_reading import Write
from tests.builders import NOW, Orders, commit_file, committed_at, part_of, put_back
from tests.property.memory_engine import Backfilling, Prepared

pytestmark = pytest.mark.slow  # whole epochs through Delta tables

TASK = Requester(dag_id="orders", run_id="manual__1", task_id="inject")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return Prepared(tmp_path_factory.mktemp("prepared"), range(7), rate_limit=3)


@pytest.fixture
def backfilling(prepared):
    """A created job over the orders 0 to 6, three rows an epoch."""
    return prepared.restore()


def over(lake, *ids, **job):
    made = Backfilling(lake, **job)
    made.orders.add(*ids)
    made.create()
    return made


# --- changes that wait until the view is finished -------------------------------------------------


@pytest.fixture
def waiting(lake):
    """A job over the orders 0 to 8, three rows an epoch, whose changes wait; two epochs are done, and all changed."""
    backfilling = over(lake, *range(9), rate_limit=3, visibility="on_finish")
    for amount in (50, 60):
        backfilling.epoch()
        backfilling.orders.change(range(9), amount=amount)
    return backfilling


def test_changes_wait_until_the_last_vnode_completes(waiting):
    """I1 at the epoch that publishes."""
    first, second = waiting.store.barriers()
    assert (first.publishes, second.publishes) == (True, False)
    last = waiting.inject()
    assert (last.publishes, last.completes) == (True, True)
    assert {read.offset.number for read in last.view_before} == {0}
    assert (last.upstream.from_offset.number, last.changes_after.number) == (1, 0)
    commit = waiting.run(last)
    assert (commit.upstream_output_row_count, commit.snapshot_read_row_count) == (6, 3)
    waiting.assert_truth()
    waiting.orders.change([0], amount=70)
    assert waiting.inject().publishes


def test_chunks_are_read_at_one_version_while_changes_wait(waiting):
    """Where files are as large as they were, and what is behind it waits for all of them alike."""
    first, second = waiting.store.barriers()
    assert (first.chunk_offset.number, second.chunk_offset.number, second.upstream.to_offset.number) == (0, 0, 1)
    assert len(second.view_after) == 1
    last = waiting.inject()
    assert (last.older_offset, last.chunk_offset.number) == (None, 2)


def test_what_was_added_behind_the_last_chunk_is_read_at_the_newest_version(lake):
    """I4: at the older version nothing is left to read, at the newest there is."""
    backfilling = over(lake, *range(6), rate_limit=3, visibility="on_finish")
    backfilling.epoch()
    backfilling.orders.add(*range(6, 12))
    backfilling.orders.change([0, 4, 7], amount=50)
    second = backfilling.inject()
    assert (second.publishes, second.completes, second.chunk_offset.number) == (False, False, 2)
    backfilling.run(second)
    assert {read.offset.number for read in second.view_after} == {0, 2}
    backfilling.orders.change([8, 11], amount=60)
    third = backfilling.inject()
    assert (third.publishes, third.chunk_offset.number) == (False, 2)
    backfilling.run(third)
    backfilling.finish()


def test_an_arrangement_has_its_rows_as_of_the_newest_version(lake):
    backfilling = over(lake, *range(9), rate_limit=2, visibility="on_finish", strategy="arrangement")
    backfilling.epoch()
    backfilling.epoch()
    backfilling.orders.change(range(9), amount=50)
    barrier = backfilling.inject()
    assert (barrier.publishes, barrier.older_offset, bool(barrier.parts)) == (False, None, True)


@pytest.fixture
def arranged(lake):
    """A job over the orders 0 to 8 with a position per vnode, two rows an epoch, whose changes wait."""
    return over(lake, *range(9), rate_limit=2, visibility="on_finish", strategy="arrangement")


def test_an_epoch_that_reads_no_chunk_pins_no_version_for_it(waiting):
    """I2: it would be part of the digest."""
    mutations.pause_job(store=waiting.store, requested_by="x")
    barrier, _ = waiting.ask().newest
    assert (barrier.epoch, barrier.has_window, barrier.parts, barrier.older_offset) == (3, True, (), None)


def test_nothing_waits_before_anything_was_read(arranged):
    assert arranged.inject().publishes


def test_changes_that_wait_are_no_work_for_an_arrangement_either(arranged):
    """It has those of the window already, and the view gets none before it is finished."""
    arranged.epoch()
    arranged.orders.change(range(9), amount=50)
    assert not arranged.inject().publishes
    arranged.epoch()
    mutations.pause_job(store=arranged.store, requested_by="x")
    assert arranged.ask().reason == "paused, and the upstream has no changes after version 1"
    assert arranged.ask().barrier is None
    mutations.resume_job(store=arranged.store, requested_by="x")
    arranged.finish()


def test_changes_wait_until_rows_are_as_of_too_many_versions(arranged, monkeypatch):
    """Each makes the condition of the merge longer."""
    monkeypatch.setattr("airflow_backfill_provider.core.visibility.MOST_VERSIONS", 2)
    published = []
    for amount in range(4):
        barrier = arranged.inject()
        published.append((len(barrier.view_before), barrier.publishes))
        arranged.run(barrier)
        arranged.assert_truth()
        arranged.orders.change(range(9), amount=amount + 50)
    assert published == [(0, True), (1, False), (2, True), (1, False)]


def test_a_paused_job_that_read_nothing_keeps_its_arrangement_current(lake):
    """I1: a window that is passed without an engine would be missing from the arrangement for ever."""
    backfilling = over(lake, *range(6), rate_limit=2, strategy="arrangement")
    mutations.pause_job(store=backfilling.store, requested_by="x")
    backfilling.orders.change([1, 4], amount=50)
    barrier = backfilling.inject()
    assert (barrier.parts, barrier.read_before, barrier.has_window) == ((), (), True)
    backfilling.run(barrier)
    mutations.resume_job(store=backfilling.store, requested_by="x")
    backfilling.finish()


def test_changes_wait_no_longer_than_half_of_what_the_upstream_keeps(waiting):
    table = DeltaTable(waiting.orders.path)
    table.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 8 hours"})
    committed_at(waiting.orders.path, 0, NOW - dt.timedelta(hours=4))
    mutations.throttle_job(1, store=waiting.store, requested_by="x")
    barrier = waiting.inject()
    assert (barrier.publishes, barrier.completes) == (True, False)
    waiting.run(barrier)
    waiting.assert_truth()
    assert not waiting.inject().publishes


def test_changes_that_must_not_wait_any_longer_are_applied_without_a_new_version(waiting):
    """Paused for days, on an upstream that stands still: the changes would be gone."""
    mutations.pause_job(store=waiting.store, requested_by="x")
    assert waiting.ask().reason == "paused, and changes of what was read wait until the view is finished"
    assert waiting.ask().barrier is None
    committed_at(waiting.orders.path, 0, NOW - dt.timedelta(days=4))
    barrier = waiting.inject()
    assert (barrier.publishes, barrier.has_window, barrier.parts) == (True, False, ())
    waiting.run(barrier)
    waiting.assert_truth()
    assert waiting.ask().barrier is None


def test_a_repair_publishes(waiting):
    mutations.throttle_job(1, store=waiting.store, requested_by="x")
    mutations.repair_job(keys=[[0]], vnodes=[], store=waiting.store, requested_by="x")
    barrier = waiting.inject()
    assert (barrier.publishes, barrier.completes) == (True, False)
    waiting.run(barrier)
    waiting.assert_truth()


def test_changes_that_are_gone_before_they_were_applied_are_refused(waiting):
    """I6."""
    clean_up(waiting, 1)
    with pytest.raises(ChangeFeedGapError, match="from version 1 on"):
        waiting.inject()


def test_changes_of_which_nobody_knows_the_age_are_applied_at_once(waiting):
    mutations.throttle_job(1, store=waiting.store, requested_by="x")
    clean_up(waiting, 0)
    barrier = waiting.inject()
    assert (barrier.publishes, barrier.completes) == (True, False)


# --- what is pinned -------------------------------------------------------------------------------


def test_the_first_barrier_pins_everything_that_the_epoch_depends_on(backfilling):
    """I2."""
    barrier = backfilling.inject(TASK)
    settings = backfilling.store.settings()
    assert (barrier.job, barrier.incarnation) == ("paid_orders", settings.incarnation)
    assert (barrier.epoch, barrier.prev_epoch) == (1, 0)
    window = barrier.upstream
    assert (window.from_offset.number, window.to_offset.number, window.row_count) == (-1, 0, 7)
    assert (window.table_id, window.watermark) == (
        settings.upstream.table_id,
        backfilling.orders.table.watermark(offset_of(0)),
    )
    assert barrier.definition == settings.definition_digest
    assert barrier.parts == (part_of(None, ("2",)),)
    assert (barrier.read_before, barrier.completes) == ((), False)
    assert (barrier.vnode_ranges, barrier.parallelism) == ((), 1)
    assert (barrier.rate_limit, barrier.paused, barrier.mutations, barrier.settings_sequence) == (3, False, (), 1)
    assert barrier.injected_by == TASK
    assert barrier.injected_at > NOW
    assert backfilling.store.barriers() == [barrier]


def test_the_next_barrier_continues_where_the_one_before_ended(backfilling):
    """Windows are half-open, ``(from, to]``; changes are filtered by the old position (design §5.3)."""
    backfilling.epoch()
    backfilling.orders.add(100)
    backfilling.orders.add(101)
    barrier = backfilling.inject()
    assert (barrier.epoch, barrier.prev_epoch) == (2, 1)
    assert (barrier.upstream.from_offset.number, barrier.upstream.to_offset.number) == (0, 2)
    assert barrier.parts == (part_of(("2",), ("5",)),)
    assert barrier.read_before == (PinnedRange(after=None, up_to=("2",)),)
    assert not barrier.completes


def test_rows_of_one_version_are_as_of_where_the_window_begins_and_pinned_nowhere_else(backfilling):
    backfilling.epoch()
    backfilling.orders.add(100)
    assert backfilling.inject().read_as_of == ()


def test_the_parts_of_several_runs_complete_the_job_together(lake):
    """I4: also where no part of them does."""
    barrier = over(lake, *range(9), strategy="arrangement", parallelism=3, rate_limit=None).inject()
    assert (len(barrier.parts), barrier.completes) == (3, True)


def test_an_upstream_that_was_put_back_from_an_older_copy_is_refused(backfilling):
    """Its id is the same, and what it writes next has numbers that were read already."""
    copy = backfilling.lake / "copy"
    shutil.copytree(backfilling.orders.path, copy)
    backfilling.orders.add(20)
    backfilling.epoch()
    put_back(copy, backfilling.orders.path)
    with pytest.raises(UpstreamReplacedError, match="ends with version 0, but the job has come to version 1"):
        backfilling.ask()
    backfilling.orders.add(21)
    backfilling.orders.add(22)
    with pytest.raises(UpstreamReplacedError, match="version 1 of .* was written at"):
        backfilling.ask()


def test_the_last_chunk_has_no_upper_bound_and_later_barriers_have_no_chunk(backfilling):
    """Design §5.3 and §5.4."""
    for _ in range(2):
        backfilling.epoch()
    last = backfilling.inject()
    assert (last.parts, last.completes) == ((part_of(("5",), None),), True)
    backfilling.run(last)
    backfilling.orders.add(100)
    after = backfilling.inject()
    assert (after.parts, after.completes) == ((), True)
    assert after.read_before == (PinnedRange(after=None, up_to=None),)


@pytest.mark.parametrize(("rate_limit", "rows"), [(None, [3]), (3, [3]), (2**63 - 1, [3]), (2, [2, 1]), (1, [1, 1, 1])])
def test_every_rate_limit_is_kept_and_comes_to_an_end(lake, rate_limit, rows):
    """I4: about rows ÷ rate limit epochs, however small the rate limit."""
    backfilling = over(lake, *range(3), rate_limit=rate_limit)
    assert [commit.snapshot_read_row_count for commit in backfilling.finish_watched()] == rows


def test_a_rate_limit_of_zero_reads_nothing_until_it_is_raised(lake):
    """I4: paused by rate limit."""
    backfilling = over(lake, 1, 2, rate_limit=0)
    assert backfilling.ask().barrier is None
    assert backfilling.ask().reason == "the rate limit is 0, and nothing was read yet that could change"
    mutations.throttle_job(1, store=backfilling.store, requested_by="x")
    assert len(backfilling.finish()) == 2


def test_an_empty_upstream_completes_at_once_and_then_takes_every_change(lake):
    """Design §5.7."""
    backfilling = over(lake)
    barrier = backfilling.inject()
    assert (barrier.parts, barrier.completes) == ((part_of(None, None),), True)
    commit = backfilling.run(barrier)
    assert (commit.completed, commit.snapshot_read_row_count) == (True, 0)
    assert set(backfilling.store.state().vnodes) == {Completed(None, 0)}
    backfilling.orders.add(5, None)
    backfilling.finish()
    assert [row[0] for row in backfilling.rows()] == [None, 5]


@pytest.mark.parametrize("key", [7, None])
@pytest.mark.parametrize("rate_limit", [None, 1])
def test_a_one_row_upstream_completes_at_once(lake, key, rate_limit):
    """Design §5.8; a null key is a key."""
    backfilling = over(lake, key, rate_limit=rate_limit)
    assert [commit.completed for commit in backfilling.finish()] == [True]
    assert [row[0] for row in backfilling.rows()] == [key]


def test_the_position_of_a_null_key_is_a_position(lake):
    """Design §5.7: it lets the null key's changes through, and only those."""
    backfilling = over(lake, None, 1, 2, rate_limit=1)
    backfilling.epoch()
    assert set(backfilling.store.state().vnodes) == {InProgress((None,), 1)}
    backfilling.orders.change([None, 2], amount=50)
    barrier = backfilling.inject()
    assert barrier.read_before == (PinnedRange(after=None, up_to=(None,)),)
    commit = backfilling.run(barrier)
    assert (commit.snapshot_read_row_count, commit.upstream_output_row_count) == (1, 1)
    backfilling.assert_truth()


def test_a_barrier_carries_the_planners_warnings(lake):
    backfilling = Backfilling(lake, rate_limit=50, strategy="no_shuffle")
    for start in range(20):
        backfilling.orders.add(*range(start, 400, 20))
    backfilling.create()
    barrier = backfilling.inject()
    assert len(barrier.warnings) == 1
    assert "not laid out in the key's order" in barrier.warnings[0]


# --- the same barrier again -----------------------------------------------------------------------


def test_a_retry_of_a_task_run_finds_its_own_barrier(backfilling):
    """I2: also long after, when later epochs were committed."""
    mine = backfilling.inject(TASK)
    assert backfilling.ask(TASK) == protocol.Injection(mine)
    commit = backfilling.run(mine)
    assert backfilling.ask(TASK) == protocol.Injection(mine, commit)
    backfilling.epoch()
    assert backfilling.ask(TASK) == protocol.Injection(mine, commit)
    assert len(backfilling.store.barriers()) == 2


def test_a_task_run_that_carries_several_epochs_gets_the_one_that_is_due_and_no_commit_of_another(backfilling):
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
def test_whoever_comes_while_a_barrier_is_pinned_adopts_it(backfilling, other):
    """Design §3.1: a pinned barrier that was not committed is returned again."""
    mine = backfilling.inject(TASK)
    backfilling.orders.add(50)
    assert backfilling.ask(other) == protocol.Injection(mine)
    commit = backfilling.run(mine)
    assert backfilling.inject(other).epoch == 2
    assert commit.epoch == 1


def test_somebody_at_a_terminal_gets_a_new_barrier_every_time(backfilling):
    assert [backfilling.epoch().epoch for _ in range(2)] == [1, 2]


def test_injectors_at_once_all_get_one_barrier(backfilling):
    """Design §3.1: the first in log order wins and the others adopt it."""
    with ThreadPoolExecutor(6) as threads:
        requesters = [Requester(dag_id="d", run_id=f"r{n}", task_id="t") for n in range(6)]
        found = list(threads.map(backfilling.inject, requesters))
    assert found == [found[0]] * 6
    assert backfilling.store.barriers() == [found[0]]


def write_a_version_without_rows(backfilling):
    DeltaTable(backfilling.orders.path).alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"})


def test_an_injector_without_work_that_adopts_somebody_elses_barrier_leaves_its_commit_to_whoever_runs_it(backfilling):
    """I1: a commit in its place would say that changes are in the view which nobody has written there."""
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


def test_an_epoch_without_work_behind_somebody_elses_does_not_vouch_for_the_view(rebuilt):
    """I6: nobody looked at what was written to the view in between."""
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
@pytest.mark.parametrize("asleep_before", ["settings_history", "log_end", "repair_state", "pin"])
def test_an_injector_that_sleeps_anywhere_while_another_works_pins_nothing_twice(backfilling, asleep_before, meanwhile):
    """I2 and I3: each barrier goes on where the one before ended, whoever was faster."""
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


# --- nothing to do --------------------------------------------------------------------------------


def test_a_finished_job_without_changes_has_nothing_to_do(backfilling):
    backfilling.finish()
    injection = backfilling.ask()
    assert injection == protocol.Injection(None, reason="the upstream has no changes after version 0")
    barriers, commits = backfilling.store.log()
    assert len(barriers) == 3
    assert injection.newest == (barriers[-1], commits[-1])


def test_versions_that_change_no_row_are_passed_without_an_engine(backfilling):
    """The window moves on, so that the view does not seem to lag and their log may be cleaned up."""
    backfilling.orders.add(20)
    backfilling.finish()
    rows = backfilling.rows()
    backfilling.orders.compact()
    DeltaTable(backfilling.orders.path).alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"})
    injection = backfilling.ask()
    assert (injection.barrier, injection.commit) == (None, None)
    assert injection.reason == "the upstream has no changes after version 1"
    barriers, commits = backfilling.store.log(since_epoch=4)
    assert [(b.upstream.from_offset.number, b.upstream.to_offset.number, b.parts) for b in barriers] == [(1, 3, ())]
    assert [(c.snapshot_read_row_count, c.upstream_output_row_count, c.completed) for c in commits] == [(0, 0, True)]
    assert injection.newest == (barriers[0], commits[0])
    before = backfilling.store.commit_of(3)
    assert (commits[0].tables, commits[0].rows_read) == (before.tables, before.rows_read)
    assert (commits[0].state_epoch, commits[0].seconds) == (before.state_epoch, {})
    assert (commits[0].incarnation, commits[0].digest) == (barriers[0].incarnation, barriers[0].digest)
    assert commits[0].watermark == backfilling.orders.table.watermark(offset_of(3))
    assert commits[0].committed_at > barriers[0].injected_at
    assert backfilling.rows() == rows
    assert backfilling.ask().barrier is None
    assert len(backfilling.store.barriers()) == 4, "and nothing more without a new version"
    backfilling.orders.add(50)
    window = backfilling.inject().upstream
    assert (window.from_offset.number, window.to_offset.number) == (3, 4)
    backfilling.finish()


def test_a_window_whose_last_version_changed_no_row_has_changes_of_the_others(backfilling):
    """I1."""
    backfilling.finish()
    backfilling.orders.change([0], amount=50)
    write_a_version_without_rows(backfilling)
    assert backfilling.inject().upstream.to_offset.number == 2
    backfilling.finish()


def test_a_finished_job_still_knows_how_many_rows_there_were(backfilling):
    """For the bounds of an epoch's memory; the upstream's files are not looked at any more."""
    backfilling.finish()
    backfilling.orders.change([0], amount=50)
    assert backfilling.inject().upstream.row_count == 7


def test_an_epoch_without_work_that_died_before_its_commit_is_completed(backfilling):
    """I2."""
    backfilling.orders.add(20)
    backfilling.finish()
    backfilling.orders.compact()

    def die(_):
        crash_points.install(None)
        raise RuntimeError("died")

    crash_points.install(die)
    with pytest.raises(RuntimeError):
        backfilling.ask()
    assert [commit.upstream_output_row_count for commit in backfilling.finish()] == [0]


def test_a_paused_job_that_read_nothing_has_nothing_to_do(backfilling):
    """Design §5.3: NotStarted drops every change."""
    mutations.pause_job(store=backfilling.store, requested_by="x")
    backfilling.orders.add(50)
    injection = backfilling.ask()
    assert injection.reason == "paused, and nothing was read yet that could change"
    assert injection.newest == (backfilling.store.pinned(1), backfilling.store.commit_of(1))
    assert injection.newest[1].view_version is None, "no epoch has written the view"
    again = backfilling.ask()
    assert (again, again.newest) == (injection, injection.newest)


def test_a_paused_job_reads_no_snapshot_and_still_applies_changes(backfilling):
    """I4."""
    backfilling.epoch()
    mutations.pause_job(store=backfilling.store, requested_by="x")
    assert backfilling.ask().reason == "paused, and the upstream has no changes after version 0"
    backfilling.orders.change([0, 6], amount=50)
    barrier = backfilling.inject()
    assert (barrier.parts, barrier.paused) == ((), True)
    before = backfilling.store.state()
    commit = backfilling.run(barrier)
    assert (commit.snapshot_read_row_count, commit.upstream_output_row_count) == (0, 1)
    assert backfilling.store.state() == before
    backfilling.assert_truth()
    mutations.resume_job(store=backfilling.store, requested_by="x")
    backfilling.finish()


# --- instants -------------------------------------------------------------------------------------


def minute(number):
    return NOW + dt.timedelta(minutes=number)


@pytest.fixture
def dated(lake):
    """A created job over five versions with one order each, committed at the minutes 0 to 4; one row an epoch."""
    made = Backfilling(lake, rate_limit=1)
    for i in range(5):
        made.orders.add(i)
        committed_at(made.orders.path, i, minute(i))
    made.create()
    return made


def test_runs_of_a_schedule_see_the_upstream_as_of_their_instants_in_order(dated):
    """Issue part 3: catch-up and backfill runs pass their ``data_interval_end``."""
    seen = []
    for number in (1, 2.5, 4):
        barrier = dated.inject(Requester(dag_id="d", run_id=f"r{number}", task_id="t"), until=minute(number))
        dated.run(barrier)
        dated.assert_truth()
        seen.append(
            (barrier.upstream.from_offset.number, barrier.upstream.to_offset.number, barrier.upstream.watermark)
        )
    assert seen == [(-1, 1, minute(1)), (1, 2, minute(2)), (2, 4, minute(4))]


def test_a_run_whose_window_is_covered_has_nothing_to_do(dated):
    """Issue part 3: it succeeds as a no-op that starts no Spark."""
    dated.run(dated.inject(until=minute(3)))
    injection = dated.ask(TASK, until=minute(1))
    assert injection.barrier is None
    assert injection.reason == "the window up to version 1 is covered: version 3 is committed already"
    assert len(dated.store.barriers()) == 1


def test_a_run_that_is_one_version_behind_has_nothing_to_do(dated):
    dated.run(dated.inject(until=minute(3)))
    assert dated.ask(TASK, until=minute(2)).reason == (
        "the window up to version 2 is covered: version 3 is committed already"
    )


def test_a_run_before_the_upstream_began_has_nothing_to_do(dated):
    injection = dated.ask(until=minute(-1))
    assert injection.barrier is None
    assert "no version as old as" in injection.reason


def test_an_unfinished_job_goes_on_reading_at_the_same_version(dated):
    """I4: every unpaused barrier advances the position, also without a new version."""
    dated.run(dated.inject(until=minute(2)))
    barrier = dated.inject(until=minute(2))
    assert (barrier.upstream.from_offset.number, barrier.upstream.to_offset.number) == (2, 2)
    assert barrier.parts == (part_of(("0",), ("1",)),)
    dated.run(barrier)
    dated.assert_truth()


def test_a_task_run_finds_its_barrier_whatever_instant_it_asks_for_now(dated):
    mine = dated.inject(TASK, until=minute(1))
    assert dated.ask(TASK, until=minute(4)).barrier == mine


# --- mutations ------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, -1])
def test_a_repair_is_carried_by_a_run_whose_window_is_covered(dated, number):
    """It belongs to no interval; a catch-up would put it off until the schedule is where the view is."""
    dated.run(dated.inject(until=minute(3)))
    dated.view.rows.append(dated.view.rows[0])
    mutations.repair_job(keys=[[0]], store=dated.store, requested_by="x")
    barrier = dated.inject(TASK, until=minute(number))
    assert (barrier.upstream.from_offset.number, barrier.upstream.to_offset.number) == (3, 3)
    assert barrier.repair.keys == (("0",),)
    dated.run(barrier)
    dated.assert_truth()
    assert dated.ask(until=minute(number)).barrier is None


def test_a_repair_before_the_first_epoch_waits_for_the_upstream_to_begin(dated):
    mutations.repair_job(keys=[[0]], store=dated.store, requested_by="x")
    assert "no version as old as" in dated.ask(until=minute(-1)).reason
    assert dated.inject(until=minute(0)).repair.keys == (("0",),)


def test_a_barrier_carries_all_repairs_that_were_asked_for_since_the_one_before(backfilling):
    """I1: also one behind which something else was asked for."""
    backfilling.epoch()
    mutations.repair_job(keys=[[0]], store=backfilling.store, requested_by="x")
    mutations.repair_job(vnodes=[3], store=backfilling.store, requested_by="y")
    mutations.throttle_job(2, store=backfilling.store, requested_by="z")
    repair = backfilling.inject().repair
    assert (repair.vnodes, repair.keys) == ((3,), (("0",),))


def test_a_repair_before_anything_was_read_removes_what_nobody_wrote(backfilling):
    """I1: of rows that were not read the view has none."""
    mutations.pause_job(store=backfilling.store, requested_by="x")
    backfilling.view.rows.append(((3,), (3, 100)))
    mutations.repair_job(vnodes=["0-3"], store=backfilling.store, requested_by="x")
    barrier = backfilling.inject()
    assert (barrier.read_before, barrier.parts, bool(barrier.repair)) == ((), (), True)
    commit = backfilling.run(barrier)
    assert (commit.snapshot_read_row_count, backfilling.rows()) == (0, [])


def test_a_barrier_carries_who_changed_what_and_when_since_the_one_before(backfilling):
    """Design §1: mutations are carried by the next barrier; once each, in order."""
    store = backfilling.store
    backfilling.epoch()
    mutations.throttle_job(5, store=store, requested_by="vera", clock=backfilling.clock)
    mutations.pause_job(store=store, requested_by="o'brien", clock=backfilling.clock)
    mutations.resume_job(store=store, requested_by=str(TASK), clock=backfilling.clock)
    barrier = backfilling.inject()
    assert [(m.mutation, m.value, m.requested_by) for m in barrier.mutations] == [
        (Mutation.THROTTLE, 5, "vera"),
        (Mutation.PAUSE, None, "o'brien"),
        (Mutation.RESUME, None, str(TASK)),
    ]
    times = [m.requested_at for m in barrier.mutations]
    assert times == sorted(times)
    assert times[-1] < barrier.injected_at
    assert (barrier.rate_limit, barrier.paused, barrier.settings_sequence) == (5, False, 4)
    backfilling.run(barrier)
    backfilling.orders.add(50)
    assert backfilling.inject().mutations == ()


def test_a_barrier_without_a_change_knows_the_settings_that_it_was_pinned_under(backfilling):
    """Otherwise the next one would carry older changes once more."""
    mutations.throttle_job(2, store=backfilling.store, requested_by="x")
    backfilling.epoch()
    backfilling.epoch()
    assert (backfilling.store.pinned(2).settings_sequence, backfilling.inject().mutations) == (2, ())


def test_a_barrier_knows_how_many_runs_share_the_vnodes_also_if_none_reads(lake):
    backfilling = over(lake, *range(6), strategy="arrangement", parallelism=3)
    mutations.pause_job(store=backfilling.store, requested_by="x")
    backfilling.orders.change([1], amount=50)
    barrier = backfilling.inject()
    assert (barrier.parts, barrier.parallelism, len(barrier.vnode_ranges)) == ((), 3, 3)


@pytest.mark.parametrize(
    ("chosen", "warned"),
    [({"keys": [[0]]}, True), ({"vnodes": ["0-2"]}, True), ({"vnodes": ["0-3"], "keys": [[0]]}, False)],
)
def test_a_repair_of_a_part_says_that_the_rest_is_taken_as_it_is(backfilling, chosen, warned):
    """I6: a stranger's writes elsewhere in the view are not looked for."""
    assert backfilling.inject().warnings == ()
    backfilling.epoch()
    mutations.repair_job(store=backfilling.store, requested_by="x", **chosen)
    assert backfilling.inject().warnings == ((PARTIAL_REPAIR,) if warned else ())


def test_a_change_of_settings_does_not_change_a_pinned_barrier(backfilling):
    """I2: it takes effect with the next one."""
    pinned = backfilling.inject()
    mutations.throttle_job(1, store=backfilling.store, requested_by="x")
    assert backfilling.inject() == pinned
    assert backfilling.run(pinned).snapshot_read_row_count == 3
    following = backfilling.inject()
    assert (following.rate_limit, len(following.mutations)) == (1, 1)
    assert backfilling.run(following).snapshot_read_row_count == 1


# --- what is refused ------------------------------------------------------------------------------


def refused(backfilling, error, match):
    """Hold I6: an error that says what to do, and nothing pinned."""
    before = backfilling.store.barriers()
    with pytest.raises(error, match=match) as caught:
        backfilling.ask()
    assert backfilling.store.barriers() == before
    return str(caught.value)


def test_a_job_that_was_not_created_is_refused(lake):
    with pytest.raises(JobNotCreatedError, match="create it first"):
        Backfilling(lake).ask()


def test_a_cancelled_job_is_refused_with_who_cancelled_it(backfilling):
    backfilling.epoch()
    mutations.cancel_job(store=backfilling.store, requested_by="vera")
    refused(backfilling, JobCancelledError, "was cancelled by vera; rebuild it to start over")


def test_what_is_pinned_of_a_cancelled_job_is_done_first(backfilling):
    """I1: with half of an epoch in it, its view would be as of no version."""
    backfilling.epoch()
    backfilling.orders.change([0, 6], amount=5)
    pinned = backfilling.inject()
    half_done = backfilling.engine()
    protocol.run_changes(pinned, store=backfilling.store, engine=half_done)
    mutations.cancel_job(store=backfilling.store, requested_by="vera")
    injection = backfilling.ask()
    assert (injection.barrier, injection.commit) == (pinned, None)
    backfilling.run(pinned)
    backfilling.assert_truth()
    refused(backfilling, JobCancelledError, "was cancelled by vera; rebuild it to start over")


def test_an_arrangement_of_a_history_that_was_taken_back_is_refused_before_its_first_epoch(lake):
    """I6: the upstream's id and its number of versions are the same, but its rows are others."""
    backfilling = Backfilling(lake, strategy="arrangement")
    backfilling.orders.add(20)
    copy = backfilling.lake / "copy"
    shutil.copytree(backfilling.orders.path, copy)
    backfilling.orders.add(21)
    backfilling.create()
    put_back(copy, backfilling.orders.path)
    refused(backfilling, UpstreamReplacedError, "ends with version 0, but the job has come to version 1")
    backfilling.orders.add(30)
    refused(backfilling, UpstreamReplacedError, "version 1 of .* was written at .*, but the one that the job has come")


def test_of_several_cancellations_the_last_one_is_told(backfilling):
    mutations.cancel_job(store=backfilling.store, requested_by="vera")
    backfilling.rebuild()
    mutations.cancel_job(store=backfilling.store, requested_by="otto")
    refused(backfilling, JobCancelledError, "was cancelled by otto")


def test_an_upstream_that_was_replaced_is_refused(backfilling):
    backfilling.epoch()
    shutil.rmtree(backfilling.orders.path)
    refused(backfilling, UpstreamNotFoundError, "no Delta table")
    Orders(backfilling.lake).add(1)
    Orders(backfilling.lake).add(2)
    refused(backfilling, UpstreamReplacedError, "rebuild the job")


def test_a_replaced_upstream_is_refused_also_when_its_log_is_shorter(backfilling):
    """The new table has fewer versions than the old one had: no covered window, but another table."""
    backfilling.orders.add(20)
    backfilling.orders.add(21)
    backfilling.epoch()
    shutil.rmtree(backfilling.orders.path)
    Orders(backfilling.lake).add(1)
    refused(backfilling, UpstreamReplacedError, "rebuild the job")


def test_another_upstream_is_refused_also_where_it_has_not_come_to_the_arrangements_version(lake):
    """I6: no epoch was pinned yet; to say that its versions are covered would be wrong for as long as it has so few."""
    backfilling = Backfilling(lake, strategy="arrangement")
    for i in range(3):
        backfilling.orders.add(i)
    backfilling.create()
    shutil.rmtree(backfilling.orders.path)
    Orders(lake).add(1)
    refused(backfilling, UpstreamReplacedError, "rebuild the job")


def overwrite(backfilling, **columns):
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    write_deltalake(backfilling.orders.path, table, mode="overwrite", schema_mode="overwrite")


def test_columns_that_the_job_does_not_use_may_come_and_go(lake):
    backfilling = over(lake, 1, 2, query="SELECT id, status FROM upstream")
    overwrite(backfilling, id=[1, 2], status=["paid", "paid"], note=["new", "column"])
    assert backfilling.inject().upstream.to_offset.number == 1


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"id": [1, 2], "amount": [1, 1]}, "column 'status' is gone"),
        ({"id": [1, 2], "status": [1, 1]}, "column 'status' was string and is long"),
        ({"id": ["1", "2"], "status": ["a", "b"]}, "column 'id' was long and is string"),
    ],
)
def test_a_used_column_that_changed_is_refused(lake, columns, said):
    backfilling = over(lake, 1, 2, query="SELECT id, status FROM upstream")
    overwrite(backfilling, **columns)
    assert "adapt the job's query and rebuild it" in refused(backfilling, UpstreamSchemaChangedError, said)


def test_an_upstream_whose_feed_was_switched_off_is_refused_with_the_statement(backfilling):
    backfilling.epoch()
    DeltaTable(backfilling.orders.path).alter.set_table_properties({"delta.enableChangeDataFeed": "false"})
    refused(backfilling, ChangeDataFeedDisabledError, "ALTER TABLE")


def clean_up(backfilling, up_to):
    DeltaTable(backfilling.orders.path).create_checkpoint()
    for version in range(up_to + 1):
        commit_file(backfilling.orders.path, version).unlink()


def test_a_change_feed_gap_is_refused(backfilling):
    """I6."""
    backfilling.epoch()
    for i in range(20, 24):
        backfilling.orders.add(i)
    clean_up(backfilling, 2)
    message = refused(backfilling, ChangeFeedGapError, "from version 1 .* but its log begins at version 3")
    assert "Rebuild the job" in message


def test_a_job_that_read_nothing_yet_needs_no_changes_from_before(backfilling):
    """A job is created on any old table, whose first versions are long gone."""
    for i in range(20, 24):
        backfilling.orders.add(i)
    clean_up(backfilling, 2)
    backfilling.finish()
    assert len(backfilling.rows()) == 11


def test_a_version_whose_watermark_is_gone_is_refused(backfilling):
    backfilling.orders.add(20)
    clean_up(backfilling, 1)
    refused(backfilling, UpstreamError, "Rebuild|rebuild")


# --- control tables that went back ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "said"),
    [("settings", "the settings at"), ("barrier_log", "the state at"), ("vnode_state", "the state at")],
)
def test_a_control_table_put_back_from_a_copy_is_refused(backfilling, table, said):
    """I6: each table is as it was written, and yet the three disagree; epoch 3 would read rows that epoch 2 read."""
    backfilling.epoch()
    place = Path(backfilling.job.state) / table
    shutil.copytree(place, backfilling.lake / "copy")
    mutations.throttle_job(2, store=backfilling.store, requested_by="tester")
    backfilling.epoch()
    put_back(backfilling.lake / "copy", place)
    with pytest.raises(StateError, match=f"{said}.* restored or changed: rebuild the job"):
        backfilling.ask()


def test_a_state_put_back_from_before_an_empty_chunk_is_refused(lake):
    """I6: it has as many rows read, and yet rows that came into the chunk since would be read a second time."""
    backfilling = over(lake, *range(7), rate_limit=3)
    backfilling.epoch()
    place = Path(backfilling.job.state) / "vnode_state"
    shutil.copytree(place, lake / "copy")
    backfilling.orders.remove(3, 4, 5, 6)
    backfilling.epoch()
    put_back(lake / "copy", place)
    backfilling.orders.add(5)
    with pytest.raises(StateError, match="restored or changed: rebuild the job"):
        backfilling.ask()


@pytest.mark.parametrize(
    "less",
    [
        BackfillState(epoch=1, vnodes=(Completed(None, 7),) * 4),
        BackfillState(epoch=2, vnodes=(Completed(None, 6),) * 4),
        BackfillState(epoch=2, vnodes=(InProgress((6,), 7),) * 4),
    ],
)
def test_a_state_that_says_less_than_the_newest_commit_is_refused(lake, less):
    """I6: an earlier epoch, fewer rows, or vnodes that are not completed; each by itself."""
    backfilling = over(lake, *range(7), rate_limit=4)
    backfilling.finish()
    settings = backfilling.store.settings()
    table = ControlTable(f"{backfilling.job.state}/vnode_state", records.state_schema(settings.key_order))
    rows = records.state_rows(less, settings.incarnation, settings.key_order)
    table.update(lambda _: Write(rows, "overwrite"))
    backfilling.orders.add(20)
    with pytest.raises(StateError, match="it was restored or changed: rebuild the job"):
        backfilling.ask()
