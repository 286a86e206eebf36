"""The commit of a table that wrote or removed a row, found in tables that deltalake has written."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.core.errors import RowNotTraceableError
from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder
from airflow_backfill_provider.lake.tables import row_trace
from airflow_backfill_provider.lake.tables.row_trace import RowTrace

ORDER = KeyOrder((KeyField(name="id", type="long"),))


def rows(*ids, name="a"):
    return pa.table({"id": pa.array(ids, pa.int64()), "name": pa.array([name] * len(ids), pa.string())})


@pytest.fixture
def table(tmp_path):
    """A table of nine rows in two files."""
    write_deltalake(tmp_path, rows(0, 1, 2, 3, 4))
    write_deltalake(tmp_path, rows(5, 6, 7, None), mode="append")
    return tmp_path


def written(table, key, version=None):
    trace = RowTrace(str(table), ORDER, version)
    [found] = trace.find((key,))
    commit = trace.written(found, (key,))
    return commit.version, commit.is_certain


def test_a_row_belongs_to_the_commit_that_added_its_file(table):
    assert written(table, 4) == (0, True)
    assert written(table, 7) == written(table, None) == (1, True)
    assert RowTrace(str(table), ORDER).find((77,)) == []


def test_a_row_that_an_update_only_copied_belongs_to_the_commit_before(table):
    DeltaTable(table).update(updates={"name": "'b'"}, predicate="id = 1")
    assert written(table, 1) == (2, True)
    assert written(table, 2) == (0, True)
    assert written(table, 1, version=1) == (0, True)


def test_a_compaction_writes_no_row(table):
    DeltaTable(table).update(updates={"name": "'b'"}, predicate="id = 1")
    DeltaTable(table).optimize.compact()
    assert [written(table, key) for key in (0, 1, 7)] == [(0, True), (2, True), (1, True)]


def test_without_the_files_from_before_a_row_is_at_most_as_new(table):
    DeltaTable(table).optimize.compact()
    DeltaTable(table).vacuum(0, enforce_retention_duration=False, dry_run=False)
    assert written(table, 1) == (2, False)


def test_a_log_that_begins_later_tells_no_more_than_that(table):
    DeltaTable(table).create_checkpoint()
    (table / "_delta_log" / f"{0:020d}.json").unlink()
    assert written(table, 1) == (1, False)


@pytest.mark.parametrize("feed", ["true", "false"])
def test_a_removed_row_belongs_to_the_commit_that_removed_it(tmp_path, feed):
    write_deltalake(tmp_path, rows(0, 1, 2), configuration={"delta.enableChangeDataFeed": feed})
    DeltaTable(tmp_path).delete("id = 1")
    write_deltalake(tmp_path, rows(8), mode="append")
    trace = RowTrace(str(tmp_path), ORDER)
    found = trace.removed((1,))
    assert found is not None
    assert (found.version, found.operation) == (1, "DELETE")
    assert trace.removed((77,)) is None


def test_the_newest_commit_that_touched_a_row_is_found(table):
    DeltaTable(table).update(updates={"name": "'b'"}, predicate="id = 1")
    trace = RowTrace(str(table), ORDER)
    found = trace.touched((6,), after=-1)
    assert found is not None
    assert found.version == 1
    assert trace.touched((6,), after=1) is None


def test_values_have_the_names_in_lower_case_and_those_of_partitions(tmp_path):
    write_deltalake(
        tmp_path,
        pa.table(
            {"id": [1], "Day": ["x"], "n": [None]},
            pa.schema([("id", pa.int64()), ("Day", pa.string()), ("n", pa.int64())]),
        ),
        partition_by="Day",
    )
    trace = RowTrace(str(tmp_path), ORDER)
    [found] = trace.find((1,))
    assert trace.values(found, ["id", "Day", "n"]) == {"id": 1, "day": "x", "n": None}


def test_a_search_through_very_many_rows_is_left_to_spark(table, monkeypatch):
    monkeypatch.setattr(row_trace, "MOST_ROWS", 3)
    with pytest.raises(RowNotTraceableError, match=r"leave 2 files with 9 rows \(0 MiB\), and the key may be in each"):
        RowTrace(str(table), ORDER).find((1,))
