"""Commits that this package writes into a log itself."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction

from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.log.own_commits import commit_append, has_links


def added(table, *numbers):
    name = f"part-{numbers[0]}.parquet"
    pq.write_table(pa.table({"n": pa.array(numbers, pa.int64())}), table / name)
    size = (table / name).stat().st_size
    return AddAction(
        path=name, size=size, partition_values={}, modification_time=1, data_change=True, stats='{"numRecords": 1}'
    )


@pytest.fixture
def table(tmp_path):
    """A table of one row."""
    write_deltalake(tmp_path, pa.table({"n": pa.array([0], pa.int64())}))
    return tmp_path


def commit(table, version, *files):
    commit_append(str(table), version, files, transaction=("app", 7), user_metadata='{"epoch": 7}')


def test_the_rows_are_there_with_transaction_and_metadata(table):
    commit(table, 1, added(table, 1), added(table, 2))
    opened = DeltaTable(table)
    assert sorted(opened.to_pyarrow_table()["n"].to_pylist()) == [0, 1, 2]
    assert opened.transaction_version("app") == 7
    found = DeltaLog(str(table)).commit(1)
    assert (found.operation, found.user_metadata, found.changes_data) == ("WRITE", '{"epoch": 7}', True)
    assert found.transactions == {"app": 7}


def test_a_version_is_taken_once(table):
    """I5: the first one has it, and what the second one staged is gone."""
    commit(table, 1, added(table, 1))
    with pytest.raises(CommitFailedError, match="version 1"):
        commit(table, 1, added(table, 2))
    assert sorted(DeltaTable(table).to_pyarrow_table()["n"].to_pylist()) == [0, 1]
    assert [file.name for file in (table / "_delta_log").iterdir() if file.name.startswith(".")] == []


def test_links_are_tried_where_commits_are_made(table, tmp_path_factory):
    before = sorted(table.rglob("*"))
    assert has_links(str(table))
    assert sorted(table.rglob("*")) == before
    assert not has_links(str(tmp_path_factory.mktemp("without a log")))
