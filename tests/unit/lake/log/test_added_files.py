"""Files are added once per transaction, whatever other writers do meanwhile."""

from __future__ import annotations

import json
import os
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from airflow_backfill_provider.core.errors import EpochFailedError
from airflow_backfill_provider.lake.log import added_files
from airflow_backfill_provider.lake.log.added_files import AppendTransaction, add_files, open_plain
from airflow_backfill_provider.lake.log.delta_log import DeltaLog

NAME = "part-00000-a-c000.snappy.parquet"


def rows(*numbers):
    return pa.table({"n": pa.array(numbers, pa.int64())})


def footers(table, name):
    return {name: pq.read_metadata(table / name)}


@pytest.fixture
def table(tmp_path):
    """A table of one row."""
    write_deltalake(tmp_path, rows(0))
    return tmp_path


def append(table, *numbers, name=NAME, version=1, transaction="app"):
    expected = open_plain(str(table))
    pq.write_table(rows(*numbers), table / name)
    return add_files(
        str(table), footers(table, name), expected, AppendTransaction(transaction, version, '{"epoch": 1}')
    )


def content(table):
    return sorted(DeltaTable(table).to_pyarrow_table().column("n").to_pylist())


def test_rows_are_there_with_their_transaction_and_metadata(table):
    assert append(table, 1, 2)
    assert content(table) == [0, 1, 2]
    commit = DeltaLog(str(table)).commit(1)
    assert (commit.transactions, commit.user_metadata, commit.changes_data) == ({"app": 1}, '{"epoch": 1}', True)


@pytest.mark.parametrize("version", [1, 0])
def test_a_transaction_that_the_table_has_seen_adds_nothing(table, version):
    append(table, 1)
    assert not append(table, 2, name="other.parquet", version=version)
    assert content(table) == [0, 1]


def test_the_next_version_is_added(table):
    append(table, 1)
    assert append(table, 2, name="other.parquet", version=2)
    assert content(table) == [0, 1, 2]


def test_no_files_still_leave_the_transaction(table):
    add_files(str(table), {}, open_plain(str(table)), AppendTransaction("app", 1, "{}"))
    assert DeltaTable(table).transaction_version("app") == 1
    assert content(table) == [0]


class Meanwhile:
    """Does something when a table was opened, before the first commit."""

    def __init__(self, action):
        self._actions = [action]

    def __call__(self, *arguments, **options):
        opened = DeltaTable(*arguments, **options)
        while self._actions:
            self._actions.pop()()
        return opened


def test_another_commit_meanwhile_is_looked_at_first(table, monkeypatch):
    expected = open_plain(str(table))
    pq.write_table(rows(1), table / NAME)
    other = Meanwhile(lambda: write_deltalake(table, rows(5), mode="append"))
    monkeypatch.setattr(added_files, "DeltaTable", other)
    assert add_files(str(table), footers(table, NAME), expected, AppendTransaction("app", 1, "{}"))
    assert content(table) == [0, 1, 5]


def test_the_same_transaction_meanwhile_wins(table, monkeypatch):
    """The commit that was faster has the transaction, so nothing is added, and nothing is refused."""
    expected = open_plain(str(table))
    pq.write_table(rows(1), table / NAME)
    same = CommitProperties(app_transactions=[Transaction("app", 1)])
    other = Meanwhile(lambda: write_deltalake(table, rows(5), mode="append", commit_properties=same))
    monkeypatch.setattr(added_files, "DeltaTable", other)
    assert not add_files(str(table), footers(table, NAME), expected, AppendTransaction("app", 1, "{}"))
    assert content(table) == [0, 5]


def test_a_table_with_other_columns_meanwhile_is_refused(table, monkeypatch):
    expected = open_plain(str(table))
    pq.write_table(rows(1), table / NAME)
    wider = pa.table({"n": pa.array([7], pa.int64()), "m": pa.array([7], pa.int64())})
    other = Meanwhile(lambda: write_deltalake(table, wider, mode="append", schema_mode="merge"))
    monkeypatch.setattr(added_files, "DeltaTable", other)
    with pytest.raises(EpochFailedError, match="changed, while the epoch wrote; run the epoch again"):
        add_files(str(table), footers(table, NAME), expected, AppendTransaction("app", 1, "{}"))
    assert content(table) == [0, 7]


def test_another_table_at_the_location_is_refused(table):
    expected = open_plain(str(table))
    shutil.rmtree(table)
    write_deltalake(table, rows(7))
    pq.write_table(rows(1), table / NAME)
    with pytest.raises(EpochFailedError, match="was recreated"):
        add_files(str(table), footers(table, NAME), expected, AppendTransaction("app", 1, "{}"))
    assert content(table) == [7]


def test_a_checkpoint_is_written_every_ten_versions(table):
    for version in range(1, 12):
        append(table, version, name=f"{version}.parquet", version=version)
    assert [version for version in DeltaLog(str(table)).files().checkpoints if version] == [10]


def test_a_checkpoint_that_fails_is_written_later(table, monkeypatch):
    for version in range(1, 10):
        append(table, version, name=f"{version}.parquet", version=version)
    (table / "_delta_log" / f"{10:020d}.checkpoint.parquet").mkdir()
    assert append(table, 10, version=10)
    assert len(content(table)) == 11


def test_where_no_table_is_nothing_is_plain(tmp_path):
    assert open_plain(str(tmp_path)) is None


@pytest.fixture
def clustered(table):
    """A table of one row with the features of a clustered one."""
    commit = table / "_delta_log" / f"{0:020d}.json"
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["clustering", "domainMetadata"]}
    lines = commit.read_text().splitlines()
    kept = [line for line in lines if not line.startswith('{"protocol"')]
    commit.write_text("\n".join([*kept, json.dumps({"protocol": protocol})]) + "\n")
    return table


def test_files_are_added_to_a_clustered_table(clustered):
    """deltalake itself refuses to."""
    assert append(clustered, 1, 2)
    assert not append(clustered, 3, name="other.parquet")
    assert append(clustered, 4, name="third.parquet", version=2)
    assert content(clustered) == [0, 1, 2, 4]
    assert DeltaLog(str(clustered)).commit(1).transactions == {"app": 1}


@pytest.mark.parametrize("kind", ["table", "clustered"])
def test_a_file_system_without_links_is_left_to_delta(request, kind, monkeypatch):
    """Only Delta's own writer can commit there, so no files are written that nobody could add."""
    folder = request.getfixturevalue(kind)
    before = sorted(folder.rglob("*"))

    def refused(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    assert open_plain(str(folder)) is None
    assert sorted(folder.rglob("*")) == before


def test_a_clustered_table_whose_next_version_is_to_have_a_checkpoint_is_left_to_delta(clustered):
    """Its own writer makes that commit, because deltalake's checkpoints may lack the clustering."""
    for version in range(1, 10):
        assert open_plain(str(clustered)) is not None
        append(clustered, version, name=f"{version}.parquet", version=version)
    assert DeltaTable(clustered).version() == 9
    assert open_plain(str(clustered)) is None
