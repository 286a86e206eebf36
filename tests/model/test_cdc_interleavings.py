"""Every schedule of a few attempts of a cdc job while the table is written to, and weakened protocols that break."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from tests.model.cdc_explore import APART, HISTORY, IN_SEQUENCE, ONE_WRITE, OVERLAPPING, explore_cdc
from tests.model.cdc_job import Protocol
from tests.model.cdc_runs import History, Move, OrchestratedCdcRun, cdc_histories
from tests.model.checks import find_violation
from tests.model.explore import Result
from tests.model.test_cdc_orchestrated import BACK, MOVES
from tests.strategies import key_columns
from tests.variants import exhaustive

pytestmark = pytest.mark.slow  # searches many interleavings


@pytest.mark.parametrize("history", [HISTORY, APART], ids=["dependent writes", "independent writes"])
def test_no_moment_of_a_write_breaks_anything(history: History) -> None:
    """I1, I2, I3: written and seen at any moment, with and without a repeated task."""
    result = explore_cdc(Protocol(), IN_SEQUENCE, history=history)
    assert result.error is None, result.trace
    assert result.exhausted
    assert result.states > 7_000, "the search has become smaller than it was"


def test_no_interleaving_of_two_attempts_breaks_anything() -> None:
    """I1, I2, I3, I5: two landings, two pins and two readings, of the same epoch or of one after the other."""
    result = explore_cdc(Protocol(), OVERLAPPING, history=ONE_WRITE)
    assert result.error is None, result.trace
    assert result.exhausted
    assert result.states > 40_000, "the search has become smaller than it was"


@pytest.mark.parametrize(
    "point", ["before_read_ahead_commit", *map(exhaustive, ["after_read_ahead_commit", "after_pin"])]
)
def test_no_zombie_breaks_anything(point: str) -> None:
    """I2, I5: an attempt that stood at the point goes on at any time, while later epochs are run."""
    result = explore_cdc(Protocol(), IN_SEQUENCE[:3], history=ONE_WRITE, zombie=point)
    assert result.error is None, result.trace
    assert result.exhausted


def of_writes(protocol: Protocol) -> Result:
    return explore_cdc(protocol, IN_SEQUENCE)


def of_landings(protocol: Protocol) -> Result:
    return explore_cdc(protocol, OVERLAPPING, history=ONE_WRITE)


def of_readings(protocol: Protocol) -> Result:
    return explore_cdc(protocol, IN_SEQUENCE[:3], history=ONE_WRITE, zombie="before_read_ahead_commit")


# Each lacks one rule. The search over all interleavings finds the shortest way to the damage.
WEAKENED = {
    "the lower offset is taken after the rows were read": (
        Protocol(offset_taken="after the rows"),
        of_writes,
        "I1 truth",
    ),
    "commits in progress are ignored": (Protocol(in_progress="ignored"), of_writes, "I1 truth"),
    "the newest commit in progress is ignored": (
        Protocol(in_progress="as the snapshot lists them"),
        of_writes,
        "I1 truth",
    ),
    "a window need not have the end of the reading": (Protocol(end_is_marked=False), of_writes, "I1 truth"),
    "rows that were read are not settled": (Protocol(settled_after="nothing"), of_writes, "I1 truth"),
    "rows that were read are settled with the window's changes alone": (
        Protocol(settled_after="the window's beginning"),
        of_writes,
        "I1 truth",
    ),
    "rows that were read are settled beyond the window": (
        Protocol(settled_up_to="the log's end"),
        of_writes,
        "I1 truth",
    ),
    "a reading is a plain append": (Protocol(reading_has_txn=False), of_readings, "I1 truth"),
    "the slot is advanced before the landing's commit": (
        Protocol(landed_before_advancing=False, gap_refused=False),
        of_landings,
        "I1 truth",
    ),
    "the slot is advanced before the landing's commit, but a gap is refused": (
        Protocol(landed_before_advancing=False),
        of_landings,
        "I6 no silent damage",
    ),
    "two landings commit": (Protocol(landing_is_exclusive=False), of_landings, "I6 no silent damage"),
    "the change log is looked at before the slot": (
        Protocol(slot_read_first=False),
        of_landings,
        "I6 no silent damage",
    ),
}


@pytest.mark.parametrize("rule", WEAKENED)
def test_a_weakened_protocol_breaks_in_some_interleaving(rule: str) -> None:
    """Negative control for I1, I2, I6: without the rule the search over all interleavings finds the damage."""
    protocol, search, broken = WEAKENED[rule]
    result = search(protocol)
    assert result.error is not None
    assert result.error.startswith(broken)


@pytest.mark.parametrize("rule", [rule for rule, (_, search, _) in WEAKENED.items() if search is of_writes][1:])
def test_a_random_search_finds_weakened_protocols(rule: str) -> None:
    """
    Negative control for I1: the random histories are strong enough to find a missing rule about rows as well, except
    the first one, which takes them too long.
    """
    protocol, _, _ = WEAKENED[rule]

    def play(example: tuple[History, list[Move], list[int]]) -> None:
        history, moves, back = example
        run = OrchestratedCdcRun(history, protocol=protocol, back=back)
        run.play(moves)
        run.finish(rate_limit=2)

    one_key = cdc_histories(columns=key_columns(types=["long"], max_columns=1))
    assert find_violation(st.tuples(one_key, MOVES, BACK), play).startswith("I1 truth")
