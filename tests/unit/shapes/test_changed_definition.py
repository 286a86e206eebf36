"""The class of a change of a job's definition."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.job.definition_change import ChangeKind
from airflow_backfill_provider.shapes.changed_definition import change_of
from tests.builders import job_of

SUMS = "SELECT status, sum(amount) AS total FROM upstream GROUP BY status"


def kind(before: str, after: str, **changes: object) -> ChangeKind:
    return change_of(job_of(query=before), job_of(query=after, **changes)).kind


def test_the_same_words_are_no_change_whatever_is_between_them():
    written = "/* paid */ SELECT /*+ REPARTITION(3) */ id\n, amount AS cents FROM upstream -- all\n;"
    assert kind("SELECT id, amount AS cents FROM upstream", written) is ChangeKind.NOTHING


def test_a_literal_is_compared_with_its_blanks():
    assert kind("SELECT id FROM upstream WHERE s = 'a b'", "SELECT id FROM upstream WHERE s = 'a  b'") is (
        ChangeKind.FILTER
    )


@pytest.mark.parametrize("field", ["vnode_count", "strategy"])
def test_another_field_than_the_query_changes_everything(field: str):
    other = {"vnode_count": 8, "strategy": "arrangement"}[field]
    found = change_of(job_of(), job_of(**{field: other}))
    assert (found.kind, found.reason) == (ChangeKind.EVERYTHING, f"another {field}")


def test_rows_that_become_groups_change_everything():
    found = change_of(job_of(), job_of(query=SUMS))
    assert (found.kind, found.reason) == (
        ChangeKind.EVERYTHING,
        "the view is of another kind: its shape was row and would be group",
    )


def test_another_way_to_keep_the_view_fresh_is_another_technique():
    found = change_of(job_of(query=SUMS), job_of(query=SUMS, refresh="auto"))
    assert (found.kind, found.reason) == (ChangeKind.TECHNIQUE, "refresh was incremental and is auto")


def test_whatever_differs_in_a_query_of_groups_is_found_by_a_comparison():
    found = change_of(job_of(query=SUMS), job_of(query=SUMS.replace("amount", "amount * 2"), refresh="auto"))
    assert found.kind is ChangeKind.EXPRESSIONS


def test_settings_are_no_part_of_a_change():
    assert kind("SELECT id FROM upstream", "SELECT id FROM upstream", rate_limit=7, paused=True) is ChangeKind.NOTHING


@pytest.mark.parametrize("keep", ["deleted", "history"])
def test_a_view_that_keeps_former_rows_is_computed_anew(keep: str):
    """Its former rows are of the former query, and a rebuild asks before it loses them."""
    found = change_of(job_of(keep=keep), job_of(keep=keep, query="SELECT id FROM upstream WHERE amount > 5"))
    assert (found.kind, found.reason) == (
        ChangeKind.EVERYTHING,
        f"the view keeps former rows (keep: {keep}), and these are of the former query",
    )
    assert change_of(job_of(keep=keep), job_of(keep="latest")).kind is ChangeKind.EVERYTHING
    assert change_of(job_of(keep=keep), job_of(keep=keep)).kind is ChangeKind.NOTHING
