"""Task runs that share an epoch of the arrangement strategy: which parts they read, and how they are rescaled."""

from __future__ import annotations

from itertools import permutations

import pytest

from tests.model.arranged_attempts import Attempt, Step
from tests.model.arranged_examples import ID, at, begun, ids
from tests.model.arranged_job import by_key
from tests.model.arranged_runs import WHOLE, ArrangedRun
from tests.model.arranged_tables import Range, VnodeState
from tests.model.tables import LogEntry
from tests.model.truth import COMPLETED, NOT_STARTED
from tests.strategies import (
    Barrier,
    Row,
    Scenario,
)

# --- crashes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_only_the_part_that_failed_is_read_again(order: tuple[int, ...]) -> None:
    """I2: parts come in any order, and one of them fails. The others keep what they wrote, the epoch waits for it."""
    run = begun(0, 1, 2, 0, 1, 2, parallelism=3)
    plan = run.drive(Attempt(settings=Barrier(rate_limit=3), only="changes"))
    assert [[covered.vnode for covered in part] for part in plan.parts] == [[0], [1], [2]]
    *others, failing = order
    failed = Attempt(settings=Barrier(), only=failing)
    while failed.next is not Step.COMMIT_PART:
        failed = run.step(failed)
    for part in others:
        run.drive(Attempt(settings=Barrier(), only=part))
    assert run.world.log.uncommitted() == plan
    assert ids(run) == sorted(part + 1 for part in others)
    written = run.world.view.version
    run.drive(Attempt(settings=Barrier(), only=failing))
    assert run.world.view.version == written + 1
    assert run.world.state == VnodeState(epoch=2, vnodes=(at(1), at(2), at(3)), row_counts=(1, 1, 1))
    assert run.world.log.entries[-1] == LogEntry(epoch=2, snapshot_rows=3, upstream_rows=0)
    after = run.world
    run.drive(failed)
    assert run.world == after


def test_a_part_waits_for_the_changes() -> None:
    """A task run for a part does nothing before the changes are reported."""
    run = begun(0, 1)
    run.crash("before_changes_commit", Barrier())
    before = run.world
    run.drive(Attempt(settings=Barrier(), only=0))
    assert run.world == before


# --- rescale --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "then"), [(1, 4), (4, 1), (2, 3), (4, 2)])
@pytest.mark.parametrize("done", [0, 1, 20, 37, 38, 39])
def test_a_rescale_takes_effect_at_the_next_barrier(first: int, then: int, done: int) -> None:
    """
    A job may be rescaled at any time, also when more than 90 % is done. The pinned barrier keeps its number of task
    runs. The next one has the new number, as far as there are vnodes for it. No row is read twice or left out.
    """
    rows = tuple(Row((id_,), "paid", id_) for id_ in range(40))
    run = ArrangedRun(Scenario(ID, rows, ()), vnode_of=by_key, sharing=[WHOLE, 1, 2])
    run.rescale(first)
    run.run(Barrier(rate_limit=0))
    if done:
        run.run(Barrier(rate_limit=done))
    run.crash("after_pin", Barrier(rate_limit=1))
    run.rescale(then)
    assert run.run(Barrier(rate_limit=9)).parallelism == first
    unfinished = sum(progress != COMPLETED for progress in run.world.state.vnodes)
    plan = run.run(Barrier(rate_limit=None))
    assert plan.parallelism == then
    assert len(plan.parts) == min(then, unfinished)
    assert run.world.state.completed
    assert sum(run.world.state.row_counts) == len(rows)


def test_a_task_run_completes_vnodes_in_progress_before_it_begins_others() -> None:
    """After a rescale to 1, a task run owns several vnodes in progress. It ends them in order, then begins others."""
    run = begun(0, 0, 1, 1, 2, 2, parallelism=2, rate_limit=2)
    assert run.world.state.vnodes == (at(1), at(3), NOT_STARTED)
    run.rescale(1)
    plan = run.run(Barrier(rate_limit=3))
    assert plan.parts == ((Range(0, (1,)), Range(1, (3,)), Range(2, None, (5,))),)
    assert run.world.state.vnodes == (COMPLETED, COMPLETED, at(5))


def test_fewer_rows_than_task_runs() -> None:
    """I4: with one row per epoch for three task runs, one of them reads in each epoch, until all rows are read."""
    run = begun(0, 1, 2, 0, 1, 2, parallelism=3)
    read = []
    while not run.world.state.completed:
        read.append(len(run.run(Barrier(rate_limit=1)).parts))
    assert read == [1] * 6


def test_a_task_run_gets_the_rows_that_another_does_not_need() -> None:
    """I4: the rate limit is shared fairly, not evenly."""
    run = begun(0, 1, 1, 1, 1, 2, parallelism=3)
    plan = run.run(Barrier(rate_limit=5))
    assert plan.parts == ((Range(0),), (Range(1, None, (4,)),), (Range(2),))
