"""The classical executor is right, in all that its guide and its code promise: so it can be the oracle."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.checks import DETERMINISTIC, find_violation
from tests.model.classical import Checkpoint, StateRow
from tests.model.runs import ClassicalRun
from tests.model.truth import NOT_STARTED, Query, everything, paid_in_cents
from tests.strategies import (
    Barrier,
    Delete,
    Insert,
    Key,
    KeyColumn,
    Row,
    Scenario,
    Update,
    Write,
    key_columns,
    scenarios,
)

PACES = st.lists(st.integers(0, 5), min_size=1, max_size=5)
QUERIES = st.sampled_from([paid_in_cents, everything])
ID = (KeyColumn("id"),)


def table(*ids: int | None) -> tuple[Row, ...]:
    return tuple(Row((id_,), amount=id_) for id_ in ids)


@pytest.mark.slow
@settings(DETERMINISTIC, max_examples=150)
@given(scenarios(), QUERIES, PACES)
def test_view_is_true_after_every_barrier(scenario: Scenario, query: Query, pace: list[int]) -> None:
    """
    I1, I3: whatever is written, paused, throttled or crashed, and at the end the view is the query's result.
    """
    run = ClassicalRun(scenario, query, pace)
    run.play(scenario.events)
    run.finish()
    everything_now = run.upstream.as_of(run.upstream.latest)
    assert run.checkpoint.view == {key: out for key, row in everything_now.items() if (out := query(row)) is not None}


@pytest.mark.slow
@DETERMINISTIC
@given(scenarios(points=()), st.integers(1, 3), PACES)
def test_finishes_within_rows_per_barrier(scenario: Scenario, rate_limit: int, pace: list[int]) -> None:
    """I4: at least one row per barrier that is not paused, so rows and writes bound the number of epochs."""
    writes = [event for event in scenario.events if isinstance(event, Write)]
    run = ClassicalRun(Scenario(scenario.columns, scenario.initial, (Barrier(rate_limit),)), pace=pace)
    for write in writes:
        run.play([write, Barrier(rate_limit)])
    run.finish(rate_limit)
    rows = len(scenario.initial) + sum(len(write.operations) for write in writes)
    assert run.barriers <= rows + len(writes) + 2


@pytest.mark.parametrize("rate_limit", [1, 2, 10**9, None])
def test_one_row_per_barrier_without_any_time(rate_limit: int | None) -> None:
    """I4: barriers that leave no time for the snapshot still force one row each."""
    run = ClassicalRun(Scenario(ID, table(1, 2, 3), (Barrier(rate_limit),)), pace=[0])
    for position in [(1,), (2,), (3,)]:
        run.barrier(Barrier(rate_limit))
        assert run.checkpoint.state_row == StateRow(position, finished=False, row_count=position[0])
    assert run.finish() == 1


@pytest.mark.parametrize("held", [Barrier(rate_limit=0), Barrier(paused=True), Barrier(rate_limit=0, paused=True)])
def test_a_held_backfill_applies_changes_and_reads_nothing(held: Barrier) -> None:
    """I4: paused or throttled to 0, no snapshot is read; the rows that were read are kept fresh."""
    run = ClassicalRun(Scenario(ID, table(1, 2, 3), (Barrier(1),)))
    run.barrier(held)
    run.upstream.write(Write((Update((1,), Row((1,), amount=10)), Insert(Row((0,), amount=0)), Delete((2,)))))
    run.barrier(held)
    assert run.checkpoint.view == {(0,): (0,), (1,): (1000,)}
    assert run.checkpoint.row_count == 1
    run.barrier(Barrier(1))
    assert run.checkpoint.row_count == 1, "a mutation holds from the next epoch on"
    run.barrier(Barrier(1))
    assert run.checkpoint.row_count == 2


def test_a_job_held_from_the_start_drops_all_changes() -> None:
    """Semantics 3: with no position yet, no change goes through, and no state is written."""
    run = ClassicalRun(Scenario(ID, table(1), (Barrier(paused=True),)))
    run.upstream.write(Write((Insert(Row((0,))),)))
    run.barrier(Barrier(paused=True))
    assert run.checkpoint == Checkpoint(version=1)
    assert run.checkpoint.progress == NOT_STARTED


@pytest.mark.parametrize("pace", [[0], [1], [9]])
def test_an_empty_upstream_is_completed_at_once(pace: list[int]) -> None:
    """
    Semantics 7: an empty snapshot finishes at the first barrier, and what arrives in that epoch is not lost.
    """
    run = ClassicalRun(Scenario((KeyColumn("a"), KeyColumn("b")), (), ()), pace=pace)
    run.upstream.write(Write((Insert(Row((1, None), amount=1)),)))
    run.barrier(Barrier())
    assert run.checkpoint.state_row == StateRow((None, None), finished=True, row_count=0)
    assert run.checkpoint.view == {(1, None): (100,)}


def test_a_null_key_is_a_position() -> None:
    """Semantics 7: a scan that stands at the null key has a position, unlike one that has not begun."""
    run = ClassicalRun(Scenario(ID, table(None, 1), (Barrier(1),)))
    run.barrier(Barrier(1))
    assert run.checkpoint.state_row == StateRow((None,), finished=False, row_count=1)
    run.upstream.write(Write((Update((None,), Row((None,), amount=5)), Update((1,), Row((1,), amount=7)))))
    run.crash()
    run.barrier(Barrier(1))
    assert run.checkpoint.view == {(None,): (500,), (1,): (700,)}


def test_a_singleton_has_one_row_and_no_key() -> None:
    """Semantics 8: a keyless upstream of one row is read once."""
    run = ClassicalRun(Scenario((), (Row((), amount=1),), (Barrier(1),)), pace=[0])
    run.barrier(Barrier(1))
    run.upstream.write(Write((Update((), Row((), amount=2)),)))
    run.finish(1)
    assert run.checkpoint.view == {(): (200,)}
    assert run.checkpoint.row_count == 1


def test_state_is_written_only_when_it_changed() -> None:
    """Semantics 12: a held barrier and one after the end leave the state table alone."""
    run = ClassicalRun(Scenario(ID, table(1, 2), (Barrier(1),)))
    written = []
    for mutation in [
        Barrier(paused=True),
        Barrier(paused=True),
        Barrier(1),
        Barrier(1),
        Barrier(1),
        Barrier(1),
    ]:
        run.barrier(mutation)
        written.append(run.checkpoint.state_writes)
    assert written == [1, 1, 1, 2, 3, 3]


def test_recovery_goes_on_from_the_persisted_position() -> None:
    """
    I2, semantics 9: an epoch that died leaves nothing; position and row count are those of the last barrier.
    """
    run = ClassicalRun(Scenario(ID, table(1, 2, 3, 4), (Barrier(2),)), pace=[2])
    run.barrier(Barrier(2))
    committed = run.checkpoint
    run.upstream.write(Write((Delete((2,)), Insert(Row((5,), amount=5)))))
    run.crash()
    assert run.checkpoint == committed
    run.barrier(Barrier(2))
    assert run.checkpoint.state_row == StateRow((4,), finished=False, row_count=4)
    assert run.checkpoint.view == {(1,): (100,), (3,): (300,), (4,): (400,)}


def test_a_finished_job_reports_so_after_every_recovery() -> None:
    """Semantics 10: the receiver forgets it in a crash, so it is reported again; nothing is read again."""
    run = ClassicalRun(Scenario(ID, table(1), ()))
    run.finish()
    finished = run.checkpoint
    run.crash()
    reports = [run.executor.reported_finished]
    run.barrier(Barrier())
    reports.append(run.executor.reported_finished)
    assert reports == [False, True]
    assert run.checkpoint == finished


def test_the_original_loses_rows_at_a_forced_end() -> None:
    """
    Negative control for I1: if the end found by a forced read leaves the epoch's changes filtered, rows are lost.
    """
    scenario = Scenario(ID, table(1), (Barrier(1),))
    views: dict[bool, dict[Key, object]] = {}
    for drained in (True, False):
        run = ClassicalRun(scenario, pace=[0], drain_at_forced_end=drained)
        run.barrier(Barrier(1))
        run.upstream.write(Write((Insert(Row((2,), amount=2)),)))
        run.barrier(Barrier(1))
        views[drained] = dict(run.checkpoint.view)
    assert views == {True: {(1,): (100,), (2,): (200,)}, False: {(1,): (100,)}}


@pytest.mark.slow
def test_a_search_finds_what_the_original_loses() -> None:
    """Negative control for I1: random scenarios find that loss, too."""

    def play(example: tuple[Scenario, list[int]]) -> None:
        scenario, pace = example
        run = ClassicalRun(scenario, everything, pace, drain_at_forced_end=False)
        run.play(scenario.events)
        run.finish()

    one_key = scenarios(columns=key_columns(types=["long"], max_columns=1))
    assert find_violation(st.tuples(one_key, PACES), play).startswith("I1 truth: lost")
