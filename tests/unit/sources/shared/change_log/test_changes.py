"""Rows of a change log as Arrow has them."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pyarrow as pa
import pytest

from airflow_backfill_provider.sources.shared.change_log import changes
from airflow_backfill_provider.sources.shared.change_log.changes import SCHEMA, LoggedChange, LoggedKind, arrow_batches

AT = dt.datetime(2026, 3, 29, 1, 30, 0, 123_456, tzinfo=dt.UTC)


def change(number=1, kind=LoggedKind.INSERT, **fields):
    return LoggedChange(
        **{"offset": 101, "number": number, "transaction": 7, "committed_at": AT, "table": "5", "kind": kind, **fields}
    )


def rows_of(found):
    return pa.Table.from_batches(arrow_batches(found), SCHEMA).to_pylist()


def test_a_change_is_a_row():
    assert rows_of([change(offset=2**63 - 1, number=2**40, transaction=2**32 - 1, new={"id": "1"})]) == [
        {
            "offset": 2**63 - 1,
            "number": 2**40,
            "transaction": 2**32 - 1,
            "committed_at": AT,
            "table": "5",
            "kind": "insert",
            "old": None,
            "new": [("id", "1")],
        }
    ]


def test_no_row_and_a_row_without_known_columns_differ_as_do_null_and_no_text():
    written = rows_of(
        [
            change(1, LoggedKind.TRUNCATE),
            change(2, LoggedKind.UPDATE, old={}, new={"a": None, "b": "", "ü \"'": "NULL"}),
        ]
    )
    assert [(row["old"], row["new"]) for row in written] == [
        (None, None),
        ([], [("a", None), ("b", ""), ("ü \"'", "NULL")]),
    ]


@pytest.mark.parametrize("kind", LoggedKind)
def test_each_kind_is_written_by_its_name(kind):
    (row,) = rows_of([change(kind=kind)])
    assert LoggedKind(row["kind"]) is kind


def test_an_instant_of_another_time_zone_is_the_same_instant():
    (row,) = rows_of([change(committed_at=AT.astimezone(dt.timezone(dt.timedelta(hours=5))))])
    assert row["committed_at"] == AT


@pytest.mark.parametrize(("count", "sizes"), [(0, []), (1, [1]), (3, [3]), (4, [3, 1]), (7, [3, 3, 1])])
def test_many_rows_come_in_batches_in_their_order(monkeypatch, count, sizes):
    monkeypatch.setattr(changes, "_BATCH", 3)
    batches = list(arrow_batches(change(number) for number in range(count)))
    assert [batch.num_rows for batch in batches] == sizes
    assert [number for batch in batches for number in batch["number"].to_pylist()] == list(range(count))
    assert all(batch.schema == SCHEMA for batch in batches)


def test_a_batch_is_there_before_the_next_rows_are_read(monkeypatch):
    """A large transaction need not fit into memory."""
    monkeypatch.setattr(changes, "_BATCH", 3)
    read = []

    def endless():
        while True:
            read.append(change(len(read)))
            yield read[-1]

    next(arrow_batches(endless()))
    assert len(read) == 3


def test_a_batch_of_long_texts_has_fewer_rows(monkeypatch):
    """A row may have a thousand times as much as another, and all of a batch is in memory."""
    monkeypatch.setattr(changes, "_BATCH_CHARACTERS", 10)
    texts = ["x" * 4, None, "x" * 3, "x" * 3, "x" * 40, "", "x"]
    rows = (replace(change(number), new={"a": text}, old={"a": "x"}) for number, text in enumerate(texts))
    assert [batch.num_rows for batch in arrow_batches(rows)] == [3, 2, 2]
