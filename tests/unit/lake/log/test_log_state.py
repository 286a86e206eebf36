"""A version of a table as its log has it."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.log.log_state import LogState, log_state
from tests.builders import commit_file
from tests.deletion_vectors import added_in, hide


def read(path, version=None):
    return log_state(DeltaLog(str(path)), DeltaTable(path).version() if version is None else version)


@pytest.fixture
def table(tmp_path):
    """Two files in two partitions, one of them with deleted rows; then the other is replaced."""
    write_deltalake(tmp_path, pa.table({"k1": range(10), "day": ["a"] * 10}), partition_by=["day"])
    write_deltalake(tmp_path, pa.table({"k1": range(5), "day": [None] * 5}), mode="append")
    hide(tmp_path, added_in(tmp_path, 0), [0, 3])
    DeltaTable(tmp_path).delete("k1 = 4 AND day IS NULL")
    return tmp_path


def test_files_have_their_raw_entries(table):
    state = read(table)
    assert {*state.files} == {*pa.table(DeltaTable(table).get_add_actions()).column("path").to_pylist()}
    first = next(entry for entry in state.files.values() if "deletionVector" in entry)
    assert first["partitionValues"] == {"day": "a"}
    assert first["deletionVector"]["cardinality"] == 2
    assert "stats" not in first
    other = next(entry for entry in state.files.values() if "deletionVector" not in entry)
    assert other["partitionValues"] == {"day": None}
    assert json.loads(state.metadata["schemaString"])["fields"][0]["name"] == "k1"
    assert state.metadata["partitionColumns"] == ["day"]
    assert "deletionVectors" in state.protocol["readerFeatures"]


def test_an_older_version_has_what_was_there_then(table):
    assert [len(read(table, version).files) for version in range(4)] == [1, 2, 2, 2]
    assert not any("deletionVector" in entry for entry in read(table, 1).files.values())
    assert read(table, 1).protocol["minReaderVersion"] == 1


def test_a_checkpoint_says_the_same_as_the_commits_before_it(table):
    before = read(table)
    DeltaTable(table).create_checkpoint()
    for version in range(3):
        commit_file(table, version).unlink()
    after = read(table)
    assert after.files == before.files
    assert after.metadata["schemaString"] == before.metadata["schemaString"]
    assert dict(after.protocol) == before.protocol


def test_a_version_that_the_log_no_longer_has_cannot_be_read(table):
    commit_file(table, 1).unlink()
    with pytest.raises(OSError, match="00000000000000000001.json"):
        read(table, 3)


def test_a_changed_deletion_vector_removes_the_file_and_adds_it_again_in_any_order():
    state = LogState()
    state.apply([{"add": {"path": "a", "size": 1}}])
    removed = {"remove": {"path": "a"}}
    changed = {"add": {"path": "a", "size": 1, "deletionVector": {"cardinality": 2}}}
    for actions in ([removed, changed], [changed, removed]):
        state.apply(actions)
        assert state.files == {"a": changed["add"]}
    state.apply([removed])
    assert state.files == {}
