"""The classical cdc executor is right in what it promises, and what it rests on is needed: so it can be the oracle."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.cdc_classical import CdcState, Event, Rules, get_cdc_chunk_last_offset, mark_cdc_chunk
from tests.model.cdc_runs import ClassicalCdcRun, History, Move, cdc_histories
from tests.model.checks import DETERMINISTIC, find_violation
from tests.model.truth import InvariantError, Query, everything, paid_in_cents
from tests.model.upstream import Change, ChangeType, KeyOrder
from tests.strategies import Barrier, Delete, Insert, KeyColumn, Row, Update, Write, key_columns

QUERIES = st.sampled_from([paid_in_cents, everything])
MOVES = st.lists(
    st.sampled_from(["write", "write", "poll", "poll", "deliver", "deliver", "barrier", "die"]), max_size=60
)
CHUNKS = st.lists(st.integers(1, 3), min_size=1, max_size=3)
ID = (KeyColumn("id"),)


def table(*ids: int) -> tuple[Row, ...]:
    return tuple(Row((id_,), amount=id_) for id_ in ids)


def amount(id_: int, amount: int) -> Update:
    return Update((id_,), Row((id_,), amount=amount))


@pytest.mark.slow
@settings(DETERMINISTIC, max_examples=150)
@given(cdc_histories(), QUERIES, MOVES, CHUNKS)
def test_view_is_true_once_all_changes_have_passed(
    history: History, query: Query, moves: list[Move], chunks: list[int]
) -> None:
    """I1, I3: whatever is written while it reads, however the stream lags, and whatever dies."""
    run = ClassicalCdcRun(history, query, chunk=chunks)
    run.play(moves)
    run.finish()
    now = run.writer.upstream.as_of(run.writer.upstream.latest)
    assert run.checkpoint.view == {key: out for key, row in now.items() if (out := query(row)) is not None}


def test_a_chunk_is_marked_by_offset_and_position() -> None:
    """Semantics 14: an event at the last offset comes through, an earlier one or one beyond the position doesn't."""
    events = [Event(offset, Change(0, ChangeType.INSERT, Row((id_,)))) for offset, id_ in [(4, 1), (5, 2), (6, 3)]]
    order = KeyOrder(ID)
    assert mark_cdc_chunk(events, (2,), 5, order.at_or_before) == [events[1]]
    assert mark_cdc_chunk(events, (9,), None, order.at_or_before) == events
    assert get_cdc_chunk_last_offset(events) == 6
    assert get_cdc_chunk_last_offset([]) is None


def test_the_rows_of_a_chunk_are_newer_than_the_rest() -> None:
    """The view is exact only when the stream has caught up; that is what our order of operations does not do."""
    run = ClassicalCdcRun(History(ID, table(1, 2), (Write((amount(1, 10), amount(2, 20))),), (Barrier(1),)))
    run.barrier(Barrier(1))
    run.play(["write", "poll", "barrier"])
    assert run.checkpoint.view == {(1,): ("paid", 1), (2,): ("paid", 20)}
    run.play(["deliver", "barrier"])
    assert run.checkpoint.view == {(1,): ("paid", 10), (2,): ("paid", 20)}


def test_changes_pass_unfiltered_once_the_end_was_found() -> None:
    """Semantics 3: a row that appeared after the last position is in no chunk that will ever be read."""
    writes = (Write((Insert(Row((2,), amount=2)),)), Write((Delete((1,)),)))
    run = ClassicalCdcRun(History(ID, table(1), writes, (Barrier(),)))
    run.play(["poll", "poll", "write", "deliver", "barrier", "write", "deliver", "barrier"])
    assert run.checkpoint.state.finished
    assert run.checkpoint.view == {(2,): ("paid", 2)}


def test_an_empty_table_is_finished_at_the_first_barrier() -> None:
    """Semantics 7."""
    run = ClassicalCdcRun(History(ID, (), (Write((Insert(Row((1,), amount=1)),)),)))
    run.barrier(Barrier())
    assert run.checkpoint.state == CdcState(last_cdc_offset=1, finished=True)
    run.play(["write", "deliver", "barrier"])
    assert run.checkpoint.view == {(1,): ("paid", 1)}


def test_the_last_offset_survives_a_crash() -> None:
    """I2: the state has the offset of the last chunk that was consumed, and recovery goes on from there."""
    history = History(ID, table(1, 2, 3), (Write((amount(1, 10),)), Write((amount(1, 20),))), (Barrier(1),))
    run = ClassicalCdcRun(history)
    run.play(["write", "deliver", "barrier"])
    committed = run.checkpoint
    assert committed.state == CdcState(position=(1,), last_cdc_offset=1, row_count=1)
    run.play(["write", "deliver", "poll", "die"])
    assert run.checkpoint == committed
    run.finish()
    assert run.checkpoint.view == {(1,): ("paid", 20), (2,): ("paid", 2), (3,): ("paid", 3)}


def test_a_held_backfill_reads_nothing_and_applies_changes() -> None:
    """I4: paused or throttled to 0, the rows that were read are kept fresh."""
    held = Barrier(rate_limit=0)
    run = ClassicalCdcRun(History(ID, table(1, 2), (Write((amount(1, 10), amount(2, 20))),), (Barrier(1), held)))
    run.play(["poll", "barrier", "write", "deliver", "poll", "barrier"])
    assert run.checkpoint.state.row_count == 1
    assert run.checkpoint.view == {(1,): ("paid", 10)}


def test_a_commit_that_nobody_sees_yet_is_lost() -> None:
    """
    Negative control for I1: with synchronous replication the original's first offset is too late.

    A commit is in the log before it, and in no row that was read.
    """
    run = ClassicalCdcRun(History(ID, table(1), (Write((amount(1, 10),)),)))
    run.play(["write unseen", "die", "poll", "show", "deliver"])
    with pytest.raises(InvariantError, match="I1 truth"):
        run.play(["barrier"])


WEAKENED = {
    "changes are filtered by the position before the epoch": Rules(position="old"),
    "the first offset is taken after the first rows were read": Rules(first_offset="at the first barrier"),
}


@pytest.mark.slow
@pytest.mark.parametrize("rule", WEAKENED)
def test_a_search_finds_what_breaks_without_a_rule(rule: str) -> None:
    """Negative control for I1: the random histories are strong enough."""

    def play(example: tuple[History, list[Move], list[int]]) -> None:
        history, moves, chunks = example
        run = ClassicalCdcRun(history, rules=WEAKENED[rule], chunk=chunks)
        run.play(moves)
        run.finish()

    one_key = cdc_histories(columns=key_columns(types=["long"], max_columns=1))
    assert find_violation(st.tuples(one_key, MOVES, CHUNKS), play).startswith("I1 truth")
