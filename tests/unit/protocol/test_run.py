"""Running epochs: the view's truth, crashes at every named point, attempts that overlap, and zombies."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import pairwise

import pytest

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core import crash_points
from airflow_backfill_provider.core.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import (
    BackfillError,
    EpochFailedError,
    MaterializedViewError,
    StateError,
)
from airflow_backfill_provider.core.keys import EVERYTHING, KeyRange
from airflow_backfill_provider.core.progress import Completed, InProgress
from airflow_backfill_provider.protocol import mutations
from airflow_backfill_provider.sources.delta.versions import offset_of
from tests.builders import PAID, shown_after
from tests.dying import dies_at
from tests.property.memory_engine import EVERYTHING as EVERY_ROW
from tests.property.memory_engine import Backfilling, Prepared

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    return Prepared(tmp_path_factory.mktemp("prepared"), range(10), rate_limit=4)


@pytest.fixture
def backfilling(prepared):
    """A created job over the orders 0 to 9, four rows an epoch."""
    return prepared.restore()


OF_ARRANGEMENTS = {CrashPoint.BEFORE_ARRANGEMENT_COMMIT, CrashPoint.AFTER_ARRANGEMENT_COMMIT}
OF_REPLACEMENTS = {CrashPoint.AFTER_REMOVAL_COMMIT}
OF_SHARED_EPOCHS = {CrashPoint.BEFORE_REPORT, CrashPoint.AFTER_REPORT}
OF_CREATIONS = {CrashPoint.BEFORE_CREATION_COMMIT, CrashPoint.AFTER_CREATION_COMMIT}
OF_GIVING_UP = {
    CrashPoint.BEFORE_FENCE,
    CrashPoint.AFTER_CHUNK_FENCE,
    CrashPoint.AFTER_FENCE,
    CrashPoint.BEFORE_GIVING_UP,
}
NOT_OF_EVERY_EPOCH = OF_CREATIONS | OF_GIVING_UP | OF_ARRANGEMENTS | OF_REPLACEMENTS | OF_SHARED_EPOCHS
POINTS = [point for point in CrashPoint if point not in NOT_OF_EVERY_EPOCH]
"""What an epoch passes that reads in place, in one run."""


def write_as_a_stranger(backfilling):
    """Commit to the view."""
    view = backfilling.view
    view.version += 1
    view.log.append(view.log[-1]._replace(version=view.version, digest="foreign"))


# --- epochs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["no_shuffle", "arrangement"])
def test_rows_that_are_there_are_counted_on_from_epoch_to_epoch(lake, strategy):
    """I6: what a finished view has to have is known by counting chunks and changes, not from anybody's statistics."""
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


def test_a_row_that_moves_from_behind_the_position_into_the_chunk_is_there_once(backfilling):
    """Design §5.5: the changes go before the append."""
    backfilling.epoch()
    backfilling.orders.rekey({0: 5, 5: 0})
    backfilling.epoch()
    backfilling.assert_truth()
    backfilling.orders.rekey({1: 100, 9: -1})
    backfilling.epoch()
    backfilling.assert_truth()


def test_commits_tell_what_the_epochs_did(backfilling):
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
    assert set(first.seconds) == {"snapshot", "changes", "commit"}
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
    """Design §5.12."""
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
    def exclusive(settings):
        turn.append(settings.job["state"])
        yield
        turn.append([*engine.calls, len(backfilling.store.commits())])

    engine.exclusive = exclusive
    backfilling.run(barrier, engine)
    assert turn == [backfilling.job.state, ["ensure_tables", "execute 1", 1]]


def test_every_epoch_of_a_completed_job_says_that_the_view_is_finished(backfilling):
    """What was put back from a copy may not say so any more."""
    backfilling.finish()
    backfilling.view.marked_finished.clear()
    backfilling.orders.change([3], amount=7)
    commit = backfilling.epoch()
    assert backfilling.view.marked_finished == [commit.epoch]


def test_the_mark_of_an_attempt_that_slept_through_a_rebuild_is_taken_back(backfilling):
    """I5: readers would take a view for finished that has just begun."""
    backfilling.view.marked_finished.append(3)
    backfilling.epoch()
    assert backfilling.view.marked_finished == []


def test_a_view_that_something_else_wrote_to_is_refused(backfilling):
    """I6."""
    backfilling.epoch()
    write_as_a_stranger(backfilling)
    with pytest.raises(MaterializedViewError, match="not written by"):
        backfilling.epoch()
    assert len(backfilling.store.commits()) == 1


@pytest.mark.parametrize(
    ("point", "committed"),
    [
        (CrashPoint.AFTER_CHANGES_COMMIT, 1),
        (CrashPoint.AFTER_SNAPSHOT_COMMIT, 1),
        (CrashPoint.BEFORE_STATE_COMMIT, 2),
        (CrashPoint.AFTER_STATE_COMMIT, 2),
        (CrashPoint.BEFORE_LOG_COMMIT, 2),
    ],
)
def test_whatever_is_written_while_an_epoch_runs_is_seen_by_it_or_by_the_next_one(backfilling, point, committed):
    """I6: no version of the view lies between what one epoch looks at and what the next one does."""
    backfilling.epoch()

    def stranger(reached):
        if reached is point:
            crash_points.install(None)
            write_as_a_stranger(backfilling)

    crash_points.install(stranger)
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


def test_a_barrier_behind_the_committed_state_is_refused(backfilling):
    """I3 and I6: the log lost a commit that the state has."""
    backfilling.epoch()
    barrier = backfilling.inject()
    backfilling.run(barrier)
    old = barrier.model_copy(update={"epoch": 0, "prev_epoch": -1})
    with pytest.raises(StateError, match="is of epoch 2, but epoch 0 is not committed"):
        backfilling.run(old)


def test_the_view_is_marked_finished_once_by_the_epoch_that_completes(backfilling):
    """Design §3.4."""
    backfilling.finish()
    backfilling.orders.add(50)
    backfilling.epoch()
    assert backfilling.view.marked_finished == [3]
    protocol.finish_job(store=backfilling.store, requested_by="x")
    backfilling.orders.add(51)
    backfilling.epoch()
    assert backfilling.view.marked_finished == [3]


def test_an_epoch_that_repairs_marks_the_view_finished_again(backfilling):
    """What it rights may have been put back from a copy of before its end."""
    backfilling.finish()
    protocol.finish_job(store=backfilling.store, requested_by="x")
    mutations.repair_job(keys=[[0]], store=backfilling.store, requested_by="x")
    engine = backfilling.engine()
    backfilling.run(backfilling.inject(), engine)
    assert engine.calls[-1] == "mark_finished"


def test_keys_read_after_an_epoch(backfilling):
    order = backfilling.store.settings().key_order
    first = backfilling.inject()
    assert shown_after(first, order) == (KeyRange(None, (3,)),)
    backfilling.run(first)
    mutations.pause_job(store=backfilling.store, requested_by="x")
    backfilling.orders.change([0], amount=5)
    assert shown_after(backfilling.inject(), order) == (KeyRange(None, (3,)),)
    backfilling.epoch()
    mutations.resume_job(store=backfilling.store, requested_by="x")
    backfilling.finish()
    backfilling.orders.add(50)
    assert shown_after(backfilling.inject(), order) == (EVERYTHING,)


# --- crashes --------------------------------------------------------------------------------------


def history(backfilling):
    """Run epoch 1 and change rows on both sides of its position, so that epoch 2 has changes and a chunk to write."""
    backfilling.epoch()
    backfilling.orders.change([0, 9], amount=5)
    backfilling.orders.rekey({1: 6, 6: 1})
    backfilling.orders.remove(3)


def outcome(backfilling):
    """Return what the epochs came to: rows, state and counts."""
    counts = [
        (c.epoch, c.snapshot_read_row_count, c.upstream_output_row_count, c.rows_read, c.completed)
        for c in backfilling.store.commits()
    ]
    return backfilling.rows(), backfilling.store.state(), counts


@pytest.fixture(scope="module")
def prepared_history(tmp_path_factory):
    return Prepared(tmp_path_factory.mktemp("history"), range(10), history, rate_limit=4)


@pytest.fixture
def begun(prepared_history):
    """The job after one epoch and some changes."""
    return prepared_history.restore()


@pytest.fixture(scope="module")
def undisturbed(prepared_history):
    """What the same history comes to after each further epoch when nothing happens."""
    backfilling = prepared_history.restore()
    outcomes = {}
    for epoch in (2, 3):
        backfilling.epoch()
        backfilling.assert_truth()
        outcomes[epoch] = outcome(backfilling)
    return outcomes


@pytest.mark.parametrize("point", POINTS)
def test_an_epoch_that_died_anywhere_is_completed_by_the_next_run(begun, undisturbed, point):
    """I2: the same rows, the same state, the same counts; nothing lost, nothing twice."""
    with dies_at(point):
        begun.epoch()
    begun.epoch()
    assert outcome(begun) == undisturbed[2]


def test_an_epoch_that_dies_at_one_point_after_the_other_is_completed_in_the_end(begun, undisturbed):
    """I2: once or many times; and what is written to the upstream meanwhile waits for the next epoch."""
    for point in POINTS:
        with dies_at(point):
            begun.epoch()
    begun.orders.add(50)
    begun.epoch()
    assert outcome(begun) == undisturbed[2]


def test_the_completing_epoch_is_completed_however_often_it_dies(backfilling):
    """Design §5.10: a finished job reports finished again."""
    backfilling.epoch()
    backfilling.epoch()
    for point in reversed(POINTS):
        if point is CrashPoint.AFTER_PIN and len(backfilling.store.barriers()) == 3:
            continue
        with dies_at(point):
            backfilling.epoch()
    (commit,) = backfilling.finish()
    assert (commit.epoch, commit.completed) == (3, True)
    assert backfilling.view.marked_finished == [3]
    assert protocol.finish_job(store=backfilling.store, requested_by="x").finished_epoch == 3


def test_every_named_point_is_passed_in_order(backfilling):
    """So that the tests above did die where they say."""
    passed = []
    crash_points.install(passed.append)
    for _ in range(2):
        backfilling.epoch()
        assert passed == POINTS
        passed.clear()


# --- attempts that overlap ------------------------------------------------------------------------


def test_runs_of_one_epoch_at_once_commit_it_once(begun, undisturbed):
    """I2 and I5: concurrently or not."""
    barrier = begun.inject()
    with ThreadPoolExecutor(4) as threads:
        commits = list(threads.map(begun.run, [barrier] * 4))
    assert commits == [commits[0]] * 4
    assert outcome(begun) == undisturbed[2]


AFTER_INJECTION = [point for point in POINTS if point is not CrashPoint.AFTER_PIN]


def while_asleep_at(point, meanwhile):
    """Do something while the next attempt that gets to a point sleeps there."""

    def callback(reached):
        if reached is point:
            crash_points.install(None)
            meanwhile()

    crash_points.install(callback)


@pytest.mark.parametrize("point", AFTER_INJECTION)
def test_a_zombie_that_wakes_up_after_its_successors_changes_nothing(begun, undisturbed, point):
    """I5: it returns the commit of its epoch that the others made."""
    barrier = begun.inject()
    while_asleep_at(point, lambda: (begun.epoch(), begun.epoch()))
    commit = begun.run(barrier)
    assert commit == begun.store.commits()[1]
    assert outcome(begun) == undisturbed[3]


def rebuilt_meanwhile(begun, point):
    """Run epoch 2, which sleeps at a point while the job is rebuilt and reads its first chunk again."""
    barrier = begun.inject()

    def meanwhile():
        begun.rebuild()
        begun.epoch()

    while_asleep_at(point, meanwhile)
    return begun.run(barrier)


def assert_nothing_happened_to_the_rebuilt(backfilling):
    assert set(backfilling.store.state().vnodes) == {InProgress((4,), 4)}, "orders 0, 1, 2 and 4 are left"
    backfilling.assert_truth()
    assert backfilling.inject().epoch == 4


AFTER_STATE = {CrashPoint.AFTER_STATE_COMMIT, CrashPoint.BEFORE_LOG_COMMIT}


@pytest.mark.parametrize("point", [point for point in AFTER_INJECTION if point not in AFTER_STATE])
def test_a_zombie_that_wakes_up_after_a_rebuild_is_refused(begun, point):
    """I5: its incarnation is over."""
    with pytest.raises(BackfillError):
        rebuilt_meanwhile(begun, point)
    assert [commit.epoch for commit in begun.store.commits()] == [1, 3]
    assert_nothing_happened_to_the_rebuilt(begun)


@pytest.mark.parametrize("point", sorted(AFTER_STATE))
def test_a_zombie_that_had_committed_before_a_rebuild_may_only_say_so(begun, point):
    """I5: the log gets the record of an epoch that was done, of an incarnation that is over."""
    assert rebuilt_meanwhile(begun, point).epoch == 2
    first, second, third = begun.store.commits()
    assert first.incarnation == second.incarnation != third.incarnation
    assert_nothing_happened_to_the_rebuilt(begun)


def test_an_injector_that_falls_asleep_returns_the_epoch_and_its_commit(backfilling):
    while_asleep_at(CrashPoint.AFTER_PIN, backfilling.epoch)
    injection = backfilling.ask()
    assert injection.barrier is not None
    assert injection.barrier.epoch == 1
    assert injection.commit == backfilling.store.commits()[0]


def test_an_attempt_that_fails_because_it_was_overtaken_succeeds(backfilling):
    """What it ran into is what its successor did."""
    barrier = backfilling.inject()
    engine = backfilling.engine()
    execute = engine.execute

    def overtaken(*arguments, **options):
        backfilling.epoch()
        backfilling.epoch()
        return execute(*arguments, **options)

    engine.execute = overtaken
    assert backfilling.run(barrier, engine) == backfilling.store.commits()[0]
    backfilling.assert_truth()


# --- epochs that several runs share ---------------------------------------------------------------


def moving(backfilling):
    """Run an epoch, then change rows that were read and rows that were not, some of which change their vnode."""
    backfilling.epoch()
    backfilling.orders.change([0, 3, 9, 17], amount=5)
    backfilling.orders.rekey({1: 16, 16: 1})
    backfilling.orders.remove(4)
    backfilling.orders.add(30)


@pytest.fixture(scope="module")
def prepared_arrangement(tmp_path_factory):
    return Prepared(
        tmp_path_factory.mktemp("arrangement"),
        range(20),
        moving,
        distribution_key=("amount", "id"),
        strategy="arrangement",
        vnode_count=8,
        parallelism=3,
        rate_limit=9,
        query=PAID,
    )


@pytest.fixture
def arranged(prepared_arrangement):
    """A job with vnodes of its own, three runs sharing nine rows an epoch, after one epoch and some changes."""
    return prepared_arrangement.restore()


@pytest.fixture(scope="module")
def arranged_undisturbed(prepared_arrangement):
    """What that history comes to when one run does each epoch whole and nothing happens."""
    backfilling = prepared_arrangement.restore()
    outcomes = {}
    for epoch in (2, 3):
        backfilling.epoch()
        backfilling.assert_truth()
        outcomes[epoch] = outcome(backfilling)
    return outcomes


def reported(backfilling, barrier):
    return {report.part for report in backfilling.store.reports(barrier)}


def test_a_barrier_divides_its_chunk_among_the_runs(arranged):
    barrier = arranged.inject()
    assert (len(barrier.parts), barrier.parallelism) == (3, 3)
    firsts, lasts = zip(*barrier.vnode_ranges, strict=True)
    assert (firsts[0], lasts[-1]) == (0, 7)
    assert all(last + 1 == first for last, first in zip(lasts, firsts[1:], strict=False))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_the_run_that_reports_last_commits_the_epoch(arranged, arranged_undisturbed, order):
    barrier = arranged.inject()
    assert arranged.changes(barrier) is None
    *others, last = order
    assert [arranged.part(barrier, part) for part in others] == [None, None]
    assert arranged.store.commit_of(2) is None
    commit = arranged.part(barrier, last)
    assert commit == arranged.store.commit_of(2)
    assert commit.digest == barrier.digest
    assert outcome(arranged) == arranged_undisturbed[2]


def test_a_shared_epoch_took_as_long_as_the_slowest_run_of_each_step(arranged):
    barrier = arranged.inject()
    engines = [arranged.engine() for _ in range(4)]
    for engine, seconds in zip(engines, (0.5, 0.25, 0.75, 0.125), strict=True):
        engine.seconds = {"snapshot": seconds, "changes": seconds}
    arranged.changes(barrier, engines[0])
    for part in (0, 1, 2):
        arranged.part(barrier, part, engines[1 + part])
    reports = {report.part: report for report in arranged.store.reports(barrier)}
    assert {part: report.seconds for part, report in reports.items()} == {
        None: {"changes": 0.5},
        0: {"snapshot": 0.25},
        1: {"snapshot": 0.75},
        2: {"snapshot": 0.125},
    }
    for report in reports.values():
        assert (report.epoch, report.incarnation, report.digest) == (2, barrier.incarnation, barrier.digest)
        assert report.reported_at > barrier.injected_at
    commit = arranged.store.commit_of(2)
    seconds = dict(commit.seconds)
    assert 0 <= seconds.pop("commit") < 60
    assert seconds == {"changes": 0.5, "snapshot": 0.75}
    assert commit.upstream_output_row_count == sum(reports[None].rows.values()) > 0


def test_a_step_without_changes_is_skipped_without_an_engine(arranged, arranged_undisturbed):
    arranged.epoch()
    barrier = arranged.inject()
    assert protocol.skip_changes(barrier, store=arranged.store, clock=arranged.clock)
    (report,) = arranged.store.reports(barrier)
    assert (report.epoch, report.part, report.rows, report.seconds) == (3, None, {}, {})
    assert report.reported_at > barrier.injected_at
    for part in range(len(barrier.parts)):
        arranged.part(barrier, part)
    assert outcome(arranged) == arranged_undisturbed[3]


def test_changes_that_waited_are_not_skipped_where_there_is_no_new_version(lake):
    """I1: the epoch that completes the view applies them, and nobody does after it."""
    backfilling = Backfilling(lake, rate_limit=3, visibility="on_finish")
    backfilling.orders.add(*range(9))
    backfilling.create()
    backfilling.epoch()
    backfilling.orders.change([0], amount=50)
    backfilling.epoch()
    last = backfilling.inject()
    assert (last.has_window, last.publishes, len(last.parts)) == (False, True, 1)
    assert not protocol.skip_changes(last, store=backfilling.store)
    backfilling.changes(last)
    backfilling.part(last, 0)
    backfilling.assert_truth()


def test_changes_that_were_reported_need_no_engine_to_be_reported_again(arranged):
    """Spark takes long to find out that it has written what it is asked for."""
    barrier = arranged.inject()
    arranged.changes(barrier)
    engine = arranged.engine()
    assert arranged.changes(barrier, engine) is None
    assert engine.calls == []


@pytest.mark.parametrize("work", ["changes", "repair", "nothing else"])
def test_a_step_that_has_something_to_do_is_not_skipped(arranged, work):
    """I1: changes and a repair need an engine; and without a part nobody would commit the epoch behind them."""
    if work != "changes":
        arranged.epoch()
    if work == "repair":
        mutations.repair_job(vnodes=["0-7"], store=arranged.store, requested_by="x")
    barrier = arranged.inject()
    if work == "nothing else":
        barrier = barrier.model_copy(update={"parts": ()})
    assert not protocol.skip_changes(barrier, store=arranged.store)
    assert arranged.store.reports(barrier) == []


def test_a_part_before_the_changes_is_refused(arranged):
    """Design §5.5: a row may leave one vnode and be read in another one's chunk."""
    barrier = arranged.inject()
    rows = arranged.rows()
    with pytest.raises(EpochFailedError, match="changes of epoch 2 .* are not applied yet; run that step first"):
        arranged.part(barrier, 0)
    assert (arranged.rows(), reported(arranged, barrier)) == (rows, set())


@pytest.mark.parametrize("part", [-1, 3])
def test_a_part_that_the_barrier_does_not_have_is_refused(arranged, part):
    barrier = arranged.inject()
    with pytest.raises(StateError, match=f"has 3 parts, so there is no part {part}"):
        arranged.part(barrier, part)


def test_an_epoch_without_a_chunk_is_committed_by_its_changes(arranged):
    mutations.pause_job(store=arranged.store, requested_by="x")
    barrier = arranged.inject()
    assert barrier.parts == ()
    commit = arranged.changes(barrier)
    assert (commit.epoch, commit.snapshot_read_row_count) == (2, 0)
    arranged.assert_truth()


def test_an_epoch_that_reads_in_place_may_be_shared_too(begun, undisturbed):
    barrier = begun.inject()
    assert begun.changes(barrier) is None
    assert begun.part(barrier, 0) == begun.store.commit_of(2)
    assert outcome(begun) == undisturbed[2]


def test_a_run_that_reports_again_changes_nothing(arranged, arranged_undisturbed):
    """I2: a retry of a task that had done its work."""
    barrier = arranged.inject()
    for _ in range(2):
        arranged.changes(barrier)
        arranged.part(barrier, 1)
    assert reported(arranged, barrier) == {None, 1}
    arranged.part(barrier, 0)
    commit = arranged.part(barrier, 2)
    engine = arranged.engine()
    assert arranged.part(barrier, 1, engine) == arranged.changes(barrier, engine) == commit
    assert engine.calls == [], "a committed epoch asks for no engine"
    assert outcome(arranged) == arranged_undisturbed[2]


def test_a_part_that_failed_leaves_what_the_others_reported(arranged, arranged_undisturbed):
    barrier = arranged.inject()
    arranged.changes(barrier)
    arranged.part(barrier, 0)
    engine = arranged.engine()
    engine.refusal = EpochFailedError("the network")
    with pytest.raises(EpochFailedError, match="the network"):
        arranged.part(barrier, 1, engine)
    assert arranged.part(barrier, 2) is None
    assert reported(arranged, barrier) == {None, 0, 2}
    assert arranged.inject() == barrier
    assert arranged.part(barrier, 1).epoch == 2
    assert outcome(arranged) == arranged_undisturbed[2]


@pytest.mark.parametrize("done", [(), (0,), (0, 2), (1, 2)])
def test_one_run_completes_what_several_began(arranged, arranged_undisturbed, done):
    barrier = arranged.inject()
    arranged.changes(barrier)
    for part in done:
        arranged.part(barrier, part)
    assert arranged.run(barrier).epoch == 2
    assert outcome(arranged) == arranged_undisturbed[2]


SHARED_POINTS = [
    point for point in CrashPoint if point not in {CrashPoint.AFTER_PIN, *OF_REPLACEMENTS, *OF_CREATIONS, *OF_GIVING_UP}
]
OF_CHANGES = [
    CrashPoint.BEFORE_CHANGES_COMMIT,
    CrashPoint.AFTER_CHANGES_COMMIT,
    CrashPoint.BEFORE_ARRANGEMENT_COMMIT,
    CrashPoint.AFTER_ARRANGEMENT_COMMIT,
    CrashPoint.BEFORE_REPORT,
    CrashPoint.AFTER_REPORT,
]
OF_PARTS = [
    CrashPoint.BEFORE_SNAPSHOT_COMMIT,
    CrashPoint.AFTER_SNAPSHOT_COMMIT,
    CrashPoint.BEFORE_REPORT,
    CrashPoint.AFTER_REPORT,
]
OF_THE_COMMIT = [CrashPoint.BEFORE_STATE_COMMIT, CrashPoint.AFTER_STATE_COMMIT, CrashPoint.BEFORE_LOG_COMMIT]


@pytest.mark.parametrize("point", [point for point in SHARED_POINTS if point not in OF_SHARED_EPOCHS])
def test_several_runs_complete_what_one_began(arranged, arranged_undisturbed, point):
    """I2: wherever the one run died."""
    with dies_at(point):
        arranged.epoch()
    barrier = arranged.inject()
    arranged.changes(barrier)
    for part in (2, 0, 1):
        arranged.part(barrier, part)
    assert outcome(arranged) == arranged_undisturbed[2]


def test_every_run_of_a_shared_epoch_passes_its_points_in_order(arranged):
    """So that the tests below did die where they say."""
    passed = []
    barrier = arranged.inject()
    crash_points.install(passed.append)
    for step, points in (
        (lambda: arranged.changes(barrier), OF_CHANGES),
        (lambda: arranged.part(barrier, 1), OF_PARTS),
        (lambda: arranged.part(barrier, 2), OF_PARTS),
        (lambda: arranged.part(barrier, 0), [*OF_PARTS, *OF_THE_COMMIT]),
    ):
        step()
        assert passed == points
        passed.clear()


@pytest.mark.parametrize("point", OF_CHANGES)
def test_changes_that_died_anywhere_are_applied_by_the_next_try(arranged, arranged_undisturbed, point):
    """I2."""
    barrier = arranged.inject()
    with dies_at(point):
        arranged.changes(barrier)
    arranged.changes(barrier)
    for part in (0, 1, 2):
        arranged.part(barrier, part)
    assert outcome(arranged) == arranged_undisturbed[2]


@pytest.mark.parametrize("point", [*OF_PARTS, *OF_THE_COMMIT])
def test_the_last_part_that_died_anywhere_is_completed_by_the_next_try(arranged, arranged_undisturbed, point):
    """I2: also where it had reported, and nobody committed."""
    barrier = arranged.inject()
    arranged.changes(barrier)
    arranged.part(barrier, 0)
    arranged.part(barrier, 2)
    with dies_at(point):
        arranged.part(barrier, 1)
    assert arranged.store.commit_of(2) is None
    assert arranged.part(barrier, 1).epoch == 2
    assert outcome(arranged) == arranged_undisturbed[2]


def test_changes_that_are_tried_again_commit_what_the_last_part_left(arranged, arranged_undisturbed):
    """I2: everybody has reported, and whoever comes next commits, whichever step it is."""
    barrier = arranged.inject()
    arranged.changes(barrier)
    arranged.part(barrier, 0)
    arranged.part(barrier, 2)
    with dies_at(CrashPoint.BEFORE_STATE_COMMIT):
        arranged.part(barrier, 1)
    assert arranged.changes(barrier) == arranged.store.commit_of(2) is not None
    assert outcome(arranged) == arranged_undisturbed[2]


def test_parts_at_once_commit_the_epoch_once(arranged, arranged_undisturbed):
    """I5: those that report at the same moment may both be the last."""
    barrier = arranged.inject()
    arranged.changes(barrier)
    with ThreadPoolExecutor(6) as threads:
        commits = list(threads.map(lambda part: arranged.part(barrier, part), [0, 1, 2, 2, 1, 0]))
    found = [commit for commit in commits if commit is not None]
    assert found
    assert found == [arranged.store.commit_of(2)] * len(found)
    assert outcome(arranged) == arranged_undisturbed[2]


@pytest.mark.parametrize("point", [*OF_PARTS, *OF_THE_COMMIT])
def test_a_part_that_wakes_up_after_its_epochs_successor_changes_nothing(arranged, arranged_undisturbed, point):
    """I5: a zombie returns the commit that the others made."""
    barrier = arranged.inject()
    arranged.changes(barrier)
    arranged.part(barrier, 0)
    arranged.part(barrier, 1)

    def meanwhile():
        arranged.part(barrier, 2)
        arranged.epoch()

    while_asleep_at(point, meanwhile)
    assert arranged.part(barrier, 2) == arranged.store.commit_of(2)
    assert outcome(arranged) == arranged_undisturbed[3]


@pytest.mark.parametrize("point", OF_CHANGES)
def test_changes_that_wake_up_after_their_epochs_successor_change_nothing(arranged, arranged_undisturbed, point):
    """I5."""
    barrier = arranged.inject()
    while_asleep_at(point, lambda: (arranged.run(barrier), arranged.epoch()))
    arranged.changes(barrier)
    assert outcome(arranged) == arranged_undisturbed[3]


@pytest.mark.parametrize("step", ["changes", "part"])
def test_a_step_that_wakes_up_after_its_epoch_was_committed_returns_the_commit(arranged, step):
    barrier = arranged.inject()
    if step == "part":
        arranged.changes(barrier)
    while_asleep_at(CrashPoint.BEFORE_REPORT, lambda: arranged.run(barrier))
    found = arranged.changes(barrier) if step == "changes" else arranged.part(barrier, 0)
    assert arranged.store.commit_of(2) is not None
    assert found == arranged.store.commit_of(2)


@pytest.mark.parametrize("point", OF_PARTS)
def test_a_part_that_wakes_up_after_a_rebuild_is_refused(arranged, point):
    """I5: its incarnation is over."""
    barrier = arranged.inject()
    arranged.changes(barrier)
    while_asleep_at(point, lambda: (arranged.rebuild(), arranged.epoch()))
    with suppress(BackfillError):
        assert arranged.part(barrier, 0) is None
    assert [commit.epoch for commit in arranged.store.commits()] == [1, 3]
    arranged.assert_truth()
    arranged.finish()


# --- rescales -------------------------------------------------------------------------------------


@pytest.mark.parametrize("parallelism", [1, 2, 5, 8])
def test_a_rescale_takes_effect_with_the_next_barrier(arranged, parallelism):
    pinned = arranged.inject()
    mutations.rescale_job(parallelism, store=arranged.store, requested_by="x")
    assert arranged.inject() == pinned
    arranged.run(pinned)
    barrier = arranged.inject()
    assert (barrier.parallelism, [m.value for m in barrier.mutations]) == (parallelism, [parallelism])
    assert len(barrier.vnode_ranges) <= parallelism
    arranged.run(barrier)
    arranged.assert_truth()
    arranged.finish_watched()


def test_a_job_that_is_rescaled_in_every_epoch_comes_to_its_end(arranged):
    """I4: and leaves the same rows."""
    mutations.throttle_job(3, store=arranged.store, requested_by="x")
    parallelism = itertools.cycle((8, 1, 5, 2, 7, 3))
    for _ in range(8):
        mutations.rescale_job(next(parallelism), store=arranged.store, requested_by="x")
        commit = arranged.epoch()
        arranged.assert_truth()
        if commit.completed:
            break
    assert commit.completed
