"""Whether a version of a table can still be read."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.lake.log.version_files import OF_LOG, missing_file


@pytest.fixture
def table(tmp_path):
    """Two versions, each with a file of its own in a folder whose name the log encodes."""
    path = tmp_path / "view"
    for version in range(2):
        rows = pa.table({"day": ["a b"], "id": [version]})
        write_deltalake(str(path), rows, partition_by=["day"], mode="overwrite")
    return path


def test_all_files_are_there(table):
    assert missing_file(str(table), 0) == ""
    assert missing_file(str(table), 1) == ""


def test_a_file_that_vacuum_deleted_is_named(table):
    DeltaTable(str(table)).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert missing_file(str(table), 0).endswith(".parquet")
    assert missing_file(str(table), 1) == ""


def test_a_log_that_no_longer_has_the_version(table):
    (table / "_delta_log" / f"{0:020d}.json").unlink()
    assert missing_file(str(table), 0) == OF_LOG


def test_a_deletion_vector_that_is_gone_is_named(table):
    """A file without it would show rows that were deleted."""
    commit = table / "_delta_log" / f"{1:020d}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            vector = {
                "storageType": "u",
                "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
                "sizeInBytes": 1,
                "cardinality": 1,
            }
            action["add"]["deletionVector"] = vector
    commit.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    assert missing_file(str(table), 1).startswith("ab/deletion_vector_")


def test_files_elsewhere_are_not_looked_for(table):
    """They belong to another table."""
    commit = table / "_delta_log" / f"{1:020d}.json"
    text = commit.read_text()
    (path,) = (json.loads(line)["add"]["path"] for line in text.splitlines() if "add" in json.loads(line))
    commit.write_text(text.replace(path, "s3://lake/elsewhere.parquet"))
    assert missing_file(str(table), 1) == ""
