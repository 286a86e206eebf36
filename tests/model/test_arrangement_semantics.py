"""The arrangement strategy and the semantics of the algorithm that a port must not miss."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.model.arranged_attempts import ARRANGED_POINTS
from tests.model.arranged_examples import ID, at, begun, ids, moved, table
from tests.model.arranged_job import by_amount, by_status, keys_as_arranged, keys_at_the_end
from tests.model.arranged_runs import ArrangedRun
from tests.model.arranged_tables import VnodeState
from tests.model.truth import COMPLETED, NOT_STARTED, everything, paid_in_cents
from tests.strategies import (
    Barrier,
    Crash,
    Delete,
    Insert,
    KeyColumn,
    Rescale,
    Row,
    Scenario,
    Update,
    Write,
)


def test_the_first_epoch_makes_the_base_once() -> None:
    """The base is the upstream as of the job's creation. What was written since is a change."""
    run = ArrangedRun(Scenario(ID, table(0, 1), ()), everything)
    run.write(Write((moved(1, 2), Delete((2,)), Insert(Row((3,), amount=0)))))
    plan = run.run(Barrier())
    assert (plan.after, plan.up_to, plan.parts) == (0, 1, ())
    assert run.world.arrangement.base == frozenset({((0, (1,)), table(0)[0]), ((1, (2,)), table(0, 1)[1])})
    assert {(line.position, line.row is None) for line in run.world.arrangement.changes} == {
        ((0, (1,)), True),
        ((1, (2,)), True),
        ((2, (1,)), False),
        ((0, (3,)), False),
    }
    run.run(Barrier())
    assert ids(run) == [1, 3]


@pytest.mark.parametrize("held", [Barrier(rate_limit=0), Barrier(paused=True)])
def test_a_held_epoch_applies_and_arranges_changes(held: Barrier) -> None:
    """I4: paused or throttled to 0, an epoch reads nothing. It applies changes of read rows and arranges the others."""
    run = begun(0, 0, 1, rate_limit=1)
    run.write(Write((moved(1, 3), moved(2, 6), moved(3, 4))))
    run.run(held)
    assert run.world.view.rows() == {(1,): ("paid", 3)}
    run.write(Write((Delete((2,)), moved(3, 7))))
    run.run(held)
    run.run(Barrier())
    assert run.world.view.rows() == {(1,): ("paid", 3), (3,): ("paid", 7)}


def test_not_started_in_progress_and_completed_filter_differently() -> None:
    """Semantics 3: each vnode's changes are filtered by its own progress before the epoch."""
    run = begun(0, 1, 1, 2, rate_limit=2)
    assert run.world.state.vnodes == (COMPLETED, at(2), NOT_STARTED)
    new = (Insert(Row((id_,), "paid", amount)) for id_, amount in [(10, 0), (0, 1), (11, 1), (12, 2)])
    run.write(Write(tuple(new)))
    run.run(Barrier(paused=True))
    assert ids(run) == [0, 1, 2, 10]
    run.run(Barrier())
    assert ids(run) == [0, 1, 2, 3, 4, 10, 11, 12]


def test_completed_and_not_started_vnodes_alone_go_on() -> None:
    """Semantics 4: a job without a vnode in progress is not done while a vnode has not started."""
    run = begun(0, 0, 1, 2, rate_limit=2)
    assert run.world.state.vnodes == (COMPLETED, NOT_STARTED, NOT_STARTED)
    run.run(Barrier(rate_limit=1))
    assert run.world.state.vnodes == (COMPLETED, COMPLETED, NOT_STARTED)
    run.run(Barrier(rate_limit=1))
    assert run.world.state.completed


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("rate_limit", [1, 2, None])
def test_a_row_that_moves_between_vnodes_is_neither_lost_nor_doubled(parallelism: int, rate_limit: int | None) -> None:
    """Semantics 5: a row moves out of a read vnode into a chunk of the same epoch, or the other way round, or both."""
    run = begun(0, 0, 1, 1, 2, 2, rate_limit=3)
    run.rescale(parallelism)
    assert run.world.state.vnodes == (COMPLETED, at(3), NOT_STARTED)
    run.write(Write((moved(1, 2), moved(6, 0), moved(3, 2), moved(5, 1))))
    run.run(Barrier(rate_limit))
    run.write(Write((moved(1, 0), moved(6, 2))))
    run.write(Write((moved(1, 1), moved(3, 0), moved(5, 2))))
    run.run(Barrier(rate_limit))
    run.finish(rate_limit)
    assert run.world.view.rows() == {(i,): ("paid", amount) for i, amount in enumerate((1, 0, 0, 1, 2, 2), 1)}


@pytest.mark.parametrize("point", [point for point in ARRANGED_POINTS if "state" not in point and "log" not in point])
def test_a_merge_that_finds_nothing_is_not_repeated(point: str) -> None:
    """
    I2: row 1 was read and did not pass the filter. In one epoch it moves to a vnode that is being read, and passes the
    filter there. The merge deletes nothing. Repeated after a crash, it would delete the row that the chunk wrote.
    """
    rows = (replace(table(0)[0], status="open"), *table(0, 1)[1:])
    run = ArrangedRun(Scenario(ID, rows, ()), paid_in_cents)
    run.run(Barrier(rate_limit=0))
    run.run(Barrier(rate_limit=1))
    run.write(Write((moved(1, 1),)))
    zombie = run.crash(point, Barrier())
    run.run(Barrier())
    run.drive(zombie)
    assert run.world.view.rows() == {(1,): (100,), (2,): (100,)}


def test_rows_that_move_into_a_chunk_exceed_the_rate_limit() -> None:
    """
    I4: an injector that sees the arrangement as of the window's *begin* does not know the rows that one update moves
    into the chunk. The table's row count does not show them, because it stays the same.
    """
    read = {}
    for known_keys in (keys_as_arranged, keys_at_the_end):
        run = ArrangedRun(Scenario(ID, table(0, *[1] * 9), ()), everything, known_keys=known_keys)
        run.run(Barrier(rate_limit=0))
        run.write(Write(tuple(moved(i, 0) for i in range(2, 11))))
        run.run(Barrier(rate_limit=1))
        read[known_keys.__name__] = run.world.log.entries[-1].snapshot_rows
    assert read == {"keys_as_arranged": 10, "keys_at_the_end": 1}


def test_the_distribution_key_may_be_what_the_query_filters_by() -> None:
    """Semantics 6: a row that enters or leaves the filter also moves between vnodes."""
    rows = (Row((1,), "paid", 1), Row((2,), "open", 2), Row((3,), None, 3))
    run = ArrangedRun(Scenario(ID, rows, ()), vnode_of=by_status)
    run.run(Barrier())
    run.run(Barrier(rate_limit=1))
    run.write(Write((Update((1,), Row((1,), "open", 1)), Update((2,), Row((2,), "paid", 2)))))
    run.run(Barrier(rate_limit=1))
    assert run.world.view.rows() == {(2,): (200,)}
    run.write(Write((Update((3,), Row((3,), "paid", 3)), Update((1,), Row((1,), None, 1)))))
    run.finish(rate_limit=1)
    assert run.world.view.rows() == {(2,): (200,), (3,): (300,)}


def test_an_empty_upstream_is_completed_with_the_first_epoch_that_reads() -> None:
    """Semantics 7: vnodes without rows complete along with others, without using the rate limit."""
    run = ArrangedRun(Scenario((KeyColumn("a"), KeyColumn("b")), (), ()))
    run.run(Barrier(rate_limit=1))
    run.run(Barrier(rate_limit=1))
    assert run.world.state == VnodeState(epoch=2, vnodes=(COMPLETED,) * 3, row_counts=(0,) * 3)
    run.write(Write((Insert(Row((None, None), amount=1)),)))
    run.run(Barrier(rate_limit=1))
    assert run.world.view.rows() == {(None, None): (100,)}


def test_a_null_key_is_a_position_of_its_vnode() -> None:
    """Semantics 7: the position at a vnode's null key differs from a vnode that has not started."""
    run = ArrangedRun(Scenario(ID, (Row((None,), amount=0), Row((1,), amount=0)), ()), vnode_of=by_amount)
    run.run(Barrier())
    run.run(Barrier(rate_limit=1))
    assert run.world.state.vnodes == (at(None), NOT_STARTED, NOT_STARTED)
    run.write(Write((Delete((None,)),)))
    run.run(Barrier(paused=True))
    assert run.world.view.rows() == {}


def test_a_singleton_moves_between_vnodes() -> None:
    """Semantics 8: the one row of a keyless upstream is in a vnode that is read, then in one that is not."""
    run = ArrangedRun(Scenario((), (Row((), amount=0),), ()))
    run.run(Barrier())
    run.write(Write((Update((), Row((), amount=1)),)))
    run.run(Barrier(rate_limit=1))
    run.write(Write((Update((), Row((), amount=2)),)))
    run.finish(rate_limit=1)
    assert run.world.view.rows() == {(): (200,)}


@pytest.mark.parametrize("point", ["after_pin", "after_snapshot_commit"])
def test_a_pinned_barrier_is_injected_again(point: str) -> None:
    """I2: after a crash the same plan is returned, although upstream, settings and parallelism have changed."""
    run = begun(0, 0, 1, 2)
    run.play([Crash(point, Barrier(rate_limit=2)), Rescale(3), Write((Delete((1,)), moved(2, 1)))])
    (crashed,) = run.attempts
    assert run.run(Barrier(rate_limit=1)) == crashed.plan
    assert run.world.state.vnodes == (COMPLETED, NOT_STARTED, NOT_STARTED)
    assert run.run(Barrier(rate_limit=1)).parallelism == 3
