"""Every schedule of two attempts of one epoch of a view of groups, beside a compaction or the next epoch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.model.groups_explore import Start, explore_schedules
from tests.model.groups_job import Protocol
from tests.model.groups_mutants import BY_UNITS, WHOLE
from tests.model.groups_queries import LATEST, TOTALS_OF_TWO

FINISHED = Start(seed=2, query=TOTALS_OF_TWO, strategy=WHOLE, is_finished=True)
HIDDEN = Start(seed=2, query=TOTALS_OF_TWO, strategy=BY_UNITS, is_finished=False)
STARTS = {
    "finished, a compaction": replace(FINISHED, with_compaction=True),
    "finished, the next epoch": replace(FINISHED, with_next_epoch=True),
    "finished, slices, both": replace(FINISHED, query=LATEST, with_compaction=True, with_next_epoch=True),
    "hidden": HIDDEN,
    "hidden, slices": replace(HIDDEN, query=LATEST, seed=4),
}


@pytest.mark.parametrize(
    "start",
    [replace(FINISHED, with_compaction=True), replace(FINISHED, query=LATEST)],
    ids=["totals, a compaction", "latest"],
)
def test_two_attempts_of_an_epoch_never_break_anything(start: Start) -> None:
    """I1, I2, I5: each step of one between any two steps of the other."""
    result = explore_schedules(start)
    assert result.error is None, result.trace
    assert result.exhausted


@pytest.mark.slow
@pytest.mark.parametrize("name", STARTS)
def test_no_schedule_breaks_anything(name: str) -> None:
    """I1, I2, I5: also in an epoch of several commits, and with a zombie beside the next epoch."""
    result = explore_schedules(STARTS[name])
    assert result.error is None, result.trace
    assert result.exhausted


WEAKENED = {
    "a merge without transaction id": (STARTS["finished, the next epoch"], Protocol(merge_has_txn=False)),
    "the state is not fenced": (STARTS["finished, the next epoch"], Protocol(state_fenced=False)),
    "a merge does not notice a compaction": (STARTS["finished, a compaction"], Protocol(files_checked=False)),
    "hidden state is read from the newest version": (HIDDEN, Protocol(hidden_state="newest")),
    "increments instead of absolute values": (HIDDEN, Protocol(values="increments")),
}


@pytest.mark.parametrize("rule", WEAKENED)
def test_a_weakened_protocol_breaks_in_some_schedule(rule: str) -> None:
    """Negative control for I1, I2, I5: without the rule the search over all schedules finds the damage."""
    start, protocol = WEAKENED[rule]
    result = explore_schedules(replace(start, protocol=protocol))
    assert result.error is not None
    assert result.error.startswith("I1 truth")
    assert result.trace
