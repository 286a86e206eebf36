"""
Our order of operations, one attempt at a time: true, monotonic, making progress, the same after any crash.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.checks import DETERMINISTIC
from tests.model.orchestrated import POINTS, Attempt, Planner, plan_between_rows, plan_by_rows, replay
from tests.model.runs import ClassicalRun, OrchestratedRun
from tests.model.tables import LogEntry, State
from tests.model.truth import COMPLETED, NOT_STARTED, Phase, Progress, Query, everything, paid_in_cents
from tests.strategies import (
    CRASH_POINTS,
    Barrier,
    Crash,
    Delete,
    Insert,
    KeyColumn,
    Row,
    Scenario,
    Update,
    Write,
    scenarios,
    schedules,
)

PLANNERS = st.sampled_from([plan_by_rows, plan_between_rows])
QUERIES = st.sampled_from([paid_in_cents, everything])
ID = (KeyColumn("id"),)


def table(*ids: int | None) -> tuple[Row, ...]:
    return tuple(Row((id_,), amount=id_) for id_ in ids)


def at(key: int | None) -> Progress:
    return Progress(Phase.IN_PROGRESS, (key,))


@pytest.mark.slow
@settings(DETERMINISTIC, max_examples=150)
@given(scenarios(), QUERIES, PLANNERS)
def test_view_is_true_after_every_epoch(scenario: Scenario, query: Query, planner: Planner) -> None:
    """I1, I3, I4: whatever is written, paused, throttled or crashed; and the end is the query's result."""
    run = OrchestratedRun(scenario, query, planner=planner)
    run.play(scenario.events)
    run.finish()
    now = run.job.upstream.as_of(run.job.upstream.latest)
    assert run.world.view.rows() == {key: out for key, row in now.items() if (out := query(row)) is not None}
    assert run.world.state.progress == COMPLETED
    assert [entry.epoch for entry in run.world.log.entries] == list(range(1, run.world.state.epoch + 1))


@pytest.mark.slow
@DETERMINISTIC
@given(scenarios(), QUERIES, st.lists(st.integers(0, 4), min_size=1, max_size=4))
def test_both_orders_end_with_the_same_view(scenario: Scenario, query: Query, pace: list[int]) -> None:
    """I1: the oracle and our order give the same view of the same history."""
    classical, ours = ClassicalRun(scenario, query, pace), OrchestratedRun(scenario, query)
    for run in (classical, ours):
        run.play(scenario.events)
        run.finish(rate_limit=2)
    assert ours.world.view.rows() == classical.checkpoint.view


@pytest.mark.slow
@DETERMINISTIC
@given(scenarios(points=()), st.integers(1, 3), PLANNERS)
def test_finishes_within_rows_per_rate_limit(scenario: Scenario, rate_limit: int, planner: Planner) -> None:
    """I4: as many epochs as the rows, new ones among them, need at this rate, and one for the end."""
    writes = [event for event in scenario.events if isinstance(event, Write)]
    run = OrchestratedRun(scenario, planner=planner)
    epochs = 0
    while run.world.state.progress != COMPLETED:
        if epochs < len(writes):
            run.write(writes[epochs])
        run.run(Barrier(rate_limit))
        epochs += 1
    rows = len(scenario.initial) + sum(len(write.operations) for write in writes)
    assert epochs <= rows // rate_limit + 1


@pytest.mark.slow
@DETERMINISTIC
@given(scenarios(), PLANNERS)
def test_no_chunk_exceeds_the_rate_limit(scenario: Scenario, planner: Planner) -> None:
    """
    I4: the rate limit is a cap, a paused barrier reads nothing, and the row count is the sum of what was
    read.
    """
    run = OrchestratedRun(scenario, planner=planner)
    run.play(scenario.events)
    run.finish(rate_limit=2)
    for entry in run.world.log.entries:
        limits = run.world.log.pinned(entry.epoch).settings
        if limits.paused:
            assert entry.snapshot_rows == 0
        elif limits.rate_limit is not None:
            assert entry.snapshot_rows <= limits.rate_limit
    assert run.world.state.row_count == sum(entry.snapshot_rows for entry in run.world.log.entries)


@DETERMINISTIC
@given(st.integers(0, 8), schedules(max_size=10), PLANNERS)
def test_every_barrier_reads_what_its_settings_allow(
    size: int, schedule: tuple[Barrier | Crash, ...], planner: Planner
) -> None:
    """I4: over a quiet upstream each committed barrier reads exactly its limit, until nothing is left."""
    run = OrchestratedRun(Scenario(ID, table(*range(size)), schedule), planner=planner)
    read, completed, pinned = 0, False, None
    for event in schedule:
        # An attempt first completes the epoch that the previous one left.
        settings = pinned or (event.barrier if isinstance(event, Crash) else event)
        pinned = settings if isinstance(event, Crash) else None
        run.play([event])
        if pinned is None and not settings.paused and settings.rate_limit != 0:
            limit = size if settings.rate_limit is None else settings.rate_limit
            completed = completed or size - read <= limit
            read = min(size, read + limit)
        if pinned is None:
            assert run.world.state.row_count == read
            assert (run.world.state.progress == COMPLETED) == completed


# --- crashes --------------------------------------------------------------------------------------


def test_the_points_are_where_the_model_stops() -> None:
    """Every named point exists in the model, in the order in which an epoch passes them."""
    assert tuple(POINTS.values()) == CRASH_POINTS


@pytest.mark.slow
@settings(DETERMINISTIC, max_examples=60)
@given(scenarios(max_events=8), st.integers(1, 3), st.data())
def test_an_epoch_is_the_same_after_a_crash_anywhere(scenario: Scenario, crashes: int, data: st.DataObject) -> None:
    """
    I2: died once or several times at each named point, then run again: rows, state and log as without a
    crash.
    """
    run = OrchestratedRun(scenario)
    for event in scenario.events:
        if not isinstance(event, Barrier):
            run.play([event])
            continue
        before = run.world
        plan = run.run(event)
        undisturbed = run.world
        for point in CRASH_POINTS:
            run.world = before
            run.crash(point, event)
            for _ in range(crashes - 1):
                run.crash(data.draw(st.sampled_from(CRASH_POINTS)), Barrier(rate_limit=3))
            # The settings have changed meanwhile; the pinned barrier keeps its own.
            assert run.run(Barrier(rate_limit=1, paused=True)) == plan
            assert run.world == undisturbed


@pytest.mark.parametrize("point", CRASH_POINTS)
def test_a_pinned_barrier_is_injected_again(point: str) -> None:
    """I2: after a crash the same plan comes back, although upstream and settings have moved on."""
    run = OrchestratedRun(Scenario(ID, table(1, 2, 3), ()))
    crashed = run.crash(point, Barrier(rate_limit=2))
    run.write(Write((Delete((1,)), Insert(Row((0,))))))
    plan = run.run(Barrier(rate_limit=1))
    assert plan == crashed.plan
    assert run.world.state == State(epoch=1, version=0, progress=at(2), row_count=2)
    assert run.run(Barrier(rate_limit=1)).epoch == 2


@pytest.mark.slow
@settings(DETERMINISTIC, max_examples=60)
@given(scenarios(), st.data())
def test_a_replay_of_any_committed_epoch_is_a_no_op(scenario: Scenario, data: st.DataObject) -> None:
    """
    I2: a barrier that was committed long ago, executed again, changes no row, no state and no log entry.
    """
    run = OrchestratedRun(scenario)
    run.play(scenario.events)
    run.finish(rate_limit=2)
    before = run.world
    epoch = data.draw(st.integers(1, before.state.epoch)) if before.state.epoch else None
    if epoch is not None:
        run.drive(replay(before.log.pinned(epoch)))
        assert run.world == before


@pytest.mark.slow
@settings(DETERMINISTIC, max_examples=60)
@given(scenarios(max_events=10, points=()), st.lists(st.sampled_from(CRASH_POINTS), min_size=1, max_size=8))
def test_zombies_never_commit_after_their_successor(scenario: Scenario, points: list[str]) -> None:
    """I5: attempts stopped at any point of any epoch wake up after later epochs, and nothing changes."""
    run = OrchestratedRun(scenario)
    stops = iter(points)
    for event in [*scenario.events, Barrier(1), Barrier(1)]:
        if isinstance(event, Barrier) and (point := next(stops, None)) is not None:
            run.crash(point, event)
        run.play([event])
    for zombie in run.attempts:
        before = run.world
        run.drive(zombie)
        assert run.world == before


# --- the semantics that a port must not miss ------------------------------------------------------


def test_not_started_drops_every_change() -> None:
    """Semantics 3: with no position, a paused epoch advances the version and leaves the view empty."""
    run = OrchestratedRun(Scenario(ID, table(1), ()))
    run.write(Write((Insert(Row((0,))), Update((1,), Row((1,), amount=5)))))
    run.run(Barrier(paused=True))
    assert run.world.state == State(epoch=1, version=1, progress=NOT_STARTED)
    assert run.world.view.rows() == {}


@pytest.mark.parametrize("held", [Barrier(rate_limit=0), Barrier(paused=True)])
def test_a_held_epoch_applies_changes(held: Barrier) -> None:
    """I4: paused or throttled to 0, no snapshot is read and changes up to the old position go through."""
    run = OrchestratedRun(Scenario(ID, table(1, 2, 3), ()))
    run.run(Barrier(rate_limit=2))
    run.write(Write((Update((1,), Row((1,), amount=10)), Delete((2,)), Update((3,), Row((0,), amount=30)))))
    run.run(held)
    assert run.world.view.rows() == {(0,): (3000,), (1,): (1000,)}
    assert run.world.state.progress == at(2)


def test_a_row_that_crosses_the_position_is_neither_lost_nor_doubled() -> None:
    """
    Semantics 5: re-keyed from before the position to after it and back, also within the chunk being read.
    """
    run = OrchestratedRun(Scenario(ID, table(1, 2, 3, 4), ()))
    run.run(Barrier(rate_limit=2))
    run.write(Write((Update((1,), Row((5,), amount=1)), Update((4,), Row((0,), amount=4)))))
    run.run(Barrier(rate_limit=1))
    assert run.world.view.rows() == {(0,): (400,), (2,): (200,), (3,): (300,)}
    run.finish()
    assert run.world.view.rows() == {(0,): (400,), (2,): (200,), (3,): (300,), (5,): (100,)}


def test_rows_enter_and_leave_the_filter() -> None:
    """
    Semantics 6: a row that no longer passes the query's filter leaves the view, and one that now does comes.
    """
    run = OrchestratedRun(Scenario(ID, (Row((1,), "paid", 1), Row((2,), "open", 2)), ()))
    run.finish()
    run.write(Write((Update((1,), Row((1,), "open", 1)), Update((2,), Row((2,), "paid", 2)))))
    run.run(Barrier())
    assert run.world.view.rows() == {(2,): (200,)}


def test_an_empty_upstream_is_completed_at_once() -> None:
    """Semantics 7: one epoch without rows completes; the next one lets all changes through."""
    run = OrchestratedRun(Scenario((KeyColumn("a"), KeyColumn("b")), (), ()))
    run.run(Barrier(rate_limit=1))
    assert run.world.state == State(epoch=1, version=0, progress=COMPLETED)
    run.write(Write((Insert(Row((None, None), amount=1)),)))
    run.run(Barrier(rate_limit=1))
    assert run.world.view.rows() == {(None, None): (100,)}


def test_the_rest_may_vanish_while_paused() -> None:
    """I4, semantics 4: when no row is left after the position, one epoch that is not paused completes."""
    run = OrchestratedRun(Scenario(ID, table(1, 2), ()))
    run.run(Barrier(rate_limit=1))
    run.write(Write((Delete((2,)),)))
    run.run(Barrier(paused=True))
    assert run.world.state.progress == at(1)
    run.run(Barrier(rate_limit=1))
    assert run.world.state == State(epoch=3, version=1, progress=COMPLETED, row_count=1)


def test_a_null_key_is_a_position() -> None:
    """Semantics 7: a position at the null key differs from a scan that has not started."""
    run = OrchestratedRun(Scenario(ID, table(None, 1), ()))
    run.run(Barrier(rate_limit=1))
    assert run.world.state.progress == at(None) != NOT_STARTED
    run.write(Write((Delete((None,)),)))
    run.run(Barrier(paused=True))
    assert run.world.view.rows() == {}


def test_a_singleton_has_one_row_and_no_key() -> None:
    """Semantics 8: a keyless upstream is completed by its one row, and kept fresh."""
    run = OrchestratedRun(Scenario((), (Row((), amount=1),), ()))
    run.run(Barrier(rate_limit=1))
    assert run.world.state.progress == COMPLETED
    run.write(Write((Update((), Row((), amount=2)),)))
    run.run(Barrier())
    assert run.world.view.rows() == {(): (200,)}


def test_a_window_without_versions_still_reads() -> None:
    """I4: epochs over an upstream that stands still advance the position and apply nothing."""
    run = OrchestratedRun(Scenario(ID, table(1, 2), ()))
    run.run(Barrier(rate_limit=1))
    run.run(Barrier(rate_limit=1))
    assert run.world.state == State(epoch=2, version=0, progress=COMPLETED, row_count=2)
    assert run.world.log.entries == (LogEntry(1, 1, 0), LogEntry(2, 1, 0))


def test_a_position_may_lie_where_no_row_is() -> None:
    """
    Semantics 4: a boundary is any point of the key space; a row that appears at or before it is a change.
    """
    run = OrchestratedRun(Scenario(ID, table(1, 3, 5), ()), planner=plan_between_rows)
    run.write(Write((Delete((3,)),)))
    run.run(Barrier(rate_limit=1))
    assert run.world.state.progress == at(3)
    run.write(Write((Insert(Row((2,), amount=2)), Insert(Row((3,), amount=3)), Insert(Row((4,), amount=4)))))
    run.run(Barrier(rate_limit=1))
    assert run.world.log.entries[-1] == LogEntry(epoch=2, snapshot_rows=1, upstream_rows=2)
    assert run.world.view.rows() == {(1,): (100,), (2,): (200,), (3,): (300,), (4,): (400,)}


def test_a_late_injector_adopts_a_committed_epoch() -> None:
    """I5: an injector that read the state long ago loses the pin, and its run is a no-op."""
    run = OrchestratedRun(Scenario(ID, table(1, 2, 3), ()))
    slow = Attempt(settings=Barrier(rate_limit=3))
    for _ in range(2):
        slow = run.step(slow)
    plan = run.run(Barrier(rate_limit=1))
    run.play([Crash("before_changes_commit", Barrier(rate_limit=1))])
    before = run.world
    assert run.drive(slow) == plan
    assert (run.world.view, run.world.state) == (before.view, before.state)
    assert run.world.log.entries == before.log.entries
    # Its candidate is the last in the log by now, and does not hide the epoch that is pinned.
    candidates = run.world.log.candidates
    assert run.run(Barrier()).epoch == 2
    assert run.world.log.candidates == candidates
