"""The file log's table: additions in one commit, each against exactly what its writer read."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.core.errors import ConcurrentUpdateError, StateError
from airflow_backfill_provider.sources.shared.file_log import table
from airflow_backfill_provider.sources.shared.file_log.entries import FoundFile
from airflow_backfill_provider.sources.shared.file_log.table import FileLog


def found(number: int) -> FoundFile:
    return FoundFile(path=f"f{number}", size=1, modified=2, rows=3, added_at=4, details="{}")


@pytest.fixture
def log(tmp_path: Path) -> FileLog:
    return FileLog(str(tmp_path / "file_log"), ("listed",))


def test_what_is_added_is_read_back_by_another_process(log: FileLog):
    assert not log.read().exists
    log.add(log.read(), [found(0), found(1)], {"listed": 7})
    log.add(log.read(), [], {"listed": 8})
    log.add(log.read(), [found(2)], {"listed": 9})
    content = FileLog(log.location, ("listed",)).read()
    assert [(one.number, one.file) for one in content.placed.files] == [(0, found(0)), (1, found(1)), (2, found(2))]
    assert content.marks == {"listed": 9}
    assert content.log_id == log.read().log_id


def test_of_two_additions_to_the_same_log_one_fails(log: FileLog):
    """I5."""
    nothing = log.read()
    log.add(nothing, [found(0)], {})
    with pytest.raises(ConcurrentUpdateError):
        FileLog(log.location).add(nothing, [found(0)], {})
    before = log.read()
    log.add(before, [found(1)], {})
    with pytest.raises(ConcurrentUpdateError):
        FileLog(log.location).add(before, [found(1)], {})
    assert [one.file.path for one in log.read().placed.files] == ["f0", "f1"]


def test_many_data_files_become_one(log: FileLog, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(table, "MOST_DATA_FILES", 3)
    for number in range(5):
        log.add(log.read(), [found(number)], {"listed": number})
        log.tidy()
    assert len(DeltaTable(log.location).file_uris()) <= 3
    assert [one.file.path for one in log.read().placed.files] == [f"f{number}" for number in range(5)]
    assert log.read().marks == {"listed": 4}


def test_a_log_that_was_made_anew_has_another_id(log: FileLog):
    log.add(log.read(), [found(0)], {})
    first = log.read().log_id
    log.drop()
    assert not log.read().exists
    log.add(log.read(), [found(0)], {})
    assert log.read().log_id != first


def test_a_damaged_log_is_refused(log: FileLog):
    """I6."""
    log.add(log.read(), [found(0)], {})
    for file in Path(log.location).glob("*.parquet"):
        file.unlink()
    with pytest.raises(StateError, match="cannot be read"):
        FileLog(log.location).read()
