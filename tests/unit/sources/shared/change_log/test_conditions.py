"""Conditions in SQL, over the rows of a change log."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.lake.files.rows import read_rows
from airflow_backfill_provider.sources.shared.change_log import conditions
from airflow_backfill_provider.sources.shared.change_log.changes import LoggedKind
from tests.unit.sources.shared.change_log.histories import minute


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (conditions.of_kinds(LoggedKind.DELETE), [28]),
        (conditions.of_kinds(LoggedKind.MARK, LoggedKind.GAP), [10, 20]),
        (conditions.OF_SINGLE_ROWS, [15, 15, 28]),
        (conditions.OF_ANY_ROWS, [15, 15, 25, 25, 25, 28]),
        (conditions.COMMITTED, [15, 15, 15, 20, 25, 25, 25, 28, 28]),
        (conditions.of_table("6"), [15, 25]),
        (conditions.of_table("'"), []),
        (conditions.between(15, 25), [20, 25, 25, 25]),
        (conditions.within("6", 15, 25), [25]),
        (conditions.until(minute(20)), [10, 15, 15, 15, 20]),
        (conditions.until(minute(19.9)), [10, 15, 15, 15]),
    ],
)
def test_a_condition_matches_these_offsets(log, condition, expected):
    found = read_rows(DeltaTable(log.location), where=condition, ending=conditions.OLDEST_FIRST)
    assert found["offset"].to_pylist() == expected


@pytest.mark.parametrize(
    ("order", "expected"), [(conditions.OLDEST_FIRST, (10, 0)), (conditions.NEWEST_FIRST, (28, 2))]
)
def test_rows_are_ordered_by_offset_and_number(log, order, expected):
    (row,) = read_rows(DeltaTable(log.location), ending=f"{order} LIMIT 1").to_pylist()
    assert (row["offset"], row["number"]) == expected
