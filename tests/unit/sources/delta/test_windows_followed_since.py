"""Since which version a job could follow a table: everything of it is still there, and nothing else was meant."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.builders import CHANGE_DATA_FEED, commit_file, write_table
from tests.unit.sources.delta.delta_tables import as_created


def followed_since(source):
    found = source.followed_since(as_created(source.at()))
    newest = source.at()
    source.require_changes(found, newest.offset)
    source.require_used_columns(found, newest.offset, as_created(newest))
    return found.number


@pytest.fixture
def changed(orders):
    """Four versions, of which the last two remove the files of those before."""
    orders.add(1, 2)
    orders.add(3)
    orders.change([2], amount=5)
    orders.remove(3)
    return orders


def vacuum(path):
    DeltaTable(path).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


def test_a_table_of_which_nothing_is_gone_since_its_first_version(changed):
    assert followed_since(changed.table) == 0


def test_a_log_that_was_cleaned_up_since_its_checkpoint(cleaned):
    assert followed_since(cleaned) == 9


def test_a_vacuumed_table_since_the_last_file_that_it_removed(changed):
    vacuum(changed.path)
    assert followed_since(changed.table) == 3
    changed.add(4)
    assert followed_since(changed.table) == 3


def test_a_table_without_its_change_files_since_those_that_are_left(changed):
    """Rows before are still there, but not what became of them."""
    write_table(changed.path, {"id": pa.array([9], pa.int64())}, schema_mode="merge")
    DeltaTable(changed.path).update(updates={"amount": "7"}, predicate="id = 9")
    files = sorted(Path(changed.path, "_change_data").rglob("*.parquet"))
    assert files
    for file in files:
        file.unlink()
    assert followed_since(changed.table) == 5


def test_a_table_since_its_feed_is_on(lake):
    path = str(lake / "plain")
    for i in range(3):
        write_deltalake(path, pa.table({"id": pa.array([i], pa.int64())}), mode="append")
    DeltaTable(path).alter.set_table_properties(CHANGE_DATA_FEED)
    source = write_table(path, {"id": pa.array([3], pa.int64())})
    assert followed_since(source) == 3
    DeltaTable(path).alter.set_table_properties({"delta.enableChangeDataFeed": "false"})
    DeltaTable(path).alter.set_table_properties(CHANGE_DATA_FEED)
    assert followed_since(source) == 6


def test_a_table_since_it_has_the_used_columns(lake):
    path = str(lake / "grown")
    write_table(path, {"id": pa.array([1], pa.int64())})
    source = write_table(path, {"id": pa.array([2], pa.int64()), "n": pa.array([1])}, schema_mode="merge")
    write_table(path, {"id": pa.array([3], pa.int64()), "n": pa.array([1])})
    assert followed_since(source) == 1
    columns = as_created(source.at(), id="long")
    assert source.followed_since(columns).number == 0


def test_a_table_since_it_is_partitioned_by_a_used_column(lake):
    """Delta has no values of that column for the changes before."""
    path = str(lake / "divided")
    rows = {"id": pa.array([1], pa.int64()), "day": ["a"]}
    write_table(path, rows)
    source = write_table(path, rows, mode="overwrite", schema_mode="overwrite", partition_by=["day"])
    write_table(path, rows)
    assert followed_since(source) == 1
    assert source.followed_since(as_created(source.at(), id="long")).number == 0


def test_a_table_whose_first_commit_is_gone(changed):
    DeltaTable(changed.path).create_checkpoint()
    commit_file(changed.path, 0).unlink()
    assert followed_since(changed.table) == 3
