"""Running epochs: the view equals the query."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import pairwise

import pytest

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import (
    EpochFailedError,
    MaterializedViewError,
    StateError,
)
from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyRange
from airflow_backfill_provider.core.scan.progress import Completed, InProgress
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.sources.delta.versions import offset_of
from tests.builders import PAID, visible_after
from tests.property.backfilling import Backfilling
from tests.property.memory_queries import EVERYTHING as EVERY_ROW
from tests.unit.protocol import run_helpers
from tests.variants import exhaustive

prepared = run_helpers.prepared
backfilling = run_helpers.backfilling

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


def write_as_another_writer(backfilling):
    """Commit to the view."""
    view = backfilling.view
    view.commit()
    view.log.append(view.log[-1]._replace(version=view.version, digest="foreign"))


@pytest.mark.parametrize("strategy", ["no_shuffle", "arrangement"])
def test_the_number_of_rows_is_counted_from_epoch_to_epoch(lake, strategy):
    """I6: the rows that a finished view must have are known by counting chunks and changes, not from statistics."""
    backfilling = Backfilling(lake, rate_limit=4, query=EVERY_ROW, strategy=strategy)
    orders = backfilling.orders
    orders.add(*range(0, 20, 2))
    backfilling.create()
    changes = [
        lambda: (orders.add(1, 3, 50), orders.change([0, 2], status="draft")),
        lambda: (orders.rekey({4: 100, 16: 5}), orders.remove(0, 2)),
        lambda: (orders.remove(6), orders.add(0), orders.remove(50)),
        orders.compact,
    ]
    for change in changes:
        commit = backfilling.epoch()
        assert commit.rows_present == len(backfilling.view.rows)
        change()
    backfilling.finish()
    (*_, last) = backfilling.store.commits()
    assert last.rows_present == len(backfilling.view.rows) == len(orders.rows)


def test_the_view_is_the_query_after_every_epoch_while_the_upstream_changes(lake):
    """I1 and I3: updates, deletes, re-keying, swaps, re-inserts, rows entering and leaving the filter."""
    backfilling = Backfilling(lake, rate_limit=4, query=PAID)
    orders = backfilling.orders
    orders.add(*range(0, 20, 2))
    orders.add(None, 21, status="draft")
    backfilling.create()
    changes = [
        lambda: (orders.change([0, 2], status="draft"), orders.change([None], status="paid"), orders.add(1)),
        lambda: (orders.rekey({4: 100, 16: 3}), orders.remove(0), orders.add(0, amount=7), orders.add(50)),
        lambda: (orders.rekey({2: 4, 6: 2}), orders.rekey({2: 4, 4: 2}), orders.change([2, 4, 100], amount=9)),
        lambda: (orders.remove(None, 18), orders.compact(), orders.change([21, 2], status="paid")),
    ]
    before = backfilling.store.state()
    for change in changes:
        backfilling.epoch()
        backfilling.assert_truth()
        after = backfilling.store.state()
        before.require_successor(after, backfilling.store.settings().key_order)
        before = after
        change()
    backfilling.finish()
    paid = [(i, 100 * amount) for i, (status, amount) in orders.rows.items() if status == "paid"]
    assert sorted(backfilling.rows()) == sorted(paid)


def test_a_row_that_moves_across_the_position_into_the_chunk_is_in_the_view_once(backfilling):
    """docs/concepts/rules.md#changes-go-before-the-chunk: the changes go before the append."""
    backfilling.epoch()
    backfilling.orders.rekey({0: 5, 5: 0})
    backfilling.epoch()
    backfilling.assert_truth()
    backfilling.orders.rekey({1: 100, 9: -1})
    backfilling.epoch()
    backfilling.assert_truth()


def test_commits_record_what_the_epochs_did(backfilling):
    """Issue part 5: row counts, the watermark and timings go into the barrier log."""
    first = backfilling.epoch()
    backfilling.orders.change([0, 9], amount=5)
    second = backfilling.epoch()
    third = backfilling.epoch()
    assert [(c.snapshot_read_row_count, c.upstream_output_row_count) for c in (first, second, third)] == [
        (4, 0),
        (4, 1),
        (2, 0),
    ]
    assert [c.rows_read for c in (first, second, third)] == [4, 8, 10]
    assert [c.completed for c in (first, second, third)] == [False, False, True]
    assert [c.watermark for c in (first, second)] == [backfilling.orders.table.watermark(offset_of(v)) for v in (0, 1)]
    assert set(first.seconds) == {"chunk", "changes", "commit"}
    assert all(0 <= c.seconds["commit"] < 60 for c in (first, second, third))
    assert all(earlier.committed_at < later.committed_at for earlier, later in pairwise((first, second, third)))
    barriers, commits = backfilling.store.log()
    assert commits == [first, second, third]
    assert [c.digest for c in commits] == [b.digest for b in barriers]


def test_the_state_follows_the_pinned_plan(backfilling):
    barrier = backfilling.inject()
    backfilling.run(barrier)
    assert set(backfilling.store.state().vnodes) == {InProgress((3,), 4)}
    backfilling.finish()
    assert set(backfilling.store.state().vnodes) == {Completed((7,), 10)}


def test_the_state_is_written_only_when_it_changed(backfilling):
    """docs/concepts/rules.md#state-is-written-when-it-changes."""
    backfilling.finish()
    before = backfilling.store.state()
    backfilling.orders.change([3], amount=7)
    commit = backfilling.epoch()
    assert commit.upstream_output_row_count == 1
    assert backfilling.store.state() == before
    assert before.epoch == 3


def test_an_epoch_gets_the_version_at_which_the_one_before_left_the_view(backfilling):
    """I6: whatever wrote to the view since then is seen."""
    engine = backfilling.engine()
    first = backfilling.run(backfilling.inject(), engine)
    assert engine.started_from is None
    backfilling.run(backfilling.inject(), engine)
    assert engine.started_from == first.tables


def test_an_epoch_takes_its_turn_among_the_drivers_of_its_machine(backfilling):
    """I5: two that commit to a local table at the same instant may both succeed."""
    barrier, engine, turn = backfilling.inject(), backfilling.engine(), []

    @contextmanager
    def exclusive(state):
        turn.append(state)
        yield
        turn.append([*engine.calls, len(backfilling.store.commits())])

    engine.exclusive = exclusive
    backfilling.run(barrier, engine)
    assert turn == [backfilling.job.state, ["ensure_tables", "execute 1", 1]]


def test_every_epoch_of_a_completed_job_says_that_the_view_is_finished(backfilling):
    """A view that was restored from a copy may not say so any more."""
    backfilling.finish()
    backfilling.view.marked_finished.clear()
    backfilling.orders.change([3], amount=7)
    commit = backfilling.epoch()
    assert backfilling.view.marked_finished == [commit.epoch]


def test_the_mark_of_an_attempt_that_slept_through_a_rebuild_is_removed(backfilling):
    """I5: readers would read an incomplete view as a finished one."""
    backfilling.view.marked_finished.append(3)
    backfilling.epoch()
    assert backfilling.view.marked_finished == []


def test_a_view_that_something_else_wrote_to_is_refused(backfilling):
    """I6."""
    backfilling.epoch()
    write_as_another_writer(backfilling)
    with pytest.raises(MaterializedViewError, match="not written by"):
        backfilling.epoch()
    assert len(backfilling.store.commits()) == 1


@pytest.mark.parametrize(
    ("point", "committed"),
    [
        exhaustive(CrashPoint.AFTER_CHANGES_COMMIT, 1),
        (CrashPoint.AFTER_SNAPSHOT_COMMIT, 1),
        (CrashPoint.BEFORE_STATE_COMMIT, 2),
        exhaustive(CrashPoint.AFTER_STATE_COMMIT, 2),
        exhaustive(CrashPoint.BEFORE_LOG_COMMIT, 2),
    ],
)
def test_a_write_while_an_epoch_runs_is_noticed_by_it_or_by_the_next_one(backfilling, point, committed):
    """I6: no version of the view lies between what one epoch looks at and what the next one does."""
    backfilling.epoch()

    def other_writer(reached):
        if reached is point:
            crash_points.install(None)
            write_as_another_writer(backfilling)

    crash_points.install(other_writer)
    with pytest.raises(MaterializedViewError, match="not written by"):
        backfilling.finish()
    assert len(backfilling.store.commits()) == committed


def test_running_a_committed_barrier_again_does_nothing(backfilling):
    """I2."""
    barrier = backfilling.inject()
    commit = backfilling.run(barrier)
    rows = backfilling.rows()
    engine = backfilling.engine()
    assert backfilling.run(barrier, engine) == commit
    backfilling.epoch()
    assert backfilling.run(barrier, engine) == commit
    assert engine.calls == []
    assert backfilling.rows()[: len(rows)] == rows


def test_an_epoch_that_failed_is_run_again_from_the_same_barrier(backfilling):
    barrier = backfilling.inject()
    engine = backfilling.engine()
    engine.refusal = EpochFailedError("the network")
    with pytest.raises(EpochFailedError, match="the network"):
        backfilling.run(barrier, engine)
    assert backfilling.store.commits() == []
    backfilling.orders.add(50)
    assert backfilling.inject() == barrier
    backfilling.run(barrier)
    backfilling.assert_truth()


def test_a_barrier_of_another_definition_is_refused(backfilling):
    """I6."""
    barrier = backfilling.inject().model_copy(update={"definition": "0" * 32})
    with pytest.raises(StateError, match="another definition .* rebuild the job"):
        backfilling.run(barrier)
    assert backfilling.rows() == []


def test_a_barrier_before_the_committed_state_is_refused(backfilling):
    """I3 and I6: the log lost a commit that the state has."""
    backfilling.epoch()
    barrier = backfilling.inject()
    backfilling.run(barrier)
    old = barrier.model_copy(update={"epoch": 0, "prev_epoch": -1})
    with pytest.raises(StateError, match="is of epoch 2, but epoch 0 is not committed"):
        backfilling.run(old)


def test_the_view_is_marked_finished_once_by_the_epoch_that_completes(backfilling):
    """docs/concepts/rules.md#finishing-happens-once."""
    backfilling.finish()
    backfilling.orders.add(50)
    backfilling.epoch()
    assert backfilling.view.marked_finished == [3]
    protocol.finish_job(store=backfilling.store, requested_by="x")
    backfilling.orders.add(51)
    backfilling.epoch()
    assert backfilling.view.marked_finished == [3]


def test_an_epoch_that_repairs_marks_the_view_finished_again(backfilling):
    """The view may have been restored from a copy of before it was finished."""
    backfilling.finish()
    protocol.finish_job(store=backfilling.store, requested_by="x")
    mutations.repair_job(keys=[[0]], store=backfilling.store, requested_by="x")
    engine = backfilling.engine()
    backfilling.run(backfilling.inject(), engine)
    assert engine.calls[-1] == "mark_finished"


@pytest.mark.exhaustive
def test_keys_read_after_an_epoch(backfilling):
    order = backfilling.store.settings().key_order
    first = backfilling.inject()
    assert visible_after(first, order) == (KeyRange(None, (3,)),)
    backfilling.run(first)
    mutations.pause_job(store=backfilling.store, requested_by="x")
    backfilling.orders.change([0], amount=5)
    assert visible_after(backfilling.inject(), order) == (KeyRange(None, (3,)),)
    backfilling.epoch()
    mutations.resume_job(store=backfilling.store, requested_by="x")
    backfilling.finish()
    backfilling.orders.add(50)
    assert visible_after(backfilling.inject(), order) == (EVERYTHING,)
