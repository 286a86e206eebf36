"""The classical source executor and ours give the same view: every committed record once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.checks import DETERMINISTIC, find_violation
from tests.model.source_classical import Backfilling, Finished, SourceCachingUp
from tests.model.source_orchestrated import COMPLETED, Protocol
from tests.model.source_runs import CLASSICAL, OURS, PRODUCER, ClassicalSourceRun, Move, SourceRun, play
from tests.model.source_topic import Entry, Topic

SPLITS = st.lists(st.lists(st.sampled_from([Entry.RECORD, Entry.RECORD, Entry.GAP]), max_size=4).map(tuple), min_size=1)
TOPICS = SPLITS.map(lambda splits: Topic(tuple(splits[:4])))
VNODES = st.integers(1, 3)
MOVES = st.lists(
    st.tuples(st.sampled_from((*PRODUCER, *CLASSICAL, *OURS)), st.integers(0, 11), st.integers(0, 4)), max_size=60
)
OURS_ALONE = st.lists(
    st.tuples(st.sampled_from((*PRODUCER, *OURS)), st.integers(0, 11), st.integers(0, 4)), max_size=40
)


def topic_of(*lengths: int) -> Topic:
    return Topic(tuple((Entry.RECORD,) * length for length in lengths))


@pytest.mark.slow
@settings(DETERMINISTIC, max_examples=2000)
@given(TOPICS, VNODES, MOVES)
def test_every_committed_record_is_in_both_views_once(topic: Topic, vnodes: int, moves: list[Move]) -> None:
    """I1 to I5: whatever producers do, whoever dies between two commits, and whoever comes back."""
    play(topic, vnodes, moves)


@settings(DETERMINISTIC, max_examples=150)
@given(TOPICS, VNODES, MOVES)
def test_a_few_of_them(topic: Topic, vnodes: int, moves: list[Move]) -> None:
    """The same, in a second."""
    play(topic, vnodes, moves)


# --- the classical executor -----------------------------------------------------------------------


def states(run: ClassicalSourceRun, topic: Topic, moves: str) -> list[object]:
    """Return the state of the one split after each move: d(eliver), p(oll), b(arrier) or x for a crash."""
    kinds = {"d": "deliver", "p": "poll", "b": "barrier", "x": "die"}
    found = []
    for move in moves:
        run.move(topic, kinds[move], 0)
        found.append(run.executor.states[0])
    return found


def test_a_backfill_that_is_ahead_waits_for_the_source() -> None:
    topic = topic_of(1)
    run, topic = ClassicalSourceRun(topic), topic_of(4)
    assert states(run, topic, "pppddd") == [
        Backfilling(0),
        Backfilling(1),
        Backfilling(2),
        # The source brings offset 1: the backfill is ahead by one, stops, and offset 2 doesn't pass twice.
        SourceCachingUp(2),
        Finished(),
        Finished(),
    ]
    run.finish(topic)
    assert sorted(run.checkpoint.view.elements()) == [(0, 0), (0, 1), (0, 2), (0, 3)]


def test_a_backfill_that_is_behind_reads_up_to_where_the_source_is() -> None:
    run = ClassicalSourceRun(topic_of(1))
    assert states(run, topic_of(4), "dppd") == [Backfilling(None), Backfilling(0), SourceCachingUp(1), Finished()]


def test_a_backfill_that_ends_just_right_is_finished() -> None:
    run = ClassicalSourceRun(topic_of(1))
    assert states(run, topic_of(4), "ppd") == [Backfilling(0), Backfilling(1), Finished()]


def test_the_last_row_of_the_backfill_may_never_come_from_the_source() -> None:
    """Semantics 15: compaction has removed it, so the next one finishes the split, and passes."""
    run = ClassicalSourceRun(topic_of(1))
    assert states(run, topic_of(3), "dpp")[-1] == SourceCachingUp(1)
    run = ClassicalSourceRun(topic_of(1))
    states(run, topic_of(3), "pp")
    run.executor.states[0] = SourceCachingUp(1)
    compacted = topic_of(4).compacted(0, 1)
    assert states(run, compacted, "d") == [Finished()]
    assert run.executor.on_barrier(compacted).view[0, 2] == 1


def test_what_was_not_committed_is_read_again() -> None:
    run = ClassicalSourceRun(topic_of(3))
    assert states(run, topic_of(3), "pbppx") == [
        Backfilling(0),
        Backfilling(0),
        Backfilling(1),
        Backfilling(2),
        Backfilling(0),
    ]


def test_a_split_whose_source_is_silent_is_never_finished() -> None:
    """What the original leaves open, and ours does not: its chunk ends at the split's end."""
    topic = topic_of(3)
    run = ClassicalSourceRun(topic)
    run.finish(topic)
    assert (run.checkpoint.states[0], run.checkpoint.view.total()) == (Backfilling(2), 3)
    ours = SourceRun(topic, 1)
    ours.finish(topic)
    assert (ours.world.state.positions, ours.world.view.total()) == ((COMPLETED,), 3)


# --- ours -----------------------------------------------------------------------------------------


def test_a_worked_example() -> None:
    """Two splits in a vnode; rows are appended to both while the first one is read."""
    run = SourceRun(topic_of(3, 2), 1)
    run.run(2)
    assert (run.world.state.positions, sorted(run.world.view)) == (((0, 1),), [(0, 0), (0, 1)])
    run.move(topic_of(4, 3), "none", 0, 0)
    run.run(3)
    assert (run.world.state.positions, run.world.view.total()) == (((1, 0),), 5)
    # The first split is behind the position now: what is appended to it is a change.
    run.move(topic_of(6, 3), "none", 0, 0)
    run.run(1)
    assert (run.world.state.positions, run.world.view.total()) == (((1, 1),), 8)
    run.run(1)
    assert (run.world.state.positions, run.world.view.total()) == ((COMPLETED,), 9)


def test_a_paused_job_reads_nothing_and_lets_changes_through() -> None:
    """I4."""
    run = SourceRun(topic_of(1, 3), 2)
    run.run(2)
    assert run.world.state.positions == (COMPLETED, (1, 0))
    run.move(topic_of(2, 4), "none", 0, 0)
    run.run(0)
    assert (run.world.state.positions, sorted(run.world.view)) == ((COMPLETED, (1, 0)), [(0, 0), (0, 1), (1, 0)])


WEAKENED = {
    "changes are filtered by the position after the epoch": Protocol(changes_filtered_by="the new position"),
    "the chunk is read as of the window's beginning": Protocol(chunk_read_at="from"),
    "the place at the position is read again": Protocol(position_is_read=False),
    "a vnode is completed at the end that it had when the job was created": Protocol(
        completed_at="the end at creation"
    ),
    "a vnode waits for a record at its last place": Protocol(complete_with="a record at the last place"),
    "a split that is added begins at its end": Protocol(added_splits_begin="at their end"),
    "changes of splits before the position's own are dropped": Protocol(earlier_splits_are_read=False),
    "an attempt reads up to where the splits end now": Protocol(ends_are_pinned=False),
    "a retry writes again": Protocol(writes_have_ids=False),
}


@pytest.mark.slow
@pytest.mark.parametrize("rule", WEAKENED)
def test_a_search_finds_what_breaks_without_a_rule(rule: str) -> None:
    """Negative control: the random histories are strong enough."""
    found = find_violation(
        st.tuples(TOPICS, VNODES, OURS_ALONE), lambda example: play(*example, protocol=WEAKENED[rule])
    )
    progress = "I4 progress" if rule == "a vnode waits for a record at its last place" else "I1 truth"
    assert found.startswith(progress)
