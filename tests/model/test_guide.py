"""The developer guide's worked example, epoch by epoch, in both algorithms."""

from __future__ import annotations

from tests.model.classical import VNODES, StateRow
from tests.model.orchestrated import plan_by_rows
from tests.model.runs import ClassicalRun, OrchestratedRun
from tests.model.tables import LogEntry
from tests.model.truth import COMPLETED, Output, Phase, Progress
from tests.strategies import Barrier, Delete, Insert, Key, KeyColumn, Row, Scenario, Write


def row(id_: int, name: str) -> Row:
    return Row((id_,), status=name)


def name_of(upstream_row: Row) -> Output:
    """SELECT * FROM t, where t is (id, name)."""
    return (upstream_row.status,)


def view(**names: str) -> dict[Key, Output]:
    return {(int(id_[1:]),): (name,) for id_, name in names.items()}


TABLE = Scenario(
    columns=(KeyColumn("id"),),
    initial=(row(1, "a"), row(2, "b"), row(3, "c"), row(99, "zzz")),
    events=(Barrier(rate_limit=2),),
)
EPOCH_B = Write((Insert(row(4, "d")), Delete((1,)), Delete((99,)), Insert(row(100, "zzzz"))))


def test_classical_epochs() -> None:
    """
    I1: in epoch B rows 1 and 2 are read as of A, and of the changes only the delete of row 1 goes through.
    """
    run = ClassicalRun(TABLE, name_of, pace=[2])
    run.upstream.write(EPOCH_B)
    run.barrier(Barrier(rate_limit=2))

    assert run.executor.emitted == [("+", (1,), ("a",)), ("+", (2,), ("b",)), ("-", (1,), ("a",))]
    assert run.checkpoint.view == view(_2="b")

    # The next epoch continues after row 2, as of the end of B, where row 99 is gone and 4 and 100 have come.
    run.barrier(Barrier(rate_limit=None))
    assert run.checkpoint.view == view(_2="b", _3="c", _4="d")
    run.finish()
    assert run.checkpoint.view == view(_2="b", _3="c", _4="d", _100="zzzz")
    assert run.checkpoint.row_count == 5


def test_classical_state_is_the_same_for_all_vnodes() -> None:
    """The guide's state table: one position, written once per vnode; finished only with the last barrier."""
    run = ClassicalRun(TABLE, name_of, pace=[2])
    run.barrier(Barrier(rate_limit=None))
    assert run.checkpoint.state == dict.fromkeys(VNODES, StateRow((2,), finished=False, row_count=2))
    run.finish()
    assert run.checkpoint.state == dict.fromkeys(VNODES, StateRow((99,), finished=True, row_count=4))


def test_orchestrated_epochs() -> None:
    """I1: the same epoch in our order; the chunk is read after the changes, so that row 1 is never seen."""
    run = OrchestratedRun(TABLE, name_of, planner=plan_by_rows)
    run.write(EPOCH_B)

    plan = run.run(Barrier(rate_limit=1))
    assert (plan.after, plan.up_to) == (0, 1)
    assert (plan.old, plan.new) == (Progress(), Progress(Phase.IN_PROGRESS, (2,)))
    assert run.world.view.rows() == view(_2="b")
    assert run.world.log.entries == (LogEntry(epoch=1, snapshot_rows=1, upstream_rows=0),)

    # The next epoch: row 2 lies at the old position and is changed by the merge, row 3 comes with the chunk.
    run.write(Write((Delete((2,)), Insert(row(1, "again")), Insert(row(98, "yyy")))))
    plan = run.run(Barrier(rate_limit=1))
    assert plan.new == Progress(Phase.IN_PROGRESS, (3,))
    assert run.world.view.rows() == view(_1="again", _3="c")
    assert run.world.log.entries[-1] == LogEntry(epoch=2, snapshot_rows=1, upstream_rows=2)

    # The last chunk has no upper bound; afterwards changes alone keep the view fresh.
    assert run.run(Barrier()).new == COMPLETED
    run.write(Write((Delete((1,)), Insert(row(1000, "late")))))
    run.run(Barrier())
    assert run.world.view.rows() == view(_3="c", _4="d", _98="yyy", _100="zzzz", _1000="late")
    assert run.world.log.entries[-1] == LogEntry(epoch=4, snapshot_rows=0, upstream_rows=2)
    assert run.world.state.row_count == 5
