"""Our order of operations over a database that shows its present rows only: exact after every epoch."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.cdc_attempts import POINTS, Attempt
from tests.model.cdc_database import Mark
from tests.model.cdc_runs import ClassicalCdcRun, History, Move, OrchestratedCdcRun, cdc_histories
from tests.model.checks import DETERMINISTIC
from tests.model.tables import State
from tests.model.truth import COMPLETED, NOT_STARTED, Phase, Progress, Query, everything, paid_in_cents
from tests.strategies import Barrier, Delete, Insert, KeyColumn, Row, Update, Write

QUERIES = st.sampled_from([paid_in_cents, everything])
MOVES = st.lists(
    st.sampled_from(
        [*["step"] * 6, *["other"] * 2, "write", "write unseen", "show", "repeat", "die", "deliver", *["barrier"] * 2]
    ),
    max_size=80,
)
BACK = st.lists(st.sampled_from([0, 0, 1, 2]), min_size=1, max_size=3)
ID = (KeyColumn("id"),)
ONE_ROW = Barrier(rate_limit=1)


def table(*ids: int) -> tuple[Row, ...]:
    return tuple(Row((id_,), amount=id_) for id_ in ids)


def amount(id_: int, amount: int) -> Update:
    return Update((id_,), Row((id_,), amount=amount))


def at(key: int) -> Progress:
    return Progress(Phase.IN_PROGRESS, (key,))


def write(run: OrchestratedCdcRun, *, seen: bool = True) -> None:
    run.change(run.writer.write(run.world.database, seen=seen))


@pytest.mark.slow
@settings(DETERMINISTIC, max_examples=200)
@given(cdc_histories(), QUERIES, MOVES, BACK)
def test_view_is_true_after_every_epoch(history: History, query: Query, moves: list[Move], back: list[int]) -> None:
    """
    I1, I2, I3: two attempts that overlap, die and repeat tasks, commits that nobody sees yet, windows in the past.
    """
    run = OrchestratedCdcRun(history, query, back=back)
    run.play(moves)
    run.finish(rate_limit=2)
    now = run.job.upstream.as_of(run.job.upstream.latest)
    assert run.world.view.rows() == {key: out for key, row in now.items() if (out := query(row)) is not None}
    epochs = [reading.epoch for reading in run.world.readings]
    assert epochs == sorted(set(epochs)), "one reading for each epoch"


@pytest.mark.slow
@DETERMINISTIC
@given(cdc_histories(), QUERIES, MOVES)
def test_both_orders_end_with_the_same_view(history: History, query: Query, moves: list[Move]) -> None:
    """I1: the oracle and our order give the same view of the same history."""
    classical, ours = ClassicalCdcRun(history, query), OrchestratedCdcRun(history, query)
    # The oracle loses commits that are not seen yet.
    classical.play("write" if move == "write unseen" else move for move in moves)
    ours.play(moves)
    for run in (classical, ours):
        run.finish()
    assert ours.world.view.rows() == classical.checkpoint.view


@pytest.mark.slow
@DETERMINISTIC
@given(cdc_histories(max_versions=0), st.integers(1, 3))
def test_finishes_within_rows_per_rate_limit(history: History, rate_limit: int) -> None:
    """I4: one epoch reads ahead first; the rest is as many as the rows need at this rate."""
    run = OrchestratedCdcRun(history)
    run.attempts = []
    assert run.finish(rate_limit) <= len(history.initial) // rate_limit + 2
    entries = run.world.log.entries
    assert all(entry.snapshot_rows <= rate_limit for entry in entries)
    assert sum(entry.snapshot_rows for entry in entries) == run.world.state.row_count == len(history.initial)


@pytest.mark.parametrize("deaths", [1, 2])
@pytest.mark.parametrize("point", POINTS.values())
def test_an_epoch_recovers_after_a_death_anywhere(point: str, deaths: int) -> None:
    """I2: and what is written meanwhile is in this epoch or in a later one."""
    writes = (
        Write((amount(1, 10), Delete((3,)))),
        Write((amount(2, 20), Insert(Row((3,), amount=30)))),
        Write((Update((1,), Row((5,), amount=11)), amount(4, 40))),
    )
    run = OrchestratedCdcRun(History(ID, table(1, 2, 3, 4), writes))
    run.run(Barrier(rate_limit=2))
    write(run)
    for _ in range(deaths):
        stopped = run.drive(Attempt(settings=Barrier(rate_limit=2)), to=point)
        assert stopped.stands_at == point
        write(run)
    run.attempts = []
    run.run(ONE_ROW)
    assert run.world.state.epoch == 2
    run.finish()


def test_the_first_epoch_only_reads_ahead() -> None:
    """ADR 0032: its rows are appended by the next one, with the changes since."""
    run = OrchestratedCdcRun(History(ID, table(1, 2, 3), (Write((amount(1, 10), amount(3, 30))),)))
    run.run(ONE_ROW)
    assert run.world.state == State(epoch=1, version=0, progress=NOT_STARTED)
    (reading,) = run.world.readings
    assert ([row.key for row in reading.rows], reading.changes_after) == ([(1,)], 0)
    assert run.world.database.log == (Mark(1),)
    write(run)
    run.run(ONE_ROW)
    assert run.world.state == State(epoch=2, version=2, progress=at(1), row_count=1)
    assert run.world.view.rows() == {(1,): ("paid", 10)}


def test_a_row_may_be_newer_than_the_lower_offset() -> None:
    """I1: a reader, or a task that is repeated, saw changes that are applied again."""
    run = OrchestratedCdcRun(History(ID, table(1, 2), (Write((amount(1, 10),)), Write((amount(1, 20), amount(2, 21))))))
    attempt = run.drive(Attempt(settings=Barrier()), to="before_read_ahead_commit")
    write(run)
    attempt = run.read_again(attempt)
    run.drive(attempt)
    (reading,) = run.world.readings
    assert ([row.amount for row in reading.rows], reading.changes_after) == ([10, 2], 0)
    write(run)
    run.run(Barrier())
    assert run.world.view.rows() == {(1,): ("paid", 20), (2,): ("paid", 21)}


def test_a_commit_that_nobody_sees_yet_lowers_the_offset() -> None:
    """I1: it is in the log before the reading, and in no row that was read."""
    run = OrchestratedCdcRun(History(ID, table(1, 2), (Write((amount(2, 20),)), Write((amount(1, 10),)))))
    write(run, seen=False)
    write(run)
    run.run(Barrier())
    (reading,) = run.world.readings
    assert ([row.amount for row in reading.rows], reading.changes_after) == ([10, 2], 0)
    run.run(Barrier())
    assert run.world.view.rows() == {(1,): ("paid", 10), (2,): ("paid", 20)}


def test_a_window_that_ends_before_the_reading_waits_with_its_rows() -> None:
    """I1: a row that was read may be newer than such a window."""
    run = OrchestratedCdcRun(History(ID, table(1), (Write((amount(1, 10),)),)))
    attempt = run.drive(Attempt(settings=Barrier()), to="before_read_ahead_commit")
    write(run)
    run.drive(run.read_again(attempt))
    run.run(Barrier(), back=1)
    assert run.world.state.progress == NOT_STARTED
    run.run(Barrier())
    assert run.world.state.progress == COMPLETED
    assert run.world.view.rows() == {(1,): ("paid", 10)}


def test_an_empty_table_is_completed_by_the_second_epoch() -> None:
    """Semantics 7: that nothing was read ahead is something else than that nothing is there."""
    run = OrchestratedCdcRun(History(ID, (), (Write((Insert(Row((1,), amount=1)),)),)))
    run.run(ONE_ROW)
    run.run(ONE_ROW)
    assert run.world.state.progress == COMPLETED
    write(run)
    run.run(ONE_ROW)
    assert run.world.view.rows() == {(1,): ("paid", 1)}


def test_a_held_backfill_reads_nothing_and_applies_changes() -> None:
    """I4: paused or throttled to 0, no row is read ahead or appended."""
    run = OrchestratedCdcRun(History(ID, table(1, 2, 3), (Write((amount(1, 10), amount(2, 20))),)))
    run.run(ONE_ROW)
    run.run(ONE_ROW)
    read = run.world.readings
    write(run)
    for held in (Barrier(paused=True), Barrier(rate_limit=0)):
        run.run(held)
        assert (run.world.state.progress, run.world.readings) == (at(1), read)
        assert run.world.view.rows() == {(1,): ("paid", 10)}
    run.finish()
