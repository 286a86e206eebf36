"""Every schedule of two attempts of one epoch of a join, beside a compaction or the next epoch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.model import joins_catalog as joins
from tests.model.groups_explore import explore_schedules
from tests.model.groups_mutants import BY_UNITS, WHOLE
from tests.model.groups_queries import TOTALS
from tests.model.joins_explore import JoinStart
from tests.model.joins_job import JoinProtocol
from tests.model.joins_queries import BY_LEAD

FINISHED = JoinStart(seed=8, stage_1=joins.FAN, query=BY_LEAD, strategy=WHOLE, is_finished=True)
STARTS = {
    "finished, the next epoch": replace(FINISHED, with_next_epoch=True),
    "finished, a compaction": replace(FINISHED, with_compaction=True),
    "finished, totals of a chain": replace(FINISHED, stage_1=joins.CHAIN, query=TOTALS, with_next_epoch=True),
    "hidden": replace(FINISHED, strategy=BY_UNITS, is_finished=False),
}


def test_two_attempts_of_an_epoch_never_break_anything() -> None:
    """I1, I2, I5: each step of one between any two steps of the other."""
    result = explore_schedules(FINISHED)
    assert result.error is None, result.trace
    assert result.exhausted


@pytest.mark.slow
@pytest.mark.parametrize("name", STARTS)
def test_no_schedule_breaks_anything(name: str) -> None:
    """I1, I2, I5: also in an epoch of several commits, and with a zombie beside the next epoch."""
    result = explore_schedules(STARTS[name])
    assert result.error is None, result.trace
    assert result.exhausted


@pytest.mark.parametrize(
    "rule", [JoinProtocol(merge_has_txn=False), JoinProtocol(state_fenced=False)], ids=["no transaction id", "no fence"]
)
def test_a_weakened_protocol_breaks_in_some_schedule(rule: JoinProtocol) -> None:
    """Negative control for I1, I2, I5: a merge without transaction id, and a state that is not fenced."""
    result = explore_schedules(replace(STARTS["finished, the next epoch"], protocol=rule))
    assert result.error is not None
    assert result.error.startswith("I1 truth")
