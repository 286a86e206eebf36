"""
Task runs that share and repeat epochs of the arrangement strategy: random schedules of many, every schedule of a few,
and weakened protocols that break.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.arranged_attempts import ARRANGED_POINTS, Attempt
from tests.model.arranged_explore import MIXED, SHARED_EPOCHS, WHOLE_EPOCHS, explore_arranged
from tests.model.arranged_job import VNODES, Net, Protocol, by_amount, by_status, hash_of_key, net_by_position
from tests.model.arranged_runs import WHOLE, ArrangedRun, check_chunks
from tests.model.arranged_tables import Distribution
from tests.model.checks import DETERMINISTIC, find_violation
from tests.model.truth import InvariantError, everything
from tests.model.upstream import Change, as_stream
from tests.strategies import (
    Barrier,
    KeyColumn,
    Row,
    Scenario,
    Update,
    Write,
    key_columns,
    rescaled,
    scenarios,
    turns,
)
from tests.variants import mostly_exhaustive

if TYPE_CHECKING:
    from collections.abc import Iterable

pytestmark = pytest.mark.slow  # searches many interleavings

OVERLAPPING = 4
SCHEDULES = turns(OVERLAPPING, min_size=20, max_size=80)
KINDS = st.lists(st.sampled_from([None, None, "changes", 0, 1, 2]), min_size=1, max_size=8)
DISTRIBUTIONS = st.sampled_from(sorted(VNODES, key=lambda vnode_of: vnode_of.__name__))


def play_overlapping(
    scenario: Scenario,
    schedule: list[int],
    kinds: list[str | int | None],
    protocol: Protocol,
    vnode_of: Distribution = by_amount,
) -> ArrangedRun:
    """
    Play a scenario with runs that overlap.

    Each barrier only starts a run, of a whole epoch, of changes alone, or of one part. Between any two events those
    under way take a few steps in the schedule's order. Crashed ones stay, and may be woken at any later time.
    """
    run = ArrangedRun(scenario, protocol=protocol, vnode_of=vnode_of)
    run.rescale(2)
    steps, started = iter(schedule), 0
    for event in scenario.events:
        if isinstance(event, Barrier):
            only = kinds[started % len(kinds)]
            run.attempts = [*run.attempts, Attempt(settings=event, only=only, first_part=started)][-OVERLAPPING:]
            started += 1
        else:
            run.play([event])
        for turn in (turn for turn, _ in zip(steps, range(12), strict=False)):
            run.step_one(turn)
    while run.attempts:
        run.step_one(next(steps, 0))
    run.finish(rate_limit=2)
    return run


@settings(DETERMINISTIC, max_examples=150)
@given(rescaled(scenarios(max_events=12, points=ARRANGED_POINTS)), SCHEDULES, KINDS, DISTRIBUTIONS)
def test_overlapping_runs_lose_and_duplicate_nothing(
    scenario: Scenario, schedule: list[int], kinds: list[str | int | None], vnode_of: Distribution
) -> None:
    """
    I1, I2, I3, I5: runs of the same and of earlier epochs, whole and shared, interleaved step by step, with crashes,
    rescales and writes.
    """
    run = play_overlapping(scenario, schedule, kinds, Protocol(), vnode_of)
    commits = [(commit.part, commit.plan.epoch) for commit in run.world.view.log]
    assert len(commits) == len(set(commits)), "one commit for each part of each epoch"
    assert run.world.state.version == run.world.latest
    check_chunks(run.job, run.world)


# Which runs overlap, where the first one stands to begin with, and how many states that makes at least.
SEARCHES = {
    "two of whole epochs": (WHOLE_EPOCHS[:2], None, 9_000),
    "changes and parts, one of them twice": (SHARED_EPOCHS, None, 20_000),
    "those, after a zombie before its merge": (SHARED_EPOCHS, "before_changes_commit", 25_000),
    "a zombie before its merge, a whole epoch, a part": (MIXED, "before_changes_commit", 9_000),
    "a zombie before the arrangement, a whole epoch, a part": (MIXED, "before_arrangement_commit", 10_000),
}


# The zombie comes on top of changes and parts.
@pytest.mark.parametrize(
    "search", mostly_exhaustive(SEARCHES, SEARCHES.keys() - {"changes and parts, one of them twice"})
)
def test_no_interleaving_breaks_anything(search: str) -> None:
    """I1, I2, I3, I5: every schedule of overlapping runs and an upstream that goes on, without exception."""
    runs, zombie, states = SEARCHES[search]
    result = explore_arranged(Protocol(), runs, zombie=zombie)
    assert result.error is None, result.trace
    assert result.exhausted
    assert result.states > states, "the search has become smaller than it was"


def net_by_key(changes: Iterable[Change], vnode_of: Distribution) -> Net:
    """The last change of a key decides, in its row's vnode; its delete in another vnode is forgotten."""
    last = {change.row.key: change for change in as_stream(changes)}
    return net_by_position(last.values(), vnode_of)


# Each lacks one rule. The search over all interleavings finds the shortest way to the damage.
RETRIES = {
    "the arrangement is a plain append": (Protocol(arrangement_has_txn=False), "I1 truth"),
    "the merge has no transaction": (Protocol(changes_have_txn=False), "I1 truth"),
    "a merge that changes nothing leaves no transaction": (Protocol(empty_merge_has_txn=False), "I1 truth"),
    "parts are plain appends": (Protocol(parts_have_txn="none"), "I1 truth"),
    "all parts share a transaction": (Protocol(parts_have_txn="shared"), "I1 truth"),
    "committed before all parts reported": (Protocol(all_parts_awaited=False), "I1 truth"),
    "the plan is not pinned": (Protocol(pinned=False), "I2 pure epoch"),
    "the state is not fenced": (Protocol(state_fenced=False), "I3 monotonic"),
}
ORDERS = {
    "the chunk is appended before the merge": Protocol(changes_first=False),
    "changes by the new position": Protocol(filter_by="new"),
    "the chunk as of the window's start": Protocol(chunk_at="after"),
}
CLASSICAL = Protocol(chunk_at="after", filter_by="new", changes_first=False)
SCANS = {
    "net per key without the vnode": (Protocol(net=net_by_key), "I1 truth"),
    "the filter takes the vnode from the key": (Protocol(filter_vnode=hash_of_key), "I1 truth"),
    "changes are not arranged while paused": (Protocol(arranged="unless_paused"), "I1 truth"),
    "completed vnodes are scanned again": (Protocol(completed_rescanned=True), ("I1 truth", "I4 progress")),
    "goes on only while a vnode is in progress": (Protocol(goes_on_with="in_progress"), "I4 progress"),
    "classical, filtered where a vnode ends": (
        Protocol(chunk_at="after", filter_by="last_row", changes_first=False),
        "I1 truth",
    ),
    "all parts share a transaction": RETRIES["all parts share a transaction"],
    **{order: (protocol, "I1 truth") for order, protocol in ORDERS.items()},
}

ONE_KEY = rescaled(scenarios(columns=key_columns(types=["long"], max_columns=1), points=()))
MOVING = st.sampled_from([by_status, by_amount])


def play_alone(example: tuple[Scenario, Distribution], protocol: Protocol) -> ArrangedRun:
    """Play a scenario with one whole epoch after the other."""
    scenario, vnode_of = example
    run = ArrangedRun(scenario, everything, protocol, vnode_of=vnode_of)
    run.play(scenario.events)
    run.finish(rate_limit=2)
    check_chunks(run.job, run.world)
    return run


# Of these, the random search below finds the damage sooner.
@pytest.mark.parametrize(
    "rule",
    mostly_exhaustive(RETRIES, RETRIES.keys() - {"the arrangement is a plain append", "the state is not fenced"}),
)
def test_a_weakened_protocol_breaks_in_some_interleaving(rule: str) -> None:
    """Negative control for I1, I2, I3, I5: without the rule the search over all interleavings finds the damage."""
    protocol, broken = RETRIES[rule]
    result = explore_arranged(protocol, zombie="before_changes_commit" if "arrangement" not in rule else None)
    assert result.error is not None
    assert result.error.startswith(broken)


@pytest.mark.parametrize("order", ORDERS)
def test_a_wrong_order_breaks_in_some_interleaving(order: str) -> None:
    """Negative control for I1: a row changes vnodes in one epoch; two runs without a crash are enough."""
    result = explore_arranged(ORDERS[order], WHOLE_EPOCHS[:2])
    assert result.error is not None
    assert result.error.startswith("I1 truth")


@pytest.mark.parametrize("rule", SCANS)
def test_a_random_search_finds_wrong_scans(rule: str) -> None:
    """Negative control for I1, I4: one epoch after the other without a crash, random scenarios find the damage."""
    protocol, broken = SCANS[rule]
    found = find_violation(st.tuples(ONE_KEY, MOVING), lambda example: play_alone(example, protocol))
    assert found.startswith(broken)


@pytest.mark.parametrize("rule", [rule for rule in RETRIES if "merge" not in rule])
def test_a_random_search_finds_weakened_retries(rule: str) -> None:
    """Negative control for I1, I2, I3: the random schedules are strong enough to find a missing rule as well."""
    protocol, _ = RETRIES[rule]
    events = rescaled(scenarios(columns=key_columns(types=["long"], max_columns=1), points=ARRANGED_POINTS))
    examples = st.tuples(events, SCHEDULES, KINDS)
    assert find_violation(examples, lambda example: play_overlapping(*example, protocol))[:2] in {"I1", "I2", "I3"}


def test_a_crash_and_a_retry_repeat_a_merge_that_left_no_transaction() -> None:
    """
    Negative control for I2: one crash after the chunk is enough, in an epoch executed as a whole. Row 1 was read, did
    not pass the filter, and moves to a vnode that the epoch reads.
    """
    rows = (Row((1,), "open", 0), Row((2,), "paid", 0))
    run = ArrangedRun(Scenario((KeyColumn("id"),), rows, ()), protocol=Protocol(empty_merge_has_txn=False))
    run.play([Barrier(), Barrier(1), Write((Update((1,), Row((1,), "paid", 1)),))])
    run.crash("after_snapshot_commit", Barrier())
    with pytest.raises(InvariantError, match="I1 truth: lost .*1,"):
        run.run(Barrier())


@settings(DETERMINISTIC, max_examples=150)
@given(ONE_KEY, MOVING)
def test_the_classical_order_is_right_by_vnode_too(scenario: Scenario, vnode_of: Distribution) -> None:
    """
    I1: the chunk as of the window's start, then changes by the new position, unfiltered where a vnode ends. So the
    loss where they are filtered comes from that alone.
    """
    run = ArrangedRun(scenario, everything, CLASSICAL, vnode_of=vnode_of, sharing=[WHOLE])
    run.play(scenario.events)
    run.finish(rate_limit=2)


@settings(DETERMINISTIC, max_examples=150)
@given(ONE_KEY, MOVING)
def test_the_stamps_bound_is_a_second_fence(scenario: Scenario, vnode_of: Distribution) -> None:
    """
    I2: what is read is no longer arranged, so that no later stamp ever lies in an epoch's ranges; and an arrangement of
    everything that changes is right as long as stamps are bounded. Each alone keeps a chunk what it was.
    """
    for protocol in (Protocol(stamps_bounded=False), Protocol(arranged="all")):
        play_alone((scenario, vnode_of), protocol)


def test_without_either_fence_a_replay_reads_something_else() -> None:
    """Negative control for I2: without both, an epoch executed again reads changes of later ones."""
    protocol = Protocol(stamps_bounded=False, arranged="all")
    found = find_violation(st.tuples(ONE_KEY, MOVING), lambda example: play_alone(example, protocol))
    assert found.startswith("I2 pure epoch")
