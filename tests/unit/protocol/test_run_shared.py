"""Running epochs that several task runs share, and rescales."""

from __future__ import annotations

import itertools

import pytest

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.errors import (
    EpochFailedError,
    StateError,
)
from airflow_backfill_provider.jobs import mutations
from tests.property.backfilling import Backfilling
from tests.unit.protocol import run_helpers
from tests.unit.protocol.run_helpers import outcome
from tests.variants import exhaustive

prepared_history = run_helpers.prepared_history
begun = run_helpers.begun
undisturbed = run_helpers.undisturbed
prepared_arrangement = run_helpers.prepared_arrangement
arranged = run_helpers.arranged
arranged_undisturbed = run_helpers.arranged_undisturbed

pytestmark = pytest.mark.slow  # whole epochs through Delta tables


# --- epochs that several task runs share ----------------------------------------------------------


def reported(backfilling, barrier):
    return {report.part for report in backfilling.store.reports(barrier)}


def test_a_barrier_divides_its_chunk_among_the_task_runs(arranged):
    barrier = arranged.inject()
    assert (len(barrier.parts), barrier.parallelism) == (3, 3)
    firsts, lasts = zip(*barrier.vnode_ranges, strict=True)
    assert (firsts[0], lasts[-1]) == (0, 7)
    assert all(last + 1 == first for last, first in zip(lasts, firsts[1:], strict=False))


@pytest.mark.parametrize("order", [exhaustive((0, 1, 2)), (2, 1, 0), exhaustive((1, 2, 0))])
def test_the_task_run_that_reports_last_commits_the_epoch(arranged, arranged_undisturbed, order):
    barrier = arranged.inject()
    assert arranged.changes(barrier) is None
    *others, last = order
    assert [arranged.part(barrier, part) for part in others] == [None, None]
    assert arranged.store.commit_of(2) is None
    commit = arranged.part(barrier, last)
    assert commit == arranged.store.commit_of(2)
    assert commit.digest == barrier.digest
    assert outcome(arranged) == arranged_undisturbed[2]


def test_a_shared_epoch_took_as_long_as_the_slowest_task_run_of_each_step(arranged):
    barrier = arranged.inject()
    engines = [arranged.engine() for _ in range(4)]
    for engine, seconds in zip(engines, (0.5, 0.25, 0.75, 0.125), strict=True):
        engine.seconds = {"chunk": seconds, "changes": seconds}
    arranged.changes(barrier, engines[0])
    for part in (0, 1, 2):
        arranged.part(barrier, part, engines[1 + part])
    reports = {report.part: report for report in arranged.store.reports(barrier)}
    assert {part: report.seconds for part, report in reports.items()} == {
        None: {"changes": 0.5},
        0: {"chunk": 0.25},
        1: {"chunk": 0.75},
        2: {"chunk": 0.125},
    }
    for report in reports.values():
        assert (report.epoch, report.incarnation, report.digest) == (2, barrier.incarnation, barrier.digest)
        assert report.reported_at > barrier.injected_at
    commit = arranged.store.commit_of(2)
    seconds = dict(commit.seconds)
    assert 0 <= seconds.pop("commit") < 60
    assert seconds == {"changes": 0.5, "chunk": 0.75}
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
    """I1: the epoch that completes the view applies them, and no later one does."""
    backfilling = Backfilling(lake, rate_limit=3, strategy="no_shuffle", visibility="on_finish")
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


@pytest.mark.exhaustive
def test_while_changes_wait_their_step_is_skipped_although_there_is_a_new_version(lake):
    """An application for it would find nothing to do."""
    backfilling = Backfilling(lake, rate_limit=2, strategy="arrangement", parallelism=2, visibility="on_finish")
    backfilling.orders.add(*range(9))
    backfilling.create()
    backfilling.epoch()
    backfilling.orders.change(range(9), amount=50)
    barrier = backfilling.inject()
    assert (barrier.has_window, barrier.publishes, bool(barrier.parts)) == (True, False, True)
    assert protocol.skip_changes(barrier, store=backfilling.store, clock=backfilling.clock)
    for part in range(len(barrier.parts)):
        backfilling.part(barrier, part)
    backfilling.assert_truth()
    backfilling.finish()


def test_changes_that_were_reported_need_no_engine_to_be_reported_again(arranged):
    """Spark takes long to find out that it has written what it is asked for."""
    barrier = arranged.inject()
    arranged.changes(barrier)
    engine = arranged.engine()
    assert arranged.changes(barrier, engine) is None
    assert engine.calls == []


@pytest.mark.parametrize("work", ["changes", "repair", exhaustive("nothing else")])
def test_a_step_that_has_something_to_do_is_not_skipped(arranged, work):
    """I1: changes and a repair need an engine; and if there is no part they have to commit the epoch, too."""
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
    """
    A row may leave one vnode and be read in another one's chunk.

    See docs/concepts/rules.md#changes-go-before-the-chunk.
    """
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


@pytest.mark.exhaustive
def test_an_epoch_that_reads_in_place_may_be_shared_too(begun, undisturbed):
    barrier = begun.inject()
    assert begun.changes(barrier) is None
    assert begun.part(barrier, 0) == begun.store.commit_of(2)
    assert outcome(begun) == undisturbed[2]


def test_a_task_run_that_reports_again_changes_nothing(arranged, arranged_undisturbed):
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


@pytest.mark.parametrize("done", [(), exhaustive((0,)), (0, 2), exhaustive((1, 2))])
def test_one_task_run_completes_what_several_began(arranged, arranged_undisturbed, done):
    barrier = arranged.inject()
    arranged.changes(barrier)
    for part in done:
        arranged.part(barrier, part)
    assert arranged.run(barrier).epoch == 2
    assert outcome(arranged) == arranged_undisturbed[2]


# --- rescales -------------------------------------------------------------------------------------


@pytest.mark.parametrize("parallelism", [1, exhaustive(2), 5, exhaustive(8)])
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


@pytest.mark.exhaustive
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
