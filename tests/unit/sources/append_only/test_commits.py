"""What commits of a Delta table append, and which are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_backfill_provider.core.errors import ChangeFeedGapError, UpstreamError
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.sources.append_only.commits import AppendedFiles


def added(path: str, *, rows: int | None = 3, **fields: Any) -> dict[str, Any]:
    stats = {} if rows is None else {"stats": json.dumps({"numRecords": rows})}
    entry = {"path": path, "size": 9, "modificationTime": 5, "partitionValues": {"d": "1"}, "dataChange": True}
    return {"add": {**entry, **stats, **fields}}


def appended(folder: Path, *commits: list[dict[str, Any]]) -> list[tuple[str, int]]:
    log = folder / "_delta_log"
    log.mkdir()
    for version, actions in enumerate(commits, start=1):
        info = {"commitInfo": {"operation": f"OPERATION {version}", "timestamp": 1000 * version}}
        (log / f"{version:020d}.json").write_text("\n".join(map(json.dumps, [info, *actions])))
    files = AppendedFiles(DeltaLog(str(folder)), lambda _: 42).within(0, len(commits))
    assert all((file.size, file.modified, file.details) == (9, 5, '{"d": "1"}') for file in files)
    return [(file.path, file.rows) for file in files]


def test_files_with_rows_are_appended_in_the_order_of_the_log(tmp_path: Path):
    commits = [[added("b%20c"), added("empty", rows=0)], [added("a", rows=None)]]
    assert appended(tmp_path, *commits) == [("b c", 3), ("a", 42)]


def test_compaction_appends_nothing(tmp_path: Path):
    rewritten = [{"remove": {"path": "a", "dataChange": False}}, added("c", dataChange=False)]
    assert appended(tmp_path, [added("a")], rewritten) == [("a", 3)]


@pytest.mark.parametrize(
    "action",
    [
        {"remove": {"path": "a", "dataChange": True}},
        {"remove": {"path": "a"}},
        added("a", deletionVector={"cardinality": 1}),
        added("a", deletionVector={"cardinality": 1}, dataChange=False),
    ],
)
def test_a_commit_that_changes_rows_is_refused_by_its_version_and_operation(tmp_path: Path, action: dict[str, Any]):
    """I6."""
    with pytest.raises(UpstreamError, match=r"version 2 of .*\(OPERATION 2\).*append_only.*rebuild"):
        appended(tmp_path, [added("a")], [action])


@pytest.mark.parametrize("path", ["/elsewhere/a", "file:/elsewhere/a", "s3://bucket/a"])
def test_files_of_another_table_are_refused(tmp_path: Path, path: str):
    with pytest.raises(UpstreamError, match="shallow clone"):
        appended(tmp_path, [added(path)])


def test_a_commit_that_is_gone_is_refused(tmp_path: Path):
    """I6."""
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(ChangeFeedGapError, match="version 3 of .* is gone"):
        AppendedFiles(DeltaLog(str(tmp_path)), lambda _: 0).within(2, 3)


def test_an_empty_partition_value_is_null_at_every_epoch(tmp_path: Path):
    """I1: the first epoch's files come from deltalake, which reads it as null, and later ones from commits."""
    log = tmp_path / "_delta_log"
    log.mkdir()
    (log / f"{1:020d}.json").write_text(json.dumps(added("a", partitionValues={"d": ""})))
    (file,) = AppendedFiles(DeltaLog(str(tmp_path)), lambda _: 1).within(0, 1)
    assert json.loads(file.details) == {"d": None}
