"""The arrangement strategy in random histories: the view is true after every epoch, and the same after any crash."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.arranged_attempts import ARRANGED_POINTS, Attempt
from tests.model.arranged_job import VNODES, KnownKeys, keys_as_arranged, keys_at_the_end
from tests.model.arranged_runs import WHOLE, ArrangedRun, check_chunks
from tests.model.arranged_tables import Distribution
from tests.model.arrangement import replay
from tests.model.checks import DETERMINISTIC
from tests.model.runs import ClassicalRun
from tests.model.truth import COMPLETED, Query, everything, paid_in_cents
from tests.strategies import (
    CRASH_POINTS,
    Barrier,
    Rescale,
    Scenario,
    Write,
    rescaled,
    scenarios,
)

QUERIES = st.sampled_from([paid_in_cents, everything])

DISTRIBUTIONS = st.sampled_from(sorted(VNODES, key=lambda vnode_of: vnode_of.__name__))

KNOWLEDGE = st.sampled_from([keys_as_arranged, keys_at_the_end])

SHARING = st.lists(st.integers(WHOLE, 3), min_size=1, max_size=4)

SCENARIOS = rescaled(scenarios(points=ARRANGED_POINTS))


@pytest.mark.slow
@settings(DETERMINISTIC, max_examples=150)
@given(SCENARIOS, QUERIES, DISTRIBUTIONS, KNOWLEDGE, SHARING, st.booleans())
def test_view_is_true_after_every_epoch(
    scenario: Scenario, query: Query, vnode_of: Distribution, known_keys: KnownKeys, sharing: list[int], made: bool
) -> None:
    """
    I1, I3, I4: whatever is written, moved, paused, throttled, rescaled or crashed, however task runs share an epoch.
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
def test_it_ends_with_the_same_view_as_the_oracle(
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
    I2: died once or twice at each step, then run again, whole or by task runs that share it, parts in any order: rows,
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
