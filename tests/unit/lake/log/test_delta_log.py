"""Commits of a Delta log, read as they were written."""

from __future__ import annotations

import datetime as dt
import json
import os

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction

from airflow_backfill_provider.lake.log.delta_log import DeltaLog, stamp_of
from airflow_backfill_provider.sources.delta.versions import offset_of
from tests.builders import CHANGE_DATA_FEED, NOW, Orders, commit_file, committed_at, edit_commit, write_table


@pytest.fixture
def orders(lake):
    return Orders(lake)


def commit_of(folder, *actions, text=None):
    """Read a commit that consists of these actions."""
    file = commit_file(folder, 0)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(map(json.dumps, actions)) if text is None else text, encoding="utf-8")
    return DeltaLog(str(folder)).commit(0)


def test_a_commit_says_when_and_by_what_it_was_made(orders):
    before = dt.datetime.now(dt.UTC) - dt.timedelta(milliseconds=1)
    orders.add(1)
    commit = orders.table.log.commit(0)
    assert commit.version == 0
    assert before <= commit.timestamp <= dt.datetime.now(dt.UTC)
    assert commit.operation == "WRITE"
    assert commit.changes_data
    assert commit.replaces_metadata
    assert (commit.user_metadata, dict(commit.transactions)) == (None, {})


def test_later_commits_replace_no_metadata(orders):
    orders.add(1)
    orders.add(2)
    assert not orders.table.log.commit(1).replaces_metadata


def test_transactions_and_metadata_of_the_writer_are_read(tmp_path):
    table = write_table(
        tmp_path / "t",
        {"k": pa.array([1])},
        commit_properties=CommitProperties(
            custom_metadata={"userMetadata": '{"digest": "ü"}'},
            app_transactions=[Transaction("airflow-backfill/o'brien", 7), Transaction("b", 2**40)],
        ),
    )
    commit = table.log.commit(0)
    assert commit.transactions == {"airflow-backfill/o'brien": 7, "b": 2**40}
    assert commit.user_metadata == '{"digest": "ü"}'


def test_compaction_changes_no_data(orders):
    orders.add(1)
    orders.add(2)
    orders.compact()
    commit = orders.table.log.commit(2)
    assert commit.operation == "OPTIMIZE"
    assert not commit.changes_data


def test_deletes_and_overwrites_change_data(orders):
    orders.add(1, 2)
    DeltaTable(orders.path).delete("id = 1")
    orders.change([2], amount=9)
    assert [orders.table.log.commit(version).changes_data for version in (1, 2)] == [True, True]


def test_properties_replace_metadata_and_change_no_data(orders):
    orders.add(1)
    DeltaTable(orders.path).alter.set_table_properties({"delta.logRetentionDuration": "interval 1 days"})
    commit = orders.table.log.commit(1)
    assert (commit.changes_data, commit.replaces_metadata) == (False, True)


@pytest.mark.parametrize(
    ("info", "timestamp"),
    [
        ({"timestamp": 1_000}, dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)),
        ({"timestamp": "1001"}, dt.datetime(1970, 1, 1, 0, 0, 1, 1000, tzinfo=dt.UTC)),
        ({"timestamp": 1_000, "inCommitTimestamp": 5_000}, dt.datetime(1970, 1, 1, 0, 0, 5, tzinfo=dt.UTC)),
        ({}, NOW),
    ],
)
def test_a_commits_time_is_the_one_it_was_committed_with(tmp_path, info, timestamp):
    """The file's own time, which copying changes, is the last resort."""
    commit_of(tmp_path, {"commitInfo": info})
    os.utime(commit_file(tmp_path, 0), (NOW.timestamp(), NOW.timestamp()))
    assert DeltaLog(str(tmp_path)).commit(0).timestamp == timestamp


def test_a_commit_without_any_information_is_read(tmp_path):
    commit = commit_of(tmp_path, {"add": {"path": "x", "dataChange": True}})
    assert (commit.operation, commit.user_metadata) == ("", None)
    assert commit.changes_data


@pytest.mark.parametrize(
    ("action", "changes"),
    [
        ({"add": {"path": "x", "dataChange": True}}, True),
        ({"add": {"path": "x", "dataChange": False}}, False),
        ({"add": {"path": "x"}}, True),
        ({"remove": {"path": "x", "dataChange": True}}, True),
        ({"remove": {"path": "x", "dataChange": False}}, False),
        ({"cdc": {"path": "x", "dataChange": False}}, True),
        ({"txn": {"appId": "a", "version": 1}}, False),
        ({"metaData": {"id": "x"}}, False),
        ({"protocol": {}}, False),
        ({"commitInfo": {"operation": "WRITE"}}, False),
    ],
)
def test_what_counts_as_a_change_of_rows(tmp_path, action, changes):
    assert commit_of(tmp_path, action).changes_data is changes


def test_blank_lines_are_no_actions(tmp_path):
    assert commit_of(tmp_path, text='\n{"txn": {"appId": "a", "version": 3}}\r\n\n').transactions == {"a": 3}


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85"])
def test_a_commit_may_contain_any_character(tmp_path, character):
    """A string of the upstream's rows gets into the commit by its statistics: reading the watermark must not fail."""
    table = write_table(tmp_path / "t", {"name": pa.array([f"a{character}b"])})
    assert character in commit_file(tmp_path / "t", 0).read_text(encoding="utf-8")
    assert table.watermark(offset_of(0)) is not None


def test_only_commits_are_versions(orders):
    """Beside them lie checkpoints, of which some are JSON, too, and checksums."""
    orders.add(1)
    orders.add(2)
    name = f"{7:020d}"
    for other in (f"{name}.checkpoint.0a1b.json", f"{name}.crc", f"{name}.compacted.json", "7.json", "_last.json"):
        (commit_file(orders.path, 0).parent / other).write_text("{}", encoding="utf-8")
    assert orders.table.log.versions() == [0, 1]


@pytest.mark.parametrize(
    ("said", "stamp"),
    [
        (None, {}),
        ("", {}),
        ("by hand", {}),
        ("[1]", {}),
        ("7", {}),
        ("null", {}),
        ('{"event": "epoch"}', {"event": "epoch"}),
    ],
)
def test_metadata_of_other_writers_is_no_stamp(tmp_path, said, stamp):
    assert stamp_of(commit_of(tmp_path, {"commitInfo": {"userMetadata": said}})) == stamp


def test_a_version_that_was_cleaned_up_or_does_not_exist_yet_is_none(orders):
    orders.add(1)
    orders.add(2)
    commit_file(orders.path, 0).unlink()
    log = orders.table.log
    assert log.commit(0) is None
    assert log.commit(1) is not None
    assert log.commit(2) is None


def test_versions_are_those_whose_commit_file_exists(orders):
    for i in range(12):
        orders.add(i)
    DeltaTable(orders.path).create_checkpoint()
    for version in range(3):
        commit_file(orders.path, version).unlink()
    log = commit_file(orders.path, 0).parent
    (log / "00000000000000000099.json.tmp").write_text("")
    (log / "_staged_commits").mkdir()
    (log / "00000000000000000005.crc").write_text("{}")
    assert orders.table.log.versions() == list(range(3, 12))


def test_a_path_without_a_table_has_no_versions(tmp_path):
    assert DeltaLog(str(tmp_path)).versions() == []
    assert DeltaLog(str(tmp_path)).commit(0) is None


def test_timestamps_can_be_set_for_tests(orders):
    """The tests about instants rely on it."""
    orders.add(1)
    committed_at(orders.path, 0, NOW)
    edit_commit(orders.path, 0, userMetadata="x")
    assert orders.table.log.commit(0).timestamp == NOW
    assert orders.table.log.commit(0).user_metadata == "x"
    assert DeltaTable(orders.path).metadata().configuration == CHANGE_DATA_FEED
