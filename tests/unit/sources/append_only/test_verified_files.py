"""The tables of chosen files that verifications read."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.sources.append_only.verified_files import PREFIX, VerifiedFiles
from airflow_backfill_provider.sources.shared.file_log.entries import FoundFile

PROTOCOL = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
METADATA = {
    "metaData": {
        "id": "t",
        "schemaString": json.dumps({"type": "struct", "fields": []}),
        "partitionColumns": ["day"],
        "configuration": {},
    }
}


def add(path: str, day: str | None, **fields: Any) -> dict[str, Any]:
    return {"add": {"path": path, "partitionValues": {"day": day}, "size": 1, "modificationTime": 1, **fields}}


def remove(path: str, day: str | None) -> dict[str, Any]:
    return {"remove": {"path": path, "partitionValues": {"day": day}, "dataChange": False}}


def noted(path: str, day: str | None = "by epochs") -> FoundFile:
    return FoundFile(path=path, size=7, modified=5, rows=3, added_at=5, details=json.dumps({"day": day}))


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A table that appended three files, compacted one, and hid rows of another."""
    commits: list[list[dict[str, Any]]] = [
        [PROTOCOL, METADATA, add("a%20b", "1"), add("c", "2")],
        [add("d", "")],
        [remove("c", "2"), add("c2", "2", dataChange=False), add("d", "", deletionVector={"storageType": "u"})],
    ]
    log = tmp_path / "table" / "_delta_log"
    log.mkdir(parents=True)
    for version, actions in enumerate(commits):
        (log / f"{version:020d}.json").write_text("\n".join(map(json.dumps, actions)))
    (tmp_path / "file_log").mkdir()
    return tmp_path


def verified(lake: Path, version: int = 2) -> VerifiedFiles:
    return VerifiedFiles(log=DeltaLog(str(lake / "table")), version=version, file_log=str(lake / "file_log"))


def entries(location: str) -> list[Mapping[str, Any]]:
    lines = Path(location, "_delta_log", f"{0:020d}.json").read_text().splitlines()
    return [action["add"] for action in map(json.loads, lines) if "add" in action]


def test_partition_values_are_those_of_the_tables_log(lake: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Not those that epochs noted; also of a file that a compaction removed."""
    found = entries(verified(lake).table([noted("c"), noted("a b"), noted("d")]))
    assert [(Path(file["path"]).name, file["partitionValues"]) for file in found] == [
        ("c", {"day": "2", "__file": "0"}),
        ("a%20b", {"day": "1", "__file": "1"}),
        ("d", {"day": None, "__file": "2"}),
    ]
    assert not caplog.records


def test_rows_that_somebody_deleted_are_there(lake: Path) -> None:
    """The view has them, and the next epoch refuses the deletion."""
    assert "deletionVector" not in entries(verified(lake).table([noted("d")]))[0]


def test_what_only_the_file_log_knows_is_named(lake: Path, caplog: pytest.LogCaptureFixture) -> None:
    """I1: nothing is verified by the values of epochs without a word."""
    with caplog.at_level(logging.WARNING):
        found = entries(verified(lake).table([noted("old 1"), noted("a b"), noted("old 2")]))
    assert [file["partitionValues"]["day"] for file in found] == ["by epochs", "1", "by epochs"]
    assert found[0]["path"].endswith("/table/old%201")
    assert "partition values of 2 compacted data files (old 1, …)" in caplog.text


def test_steps_share_a_table_and_other_files_have_another(lake: Path) -> None:
    files = verified(lake)
    first = files.table([noted("c")])
    assert files.table([noted("c")]) == first
    assert files.table([noted("d")]) != first
    assert len(list((lake / "file_log").glob(f"{PREFIX}*"))) == 2


def test_tables_of_earlier_verifications_are_removed(lake: Path) -> None:
    files = verified(lake)
    first = Path(files.table([noted("c")]))
    log = first / "_delta_log" / f"{0:020d}.json"
    os.utime(log, (0, 0))
    files.table([noted("d")])
    assert not first.exists()
