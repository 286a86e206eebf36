"""Data files of another table are copied byte by byte, or not at all."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.lake.log.added_files import AppendTransaction, commit_files, open_plain
from airflow_backfill_provider.lake.log.copied_files import copy_files

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", None]})


@pytest.fixture
def view(tmp_path):
    """A table without rows, with the columns of :data:`ROWS` in another order."""
    path = tmp_path / "view"
    write_deltalake(path, ROWS.select(["name", "id"]).slice(0, 0))
    return path


@pytest.fixture
def nightly(tmp_path):
    """A table with two files, of which the second version has one."""
    path = tmp_path / "nightly"
    write_deltalake(path, ROWS)
    write_deltalake(path, ROWS.slice(0, 1), mode="overwrite")
    return path


def copied(nightly, version, view):
    plain = open_plain(str(view))
    return copy_files(str(nightly), version, str(view), plain), plain


def test_copies_of_a_version_become_rows_once(nightly, view):
    files, plain = copied(nightly, 0, view)
    transaction = AppendTransaction("app", 1, "{}")
    assert commit_files(str(view), files, plain, transaction)
    assert not commit_files(str(view), files, plain, transaction)
    assert DeltaTable(view).to_pyarrow_table().select(ROWS.column_names).sort_by("id") == ROWS


def test_copies_are_the_same_bytes_with_bounds_of_their_columns(nightly, view):
    (file,), _ = copied(nightly, 0, view)
    (original,) = [name for name in nightly.glob("*.parquet") if name.stat().st_size == file.size][:1] or [None]
    assert (view / file.path).read_bytes() == original.read_bytes()
    found = json.loads(file.stats)
    assert (found["numRecords"], found["minValues"]["id"], found["maxValues"]["id"]) == (3, 1, 3)
    assert found["nullCount"] == {"id": 0, "name": 1}


def test_copies_do_not_need_the_table_any_more(nightly, view):
    files, plain = copied(nightly, 1, view)
    for file in nightly.glob("*.parquet"):
        file.unlink()
    commit_files(str(view), files, plain, AppendTransaction("app", 1, "{}"))
    assert DeltaTable(view).to_pyarrow_table().num_rows == 1


def test_files_without_all_columns_are_not_copied(tmp_path, view):
    """The values of partition columns are in the log only."""
    write_deltalake(tmp_path / "parted", ROWS, partition_by=["name"])
    assert copied(tmp_path / "parted", 0, view)[0] is None
    assert not list(view.glob("*.parquet"))
