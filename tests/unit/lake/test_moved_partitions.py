"""Commits without changes of rows that give rows of a partition another value."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.lake.moved_partitions import moved_partition_columns


def file(kind, value, **fields):
    return {kind: {"path": "f", "partitionValues": {"d": value}, "dataChange": False, **fields}}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("2026-01-01 00:00:00", "2026-01-01 05:00:00"),
        ("2026-01-01 00:00:00", "2026-01-01T00:00:00+02:00"),
        ("", "a"),
        (None, "a"),
        ("a", None),
    ],
)
def test_a_compaction_into_another_partition_moves_rows(before, after):
    """I6: the change feed has no row about it."""
    assert moved_partition_columns([file("remove", before), file("add", after)]) == {"d"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a", "a"),
        ("", None),
        (None, ""),
        ("2026-01-01 00:00:00", "2026-01-01T00:00:00.000000Z"),
        ("2026-13-01 00:00:00", "2026-13-01 00:00:00"),
    ],
)
def test_the_same_value_in_another_spelling_moves_nothing(before, after):
    assert moved_partition_columns([file("remove", before), file("add", after)]) == frozenset()


def test_only_files_without_changed_rows_and_with_known_partitions_are_judged():
    changed = [file("remove", "a", dataChange=True), file("add", "b", dataChange=True)]
    assert moved_partition_columns(changed) == frozenset()
    unknown = {"remove": {"path": "f", "dataChange": False}}
    assert moved_partition_columns([unknown, file("add", "b")]) == frozenset()
    assert moved_partition_columns([file("remove", "a"), file("remove", "b"), file("add", "b")]) == frozenset()
