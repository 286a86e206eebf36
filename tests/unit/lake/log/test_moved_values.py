"""Whether a commit gives rows other values of a partition column, and records no change of them."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from airflow_backfill_provider.lake.log.moved_values import moves_values, partition_value


def entry(path, text, rows=1, *, hidden=0, **fields):
    vector = {"deletionVector": {"cardinality": hidden}} if hidden else {}
    stats = {} if rows is None else {"stats": json.dumps({"numRecords": rows})}
    return {"path": path, "partitionValues": {"p": text}, "dataChange": False, **stats, **vector, **fields}


def moves(removed, added, *, changes=(), kind="string", before=None):
    files = [
        *(("remove", file) for file in removed),
        *(("add", file) for file in added),
        *(("cdc", {"partitionValues": {"p": text}, "kinds": kinds}) for text, kinds in changes),
    ]
    return moves_values(files, {"p": kind}, lambda: before or {}, lambda entry: Counter(entry["kinds"]))


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


MIDNIGHT, EIGHT, SIXTEEN = "2026-01-01 00:00:00", "2026-01-01T08:00:00Z", "2026-01-01T16:00:00Z"
UPDATED = {"update_preimage": 1, "update_postimage": 1}
OF_THE_COLUMN = [(MIDNIGHT, {"update_preimage": 1}), (EIGHT, {"update_postimage": 1})]


def changed(path, text, rows):
    return entry(path, text, rows, dataChange=True)


@pytest.mark.parametrize(
    ("added", "changes", "is_moved"),
    [
        ([("b", EIGHT, 4)], [(EIGHT, UPDATED)], True),
        ([("b", EIGHT, 3)], [(EIGHT, {"delete": 1})], True),
        ([("b", EIGHT, None)], [(EIGHT, UPDATED)], True),
        ([("b", "2026-01-01T00:00:00Z", 4)], [("2026-01-01T00:00:00Z", UPDATED)], False),
        ([("b", MIDNIGHT, 3), ("c", EIGHT, 1)], OF_THE_COLUMN, False),
        ([("b", MIDNIGHT, None), ("c", EIGHT, 1)], OF_THE_COLUMN, False),
        ([("b", MIDNIGHT, 3)], [(MIDNIGHT, {"delete": 1})], False),
        ([("b", MIDNIGHT, 4), ("c", SIXTEEN, 2)], [(SIXTEEN, {"insert": 2})], False),
        ([("b", MIDNIGHT, 5)], [(MIDNIGHT, UPDATED)], False),
        ([("b", EIGHT, 4)], [], False),
    ],
    ids=[
        "an update copies three rows", "a delete copies three rows", "without numbers of rows", "the same instant",
        "an update of the column", "the same without numbers of rows", "a delete", "a merge that inserts",
        "wrong numbers of rows", "an overwrite",
    ],
)  # fmt: skip
def test_rows_that_a_statement_only_copies_keep_their_values(added, changes, is_moved):
    """I6: a session in another zone moves them, and records changes only of the rows that it changes."""
    files = [changed(*file) for file in added]
    assert moves([changed("a", MIDNIGHT, 4)], files, changes=changes, kind="timestamp") is is_moved


def test_files_of_changes_are_read_only_if_a_time_has_no_zone():
    """All sessions read the other texts in the same way."""
    wrong = [(EIGHT, {"no such kind": 1})]
    assert not moves([changed("a", EIGHT, 4)], [changed("b", SIXTEEN, 4)], changes=wrong, kind="timestamp")
    assert not moves([changed("a", MIDNIGHT, 4)], [changed("b", EIGHT, 4)], changes=wrong, kind="timestamp_ntz")
    assert moves([changed("a", MIDNIGHT, 4)], [changed("b", EIGHT, 4)], changes=wrong, kind="timestamp")


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
