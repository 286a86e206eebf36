"""
The arrangement strategy, one epoch at a time: true, monotonic, making progress in each vnode, the same after any crash.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.arranged_runs import WHOLE, ArrangedRun, check_chunks
from tests.model.arranged_tables import Distribution, Range, VnodeState
from tests.model.arrangement import (
    ARRANGED_POINTS,
    VNODES,
    Attempt,
    KnownKeys,
    Step,
    by_amount,
    by_key,
    by_status,
    keys_as_arranged,
    keys_at_the_end,
    replay,
)
from tests.model.checks import DETERMINISTIC
from tests.model.runs import ClassicalRun
from tests.model.tables import LogEntry
from tests.model.truth import COMPLETED, NOT_STARTED, Phase, Progress, Query, everything, paid_in_cents
from tests.strategies import (
    CRASH_POINTS,
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
    rescaled,
    scenarios,
)

QUERIES = st.sampled_from([paid_in_cents, everything])
DISTRIBUTIONS = st.sampled_from(sorted(VNODES, key=lambda vnode_of: vnode_of.__name__))
KNOWLEDGE = st.sampled_from([keys_as_arranged, keys_at_the_end])
SHARING = st.lists(st.integers(WHOLE, 3), min_size=1, max_size=4)
SCENARIOS = rescaled(scenarios(points=ARRANGED_POINTS))
ID = (KeyColumn("id"),)


def table(*amounts: int, status: str = "paid") -> tuple[Row, ...]:
    """Rows 1, 2, …, whose vnode by amount is what the amounts say."""
    return tuple(Row((id_,), status, amount) for id_, amount in enumerate(amounts, 1))


def moved(id_: int, amount: int) -> Update:
    return Update((id_,), Row((id_,), "paid", amount))


def at(key: int | None) -> Progress:
    return Progress(Phase.IN_PROGRESS, (key,))


def begun(*amounts: int, rate_limit: int | None = None, parallelism: int = 1, query: Query = everything) -> ArrangedRun:
    """A run over some rows whose arrangement is made, and which has read so many rows."""
    run = ArrangedRun(Scenario(ID, table(*amounts), ()), query)
    run.rescale(parallelism)
    run.run(Barrier(rate_limit=0))
    if rate_limit is not None:
        run.run(Barrier(rate_limit))
    return run


def ids(run: ArrangedRun) -> list[int]:
    return sorted(int(str(key[0])) for key in run.world.view.rows())


@pytest.mark.slow
@settings(DETERMINISTIC, max_examples=150)
@given(SCENARIOS, QUERIES, DISTRIBUTIONS, KNOWLEDGE, SHARING, st.booleans())
def test_view_is_true_after_every_epoch(
    scenario: Scenario, query: Query, vnode_of: Distribution, known_keys: KnownKeys, sharing: list[int], made: bool
) -> None:
    """
    I1, I3, I4: whatever is written, moved, paused, throttled, rescaled or crashed, and however runs share an epoch.
    """
    run = ArrangedRun(scenario, query, vnode_of=vnode_of, known_keys=known_keys, sharing=sharing, made=made)
    run.play(scenario.events)
    run.finish()
    now = run.job.upstream.as_of(run.job.upstream.latest)
    assert run.world.view.rows() == {key: out for key, row in now.items() if (out := query(row)) is not None}
    assert [plan.epoch for plan in run.plans] == list(range(1, run.world.state.epoch + 1))


@pytest.mark.slow
@DETERMINISTIC
@given(SCENARIOS, QUERIES, DISTRIBUTIONS, SHARING)
def test_it_comes_to_the_same_end_as_the_oracle(
    scenario: Scenario, query: Query, vnode_of: Distribution, sharing: list[int]
) -> None:
    """I1: the classical executor and many positions give the same view of the same history."""
    classical = ClassicalRun(scenario, query)
    classical.play(event for event in scenario.events if not isinstance(event, Rescale))
    ours = ArrangedRun(scenario, query, vnode_of=vnode_of, sharing=sharing)
    ours.play(scenario.events)
    for run in (classical, ours):
        run.finish(rate_limit=2)
    assert ours.world.view.rows() == classical.checkpoint.view


@pytest.mark.slow
@DETERMINISTIC
@given(rescaled(scenarios(points=())), st.integers(1, 3), DISTRIBUTIONS, KNOWLEDGE, st.booleans())
def test_finishes_within_rows_per_rate_limit(
    scenario: Scenario, rate_limit: int, vnode_of: Distribution, known_keys: KnownKeys, made: bool
) -> None:
    """
    I4: as many epochs as the rows need at this rate, one for the end, and one if the base is still to be made; also
    with fewer rows per epoch than runs, and with writes and rescales all the time.
    """
    events = [event for event in scenario.events if not isinstance(event, Barrier)]
    run = ArrangedRun(scenario, vnode_of=vnode_of, known_keys=known_keys, made=made)
    epochs = 0
    while not run.world.state.completed:
        run.play(events[epochs : epochs + 1])
        run.run(Barrier(rate_limit))
        epochs += 1
    rows = len(scenario.initial) + sum(len(event.operations) for event in events if isinstance(event, Write))
    assert epochs <= rows // rate_limit + 1 + (not made)


@pytest.mark.slow
@DETERMINISTIC
@given(SCENARIOS, DISTRIBUTIONS)
def test_no_epoch_exceeds_the_rate_limit(scenario: Scenario, vnode_of: Distribution) -> None:
    """I4: all runs together stay within the limit, if the injector knows the rows as of the window's end."""
    run = ArrangedRun(scenario, vnode_of=vnode_of, known_keys=keys_at_the_end)
    run.play(scenario.events)
    run.finish(rate_limit=2)
    for plan, entry in zip(run.plans, run.world.log.entries, strict=True):
        if plan.settings.paused:
            assert entry.snapshot_rows == 0
        elif plan.settings.rate_limit is not None:
            assert entry.snapshot_rows <= plan.settings.rate_limit
    assert sum(run.world.state.row_counts) == sum(entry.snapshot_rows for entry in run.world.log.entries)


@pytest.mark.slow
@DETERMINISTIC
@given(SCENARIOS, DISTRIBUTIONS, KNOWLEDGE, SHARING)
def test_a_vnode_completes_alone_and_is_never_scanned_again(
    scenario: Scenario, vnode_of: Distribution, known_keys: KnownKeys, sharing: list[int]
) -> None:
    """Semantics 4: no key of a vnode is read twice; each run reads only its own vnodes, of which no other has any."""
    run = ArrangedRun(scenario, vnode_of=vnode_of, known_keys=known_keys, sharing=sharing)
    run.play(scenario.events)
    run.finish(rate_limit=1)
    for plan in run.plans:
        ranges = [covered for part in plan.parts for covered in part]
        assert len({covered.vnode for covered in ranges}) == len(ranges)
        for covered in ranges:
            before = plan.before[covered.vnode]
            assert before != COMPLETED
            assert covered.after == before.position
        owners = [
            {run for run, (first, last) in enumerate(plan.owned) if first <= covered.vnode <= last}
            for part in plan.parts
            for covered in part[:1]
        ]
        assert all(len(owner) == 1 for owner in owners)
        assert len(set(map(frozenset, owners))) == len(plan.parts) <= plan.parallelism


# --- crashes --------------------------------------------------------------------------------------


def outcome(run: ArrangedRun) -> tuple[object, ...]:
    """What an epoch leaves, in whatever order its parts were written."""
    world = run.world
    return world.view.bag, world.arrangement, world.state, world.log, world.reports


def test_the_points_are_the_protocols() -> None:
    """Every named point exists in the model, in the order in which an epoch passes them, and some more do."""
    assert tuple(point for point in ARRANGED_POINTS if point in CRASH_POINTS) == CRASH_POINTS


@settings(DETERMINISTIC, max_examples=25)
@given(rescaled(scenarios(max_events=7, points=())), DISTRIBUTIONS, QUERIES)
def test_an_epoch_is_the_same_after_a_crash_at_every_step(
    scenario: Scenario, vnode_of: Distribution, query: Query
) -> None:
    """
    I2: died once or twice at each step, then run again, whole or by runs that share it, parts in any order: rows,
    arrangement, state and log as without a crash, and the zombie changes nothing afterwards.
    """
    run = ArrangedRun(Scenario(scenario.columns, scenario.initial, ()), query, vnode_of=vnode_of)
    run.rescale(2)
    for event in scenario.events:
        if not isinstance(event, Barrier):
            run.play([event])
            continue
        zombie, undisturbed = Attempt(settings=event), None
        while not zombie.ended:
            zombie = run.step(zombie)
            midway = run.world
            if midway.log.uncommitted() is None:
                continue
            # The settings have changed meanwhile; the pinned barrier keeps its own.
            run.drive(Attempt(settings=Barrier(rate_limit=1, paused=True), first_part=1))
            undisturbed = outcome(run)
            run.world = midway
            plan = run.drive(Attempt(settings=Barrier(), only="changes"))
            for part in reversed(range(len(plan.parts))):
                run.drive(replay(plan, only=part))
            assert outcome(run) == undisturbed
            run.drive(zombie)
            assert outcome(run) == undisturbed
            run.world = midway
        assert outcome(run) == undisturbed


@pytest.mark.slow
@settings(DETERMINISTIC, max_examples=60)
@given(SCENARIOS, DISTRIBUTIONS, SHARING)
def test_a_replay_of_any_committed_epoch_is_a_no_op(
    scenario: Scenario, vnode_of: Distribution, sharing: list[int]
) -> None:
    """
    I2, I5: an epoch executed again long after, or its changes, or one part of it, changes nothing; what crashed wakes
    up and changes nothing, either.
    """
    run = ArrangedRun(scenario, everything, vnode_of=vnode_of, sharing=sharing)
    run.play(scenario.events)
    run.finish(rate_limit=2)
    before = run.world
    for plan in run.plans:
        for only in (None, "changes", *range(len(plan.parts))):
            run.drive(replay(plan, only=only))
    for zombie in run.attempts:
        run.drive(zombie)
    assert run.world == before
    check_chunks(run.job, run.world)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_only_the_part_that_failed_is_read_again(order: tuple[int, ...]) -> None:
    """I2: parts come in any order; one of them fails; what the others did stays, and the epoch waits for the last."""
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
    """A part's run that comes before the changes are reported does nothing at all."""
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
    Rescaled at any time, also when more than 90 % is done: the pinned barrier keeps its runs, the next one has the new
    number, as far as there are vnodes for it, and no row is read twice or left out.
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


def test_a_run_ends_vnodes_in_progress_before_it_begins_others() -> None:
    """After 4 → 1 a run owns several vnodes in progress; it goes on with them in order, and then begins new ones."""
    run = begun(0, 0, 1, 1, 2, 2, parallelism=2, rate_limit=2)
    assert run.world.state.vnodes == (at(1), at(3), NOT_STARTED)
    run.rescale(1)
    plan = run.run(Barrier(rate_limit=3))
    assert plan.parts == ((Range(0, (1,)), Range(1, (3,)), Range(2, None, (5,))),)
    assert run.world.state.vnodes == (COMPLETED, COMPLETED, at(5))


def test_fewer_rows_than_runs() -> None:
    """I4: with one row per epoch for three runs one of them reads, and in the end all of them have."""
    run = begun(0, 1, 2, 0, 1, 2, parallelism=3)
    read = []
    while not run.world.state.completed:
        read.append(len(run.run(Barrier(rate_limit=1)).parts))
    assert read == [1] * 6


def test_a_run_gets_what_another_does_not_need() -> None:
    """I4: the limit is shared fairly, not evenly."""
    run = begun(0, 1, 1, 1, 1, 2, parallelism=3)
    plan = run.run(Barrier(rate_limit=5))
    assert plan.parts == ((Range(0),), (Range(1, None, (4,)),), (Range(2),))


# --- the semantics that a port must not miss ------------------------------------------------------


def test_the_first_epoch_makes_the_base_once() -> None:
    """The base is the upstream as of the job's creation, whatever has been written since; what has is a change."""
    run = ArrangedRun(Scenario(ID, table(0, 1), ()), everything)
    run.write(Write((moved(1, 2), Delete((2,)), Insert(Row((3,), amount=0)))))
    plan = run.run(Barrier())
    assert (plan.after, plan.up_to, plan.parts) == (0, 1, ())
    assert run.world.arrangement.base == frozenset({((0, (1,)), table(0)[0]), ((1, (2,)), table(0, 1)[1])})
    assert {(line.place, line.row is None) for line in run.world.arrangement.changes} == {
        ((0, (1,)), True),
        ((1, (2,)), True),
        ((2, (1,)), False),
        ((0, (3,)), False),
    }
    run.run(Barrier())
    assert ids(run) == [1, 3]


@pytest.mark.parametrize("held", [Barrier(rate_limit=0), Barrier(paused=True)])
def test_a_held_epoch_applies_and_arranges_changes(held: Barrier) -> None:
    """I4: paused or throttled to 0, nothing is read; what was read is kept fresh, and what was not is arranged."""
    run = begun(0, 0, 1, rate_limit=1)
    run.write(Write((moved(1, 3), moved(2, 6), moved(3, 4))))
    run.run(held)
    assert run.world.view.rows() == {(1,): ("paid", 3)}
    run.write(Write((Delete((2,)), moved(3, 7))))
    run.run(held)
    run.run(Barrier())
    assert run.world.view.rows() == {(1,): ("paid", 3), (3,): ("paid", 7)}


def test_not_started_in_progress_and_completed_filter_differently() -> None:
    """Semantics 3: each vnode's changes by its own progress before the epoch."""
    run = begun(0, 1, 1, 2, rate_limit=2)
    assert run.world.state.vnodes == (COMPLETED, at(2), NOT_STARTED)
    new = (Insert(Row((id_,), "paid", amount)) for id_, amount in [(10, 0), (0, 1), (11, 1), (12, 2)])
    run.write(Write(tuple(new)))
    run.run(Barrier(paused=True))
    assert ids(run) == [0, 1, 2, 10]
    run.run(Barrier())
    assert ids(run) == [0, 1, 2, 3, 4, 10, 11, 12]


def test_completed_and_not_started_vnodes_alone_go_on() -> None:
    """Semantics 4: a job none of whose vnodes is in progress is not done while one has not started."""
    run = begun(0, 0, 1, 2, rate_limit=2)
    assert run.world.state.vnodes == (COMPLETED, NOT_STARTED, NOT_STARTED)
    run.run(Barrier(rate_limit=1))
    assert run.world.state.vnodes == (COMPLETED, COMPLETED, NOT_STARTED)
    run.run(Barrier(rate_limit=1))
    assert run.world.state.completed


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("rate_limit", [1, 2, None])
def test_a_row_that_moves_between_vnodes_is_neither_lost_nor_doubled(parallelism: int, rate_limit: int | None) -> None:
    """
    Semantics 5: out of a vnode that is read, into a chunk of the same epoch; and the other way round; and both.
    """
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
    I2: row 1 was read and did not pass the filter; in one epoch it moves to a vnode that is being read, and passes it
    there. The merge deletes nothing; if it was run again after a crash, it would delete what the chunk has brought.
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
    I4, what an injector cannot know that sees the arrangement as of the window's *begin*: rows that one update brings
    into the chunk. Their number does not show in the table's row count, for it stays the same.
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
    """Semantics 6: a row that enters or leaves the filter moves between vnodes as well."""
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
    """Semantics 7: vnodes without rows complete along with others, at no cost of the rate limit."""
    run = ArrangedRun(Scenario((KeyColumn("a"), KeyColumn("b")), (), ()))
    run.run(Barrier(rate_limit=1))
    run.run(Barrier(rate_limit=1))
    assert run.world.state == VnodeState(epoch=2, vnodes=(COMPLETED,) * 3, row_counts=(0,) * 3)
    run.write(Write((Insert(Row((None, None), amount=1)),)))
    run.run(Barrier(rate_limit=1))
    assert run.world.view.rows() == {(None, None): (100,)}


def test_a_null_key_is_a_position_of_its_vnode() -> None:
    """Semantics 7: standing at the null key of a vnode is something else than not having started it."""
    run = ArrangedRun(Scenario(ID, (Row((None,), amount=0), Row((1,), amount=0)), ()), vnode_of=by_amount)
    run.run(Barrier())
    run.run(Barrier(rate_limit=1))
    assert run.world.state.vnodes == (at(None), NOT_STARTED, NOT_STARTED)
    run.write(Write((Delete((None,)),)))
    run.run(Barrier(paused=True))
    assert run.world.view.rows() == {}


def test_a_singleton_moves_between_vnodes() -> None:
    """Semantics 8: a keyless upstream's one row, in a vnode that is read, then in one that is not."""
    run = ArrangedRun(Scenario((), (Row((), amount=0),), ()))
    run.run(Barrier())
    run.write(Write((Update((), Row((), amount=1)),)))
    run.run(Barrier(rate_limit=1))
    run.write(Write((Update((), Row((), amount=2)),)))
    run.finish(rate_limit=1)
    assert run.world.view.rows() == {(): (200,)}


@pytest.mark.parametrize("point", ["after_pin", "after_snapshot_commit"])
def test_a_pinned_barrier_is_injected_again(point: str) -> None:
    """I2: after a crash the same plan comes back, although upstream, settings and parallelism have moved on."""
    run = begun(0, 0, 1, 2)
    run.play([Crash(point, Barrier(rate_limit=2)), Rescale(3), Write((Delete((1,)), moved(2, 1)))])
    (crashed,) = run.attempts
    assert run.run(Barrier(rate_limit=1)) == crashed.plan
    assert run.world.state.vnodes == (COMPLETED, NOT_STARTED, NOT_STARTED)
    assert run.run(Barrier(rate_limit=1)).parallelism == 3
