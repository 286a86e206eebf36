"""
Attempts that overlap: random schedules of many, every schedule of a few, and weakened protocols that break.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.checks import DETERMINISTIC, find_violation
from tests.model.explore import explore
from tests.model.orchestrated import Attempt, Protocol
from tests.model.runs import OrchestratedRun
from tests.model.truth import InvariantError
from tests.model.upstream import Change, as_stream
from tests.strategies import Barrier, Crash, Key, KeyColumn, Row, Scenario, key_columns, scenarios, turns

if TYPE_CHECKING:
    from collections.abc import Iterable

pytestmark = pytest.mark.slow  # searches many interleavings

OVERLAPPING = 3
SCHEDULES = turns(OVERLAPPING, min_size=20, max_size=80)


def play_overlapping(scenario: Scenario, schedule: list[int], protocol: Protocol) -> OrchestratedRun:
    """
    Play a scenario with attempts that overlap.

    Each barrier only starts an attempt. Between any two events those under way take a few steps in the
    schedule's order. Crashed ones stay, and may be woken by the schedule at any later time.
    """
    run = OrchestratedRun(scenario, protocol=protocol)
    steps = iter(schedule)
    for event in scenario.events:
        if isinstance(event, Barrier):
            run.attempts = [*run.attempts, Attempt(settings=event)][-OVERLAPPING:]
        else:
            run.play([event])
        for turn in (turn for turn, _ in zip(steps, range(8), strict=False)):
            run.step_one(turn)
    for attempt in run.attempts:
        run.drive(attempt)
    run.finish(rate_limit=2)
    return run


@settings(DETERMINISTIC, max_examples=150)
@given(scenarios(max_events=12), SCHEDULES)
def test_overlapping_attempts_lose_and_duplicate_nothing(scenario: Scenario, schedule: list[int]) -> None:
    """
    I1, I2, I3, I5: attempts of the same and of earlier epochs, interleaved step by step, with crashes and
    writes.
    """
    run = play_overlapping(scenario, schedule, Protocol())
    commits = [(commit.part, commit.plan.epoch) for commit in run.world.view.log]
    assert len(commits) == len(set(commits)), "one commit for each part of each epoch"
    assert run.world.state.version == run.world.latest


@settings(DETERMINISTIC, max_examples=60)
@given(scenarios(max_events=6, points=()), turns(2, max_size=40))
def test_two_attempts_of_one_epoch_are_as_good_as_one(scenario: Scenario, schedule: list[int]) -> None:
    """I2: the epoch that two attempts execute together, step by step, is the one that either would alone."""
    run = OrchestratedRun(scenario)
    for event in scenario.events:
        if not isinstance(event, Barrier):
            run.play([event])
            continue
        before = run.world
        plan = run.run(event)
        alone = run.world
        run.world = before
        run.attempts = [Attempt(settings=event), Attempt(settings=event)]
        for turn in schedule:
            if run.world.log.entries == before.log.entries:
                run.step_one(turn)
        # What was injected so far belongs to this epoch; now both go on to their end.
        for attempt in run.attempts:
            if attempt.plan is not None:
                assert run.drive(attempt) == plan
        if run.world.state == before.state:
            run.run(event)
        assert run.world.view == alone.view
        assert (run.world.state, run.world.log.entries) == (alone.state, alone.log.entries)
        run.world, run.attempts = alone, []


def test_no_interleaving_of_three_attempts_breaks_anything() -> None:
    """
    I1, I2, I3, I5: every schedule of three overlapping attempts and an upstream that goes on, without
    exception.
    """
    result = explore(Protocol(), attempts=3)
    assert result.error is None, result.trace
    assert result.exhausted
    assert result.states > 30_000, "the search has become smaller than it was"


def row_by_row(changes: Iterable[Change]) -> dict[Key, Row | None]:
    """The feed taken in its own order, the last line of a key winning."""
    return {change.row.key: change.row if change.writes else None for change in changes}


def removals_win(changes: Iterable[Change]) -> dict[Key, Row | None]:
    """Inside one version a delete or preimage beats an insert or postimage."""
    return row_by_row(sorted(changes, key=lambda change: (change.version, not change.writes)))


def preimages_ignored(changes: Iterable[Change]) -> dict[Key, Row | None]:
    """Updates taken as if they never changed a key."""
    return row_by_row(change for change in as_stream(changes) if change.type != "update_preimage")


def earliest_wins(changes: Iterable[Change]) -> dict[Key, Row | None]:
    """The first version of the window decides on a key."""
    return row_by_row(reversed(as_stream(changes)))


# Each lacks one rule. The search over all interleavings finds the shortest way to the damage.
RETRIES = {
    "the snapshot is a plain append": (Protocol(snapshot_has_txn=False), "I1 truth"),
    "the merge has no transaction": (Protocol(changes_have_txn=False), "I1 truth"),
    "the plan is not pinned": (Protocol(pinned=False, digest_checked=False), "I1 truth"),
    "the plan is not pinned, but its digest is compared": (Protocol(pinned=False), "I2 pure epoch"),
    "the state is not fenced": (Protocol(state_fenced=False), "I3 monotonic"),
}
ORDERS = {
    "chunk at the window's start, changes by the old position": Protocol(chunk_at="after"),
    "chunk at the window's end, changes by the new position": Protocol(filter_by="new"),
    "chunk at the window's start and appended after the changes": Protocol(chunk_at="after", filter_by="new"),
}
NETTINGS = {
    "changes row by row": Protocol(net=row_by_row),
    "removals win inside a version": Protocol(net=removals_win),
    "preimages ignored": Protocol(net=preimages_ignored),
    "the earliest version wins": Protocol(net=earliest_wins),
}


@pytest.mark.parametrize("rule", RETRIES)
def test_a_weakened_protocol_breaks_in_some_interleaving(rule: str) -> None:
    """
    Negative control for I1, I2, I3, I5: without the rule the search over all interleavings finds the damage.
    """
    protocol, broken = RETRIES[rule]
    result = explore(protocol, zombie="merge" in rule or "state" in rule)
    assert result.error is not None
    assert result.error.startswith(broken)


@pytest.mark.parametrize("order", ORDERS)
def test_mixing_the_two_orders_breaks_in_some_interleaving(order: str) -> None:
    """Negative control for I1: chunk and filter belong together; one attempt without a crash is enough."""
    result = explore(ORDERS[order], attempts=1)
    assert result.error is not None
    assert result.error.startswith("I1 truth")


@pytest.mark.parametrize("rule", ORDERS | NETTINGS)
def test_a_random_search_finds_wrong_orders_and_nettings(rule: str) -> None:
    """Negative control for I1: the scenarios are strong enough to find a mixed order or a wrong netting."""

    def play(scenario: Scenario) -> None:
        run = OrchestratedRun(scenario, protocol=(ORDERS | NETTINGS)[rule])
        run.play(scenario.events)
        run.finish(rate_limit=2)

    one_key = scenarios(columns=key_columns(types=["long"], max_columns=1), points=())
    assert find_violation(one_key, play).startswith("I1 truth")


@pytest.mark.parametrize("rule", [rule for rule in RETRIES if "merge" not in rule])
def test_a_random_search_finds_weakened_retries(rule: str) -> None:
    """
    Negative control for I1, I2, I3: the random schedules are strong enough to find a missing rule as well.
    """
    protocol, _ = RETRIES[rule]
    events = scenarios(columns=key_columns(types=["long"], max_columns=1), max_events=12)

    def play(example: tuple[Scenario, list[int]]) -> None:
        play_overlapping(*example, protocol)

    assert find_violation(st.tuples(events, SCHEDULES), play)[:2] in {"I1", "I2", "I3"}


def test_a_crash_and_a_retry_duplicate_a_plain_append() -> None:
    """
    Negative control for I2: a plain append needs no concurrency to go wrong, one crash before the state does.
    """
    events = (Crash("after_snapshot_commit"), Barrier())
    scenario = Scenario((KeyColumn("id"),), (Row((1,), amount=1),), events)
    run = OrchestratedRun(scenario, protocol=Protocol(snapshot_has_txn=False))
    with pytest.raises(InvariantError, match="I1 truth"):
        run.play(scenario.events)
