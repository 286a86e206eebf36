"""Whether a commit without change rows gives rows other values of a partition column."""

from __future__ import annotations

import json

import pytest

from airflow_backfill_provider.lake.moved_values import moves_values, partition_value


def entry(path, text, rows=1, *, hidden=0, **fields):
    vector = {"deletionVector": {"cardinality": hidden}} if hidden else {}
    stats = {} if rows is None else {"stats": json.dumps({"numRecords": rows})}
    return {"path": path, "partitionValues": {"p": text}, "dataChange": False, **stats, **vector, **fields}


def moves(removed, added, *, kind="string", before=None):
    actions = [*({"remove": file} for file in removed), *({"add": file} for file in added)]
    return moves_values(actions, {"p": kind}, lambda: before or {})


def test_a_compaction_of_each_partition_moves_nothing():
    assert not moves([entry("a", "x"), entry("b", "x"), entry("c", "y")], [entry("d", "x", 2), entry("e", "y")])


def test_a_file_in_another_partition_moves_values():
    assert moves([entry("a", "x")], [entry("b", "y")])
    assert moves([entry("a", "x"), entry("b", "y")], [entry("c", "y", 2)])
    assert moves([entry("a", "x", None)], [entry("b", "y", None)])


@pytest.mark.parametrize(("empty", "null"), [("", None), (None, ""), ("", "")])
def test_an_empty_text_is_null(empty, null):
    """Spark writes null for it when it compacts."""
    assert not moves([entry("a", empty)], [entry("b", null)])
    assert moves([entry("a", empty)], [entry("b", " ")])


def test_a_padded_char_is_the_same_value():
    """Delta's scan pads CHAR, and a compaction writes what it read."""
    removed = [entry("a", "x"), entry("b", ""), entry("c", None)]
    assert not moves(removed, [entry("d", "x  "), entry("e", "   "), entry("f", None)], kind="char")
    assert moves(removed, [entry("d", "x  "), entry("e", None), entry("f", None)], kind="char")
    assert moves([entry("a", "x")], [entry("b", "x  ")])


def test_a_timestamp_without_zone_that_was_read_in_another_zone_moves():
    """A session in Los Angeles reads midnight there, and writes eight o'clock in UTC."""
    removed = [entry("a", "2026-01-01 00:00:00")]
    assert moves(removed, [entry("b", "2026-01-01T08:00:00.000000Z")], kind="timestamp")
    assert not moves(removed, [entry("b", "2026-01-01T00:00:00.000000Z")], kind="timestamp")


def test_rows_that_change_places_among_the_same_partitions_move():
    removed = [
        entry("a", "2026-01-01 00:00:00", 5),
        entry("b", "2026-01-01T00:00:00Z", 2),
        entry("c", "2026-01-01T08:00:00Z", 1),
    ]
    assert moves(
        removed, [entry("d", "2026-01-01T00:00:00Z", 2), entry("e", "2026-01-01T08:00:00Z", 6)], kind="timestamp"
    )
    assert not moves(
        removed, [entry("d", "2026-01-01T00:00:00Z", 7), entry("e", "2026-01-01T08:00:00Z", 1)], kind="timestamp"
    )


def test_numbers_of_rows_with_another_sum_prove_nothing():
    """Statistics may be wrong, and a compaction corrects them."""
    assert not moves([entry("a", "x", 5), entry("b", "y", 5)], [entry("c", "x", 5), entry("d", "y", 6)])


def test_files_without_rows_may_go():
    assert not moves([entry("a", "x"), entry("b", "y", 3, hidden=3), entry("c", "z", 0)], [entry("d", "x")])


def test_entries_without_values_are_looked_up_in_the_version_before():
    removed = {"path": "a", "dataChange": False}
    assert not moves([removed], [entry("b", "x")], before={"a": {"partitionValues": {"p": "x"}}})
    assert moves([removed], [entry("b", "x")], before={"a": {"partitionValues": {"p": "y"}}})


def test_commits_that_record_changes_and_those_that_only_add_are_left_alone():
    assert not moves([entry("a", "x", dataChange=True)], [entry("b", "y", dataChange=True)])
    assert not moves([], [entry("b", "y")])


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("decimal(10,2)", "1.50", "1.5"),
        ("double", "100.0", "1E+2"),
        ("boolean", "true", "True"),
        ("integer", "7", "07"),
        ("timestamp", "2026-01-01 00:00:00", "2026-01-01T01:00:00.000000+01:00"),
        ("timestamp_ntz", "2026-01-01 00:00:00", "2026-01-01T00:00:00.000000"),
        ("date", "", None),
    ],
)
def test_two_texts_of_one_value_are_equal(kind, one, other):
    """Writers differ in how they write a value."""
    assert partition_value(one, kind) == partition_value(other, kind)


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("string", "1.0", "1.00"),
        ("double", "NaN", "1.0"),
        ("timestamp", "+12026-01-01 00:00:00", "2026-01-01 00:00:00"),
    ],
)
def test_texts_of_other_values_differ(kind, one, other):
    assert partition_value(one, kind) != partition_value(other, kind)
