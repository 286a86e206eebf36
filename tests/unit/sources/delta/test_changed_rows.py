"""How many rows a commit of a Delta table changed, whoever wrote it."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.fs as arrow_fs
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.sources.delta.changed_rows import changed_rows

NOWHERE = arrow_fs.LocalFileSystem()


def rows(*ids, value=0):
    return pa.table({"id": pa.array(ids, pa.int64()), "value": pa.array([value] * len(ids), pa.int64())})


@pytest.fixture
def upstream(tmp_path):
    """A table with a change data feed, which deltalake writes: one file of a thousand rows."""
    path = str(tmp_path / "orders")
    write_deltalake(path, rows(*range(1000)), configuration={"delta.enableChangeDataFeed": "true"})
    return path


def counted(path):
    """Count the changed rows of the newest commit."""
    log = DeltaLog(path)
    return changed_rows(log.actions(log.versions()[-1]), log.storage)


def merge(path, source):
    merged = DeltaTable(path).merge(source, "t.id = s.id", source_alias="s", target_alias="t")
    merged.when_matched_update_all().when_not_matched_insert_all().execute()


def test_a_merge_of_deltalake_counts_what_it_changed_and_not_what_it_copied(upstream):
    """Its metrics have names of their own, and its file has all rows of the old one."""
    merge(upstream, rows(1, 2, 3, 5000, value=7))
    assert counted(upstream) == 4


@pytest.mark.parametrize(
    ("write", "changed"),
    [
        (lambda table: table.update(updates={"value": "1"}, predicate="id < 5"), 5),
        (lambda table: table.delete("id < 3"), 3),
        (lambda table: write_deltalake(table, rows(7000, 7001), mode="append"), 2),
        (lambda table: write_deltalake(table, rows(4, value=9), mode="overwrite", predicate="id = 4"), 2),
    ],
)
def test_other_writes_of_deltalake_count_what_they_changed(upstream, write, changed):
    write(DeltaTable(upstream))
    assert counted(upstream) == changed


@pytest.mark.parametrize("metrics", [None, {}, {"numUpdatedRows": "1000000"}, {"num_target_rows_updated": 0}, "no"])
def test_a_change_file_counts_whatever_the_metrics_say(upstream, metrics):
    """They are hints of a foreign writer, which may lack, or be too large or too small."""
    merge(upstream, rows(1, 2, 3, value=7))
    log = DeltaLog(upstream)
    actions = [action for action in log.actions(1) if "commitInfo" not in action]
    assert changed_rows([{"commitInfo": {"operationMetrics": metrics}}, *actions], log.storage) == 3


def test_several_change_files_are_estimated_by_the_largest(upstream):
    merge(upstream, rows(1, 2, 3, value=7))
    log = DeltaLog(upstream)
    (file,) = (action["cdc"] for action in log.actions(1) if "cdc" in action)
    other = {**file, "path": "gone", "size": file["size"] // 3}
    assert changed_rows([{"cdc": other}, {"cdc": file}], log.storage) == 4
    sizeless = {"path": file["path"]}
    assert changed_rows([{"cdc": sizeless}, {"cdc": sizeless}], log.storage) == 6


def commit(*, records=None, **metrics):
    added = {"path": "f", "dataChange": True}
    if records is not None:
        added["stats"] = json.dumps({"numRecords": records})
    return [{"commitInfo": {"operationMetrics": metrics}}, {"add": added}]


@pytest.mark.parametrize(
    ("actions", "changed"),
    [
        (commit(records=900, numTargetRowsInserted="1", numTargetRowsDeleted=2, numOutputRows="900"), 3),
        (commit(records=900, num_target_rows_updated=4, num_target_rows_copied=896, num_output_rows=900), 4),
        (commit(records=900, num_updated_rows=5, num_copied_rows=895), 5),
        (commit(numOutputRows="7"), 7),
        (commit(records=8, numOutputRows="many"), 8),
        (commit(records=8, numOutputRows="-1"), 8),
        (commit(records="²"), 0),
        (commit(), 0),
        ([{"add": {"path": "f", "dataChange": True, "stats": "{"}}], 0),
        ([{"add": {"path": "f", "dataChange": True, "stats": "3"}}], 0),
        ([{"add": {"path": "f", "dataChange": False, "stats": '{"numRecords": 9}'}}], 0),
        ([], 0),
    ],
)
def test_a_commit_without_a_change_file_counts_by_its_metrics_and_then_by_its_files(actions, changed):
    assert changed_rows(actions, NOWHERE) == changed


def test_a_change_file_that_cannot_be_read_counts_by_the_metrics(tmp_path):
    """The epoch that reads it says why."""
    told = {"commitInfo": {"operationMetrics": {"numUpdatedRows": "6"}}}
    storage = arrow_fs.SubTreeFileSystem(str(tmp_path), NOWHERE)
    assert changed_rows([told, {"cdc": {"path": "gone", "size": 9}}], storage) == 6
    (tmp_path / "torn").write_bytes(b"PAR1")
    assert changed_rows([told, {"cdc": {"path": "torn", "size": 9}}], storage) == 6
    assert changed_rows([{"cdc": {"path": "torn", "size": 9}}], storage) == 0
