"""The words about a change."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.job.definition_change import ChangeKind, ColumnsChange
from airflow_backfill_provider.core.status.change_text import change_lines, done_line, downstream_line


def test_a_filter_costs_one_pass_over_the_used_columns():
    told, cost = change_lines(ChangeKind.FILTER, "the condition was a and is b", "", 20_000)
    assert told == "class: filter changed (the condition was a and is b)"
    assert cost.startswith("cost: the next epoch reads the used columns of 20,000 rows of the upstream, without a rate")


@pytest.mark.parametrize("kind", [ChangeKind.EVERYTHING, ChangeKind.FILTER])
def test_what_only_a_rebuild_can_change_is_called_so(kind: ChangeKind):
    _, cost = change_lines(kind, "because", "because", 7)
    assert cost == "cost: a rebuild, which reads and writes 7 rows of the upstream"
    _, cost = change_lines(kind, "because", "an upstream keeps too little", 7)
    assert cost.startswith("cost: a rebuild (an upstream keeps too little)")


@pytest.mark.parametrize("kind", [kind for kind in ChangeKind if not kind.needs_rebuild])
def test_each_possible_change_has_a_cost_and_an_end(kind: ChangeKind):
    told, cost, *others = change_lines(kind, "because", "", 7)
    assert told.endswith("(because)")
    assert cost.startswith("cost: ")
    assert len(others) == kind.changes_columns
    assert ("stays as it is" in done_line(kind)) == kind.keeps_rows


def test_other_columns_cost_one_whole_view_and_have_an_alternative():
    told, cost, alternative = change_lines(ChangeKind.COLUMNS_ADDED, "the view has no column a", "", 20_000)
    assert told == "class: columns added (the view has no column a)"
    assert "20,000 rows of the upstream and writes the whole view with its new columns, in one commit and" in cost
    assert "without a rate limit, even if the job has one" in cost
    assert "rebuild --keep-serving" in alternative
    assert "with its new columns (added: a)" in done_line(ChangeKind.EXPRESSIONS, ColumnsChange(added=("a",)))


@pytest.mark.parametrize("kind", [ChangeKind.COLUMNS_DROPPED, ChangeKind.FILTER])
def test_a_job_downstream_gets_rows_again_only_because_of_other_columns(kind: ChangeKind):
    assert ("all rows again" in downstream_line(kind)) == kind.changes_columns
