"""The words about a change."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.job.definition_change import ChangeKind
from airflow_backfill_provider.core.status.change_text import change_lines, done_line


def test_a_filter_costs_one_pass_over_the_used_columns():
    told, cost = change_lines(ChangeKind.FILTER, "the condition was a and is b", "", 20_000)
    assert told == "class: filter changed (the condition was a and is b)"
    assert cost.startswith("cost: the next epoch reads the used columns of 20,000 rows of the upstream, without a rate")


@pytest.mark.parametrize("kind", [ChangeKind.COLUMNS_ADDED, ChangeKind.FILTER])
def test_what_only_a_rebuild_can_change_is_called_so(kind: ChangeKind):
    _, cost = change_lines(kind, "because", "because", 7)
    assert cost == "cost: a rebuild, which reads and writes 7 rows of the upstream"
    _, cost = change_lines(kind, "because", "an upstream keeps too little", 7)
    assert cost.startswith("cost: a rebuild (an upstream keeps too little)")


@pytest.mark.parametrize("kind", [kind for kind in ChangeKind if not kind.needs_rebuild])
def test_each_possible_change_has_a_cost_and_an_end(kind: ChangeKind):
    assert len(change_lines(kind, "because", "", 7)) == 2
    assert ("stays as it is" in done_line(kind)) == kind.keeps_rows
