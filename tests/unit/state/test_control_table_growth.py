"""A control table that grows: compactions, and the removal of files that nothing needs any more."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.core.errors import StateLayoutError
from airflow_backfill_provider.state import control_table
from airflow_backfill_provider.state.conditions import AtLeast
from airflow_backfill_provider.state.control_table import ControlTable, Write
from tests.builders import commit_file
from tests.unit.state.counted_table import SCHEMA, add_next, damage_data_cut, data_files, full_disk, numbers, row


def test_many_writes_are_compacted_and_nothing_is_lost(table, monkeypatch):
    monkeypatch.setattr(control_table, "_COMPACT_FILES_AT", 20)
    for n in range(1, 26):
        table.update(lambda _: Write(row(n)), reading="n < 0")  # noqa: B023 - called at once
    assert numbers(table) == list(range(1, 26))
    assert table.greatest("n") == 25
    # The twentieth write left one file, and five more were written.
    assert len(DeltaTable(table.location).file_uris()) == 6


def test_a_full_disk_puts_a_compaction_off(table, monkeypatch, caplog):
    add_next(table)
    monkeypatch.setattr(control_table, "_COMPACT_FILES_AT", 1)
    monkeypatch.setattr(control_table, "write_deltalake", full_disk)
    with caplog.at_level("INFO"):
        table._compact(table._open_newest())
    assert caplog.messages[-1].startswith(
        f"control table {table.location} was not compacted, the next write tries again: "
        f"the storage of {table.location} is full"
    )
    assert numbers(table) == [1]


def test_a_compaction_that_meets_a_writer_loses_nothing(table, monkeypatch):
    for _ in range(5):
        add_next(table)
    monkeypatch.setattr(control_table, "_COMPACT_FILES_AT", 3)
    stale = table._open_newest()
    with monkeypatch.context() as patched:
        patched.setattr(control_table, "_COMPACT_FILES_AT", 1000)
        add_next(table)
        patched.setattr(DeltaTable, "update_incremental", lambda _: None)
        patched.setattr(control_table, "_COMPACT_FILES_AT", 3)
        table._compact(stale)
    assert numbers(table) == list(range(1, 7))


def test_of_two_compactions_at_once_one_is_put_off(table, monkeypatch, caplog):
    """I5: two writers at once may both write the 100th file."""
    for _ in range(5):
        add_next(table)
    monkeypatch.setattr(control_table, "_COMPACT_FILES_AT", 3)
    stale = table._open_newest()
    table._compact(table._open_newest())
    # The other compaction committed after this one last read the log.
    monkeypatch.setattr(DeltaTable, "update_incremental", lambda _: None)
    with caplog.at_level("INFO"):
        table._compact(stale)
    assert numbers(table) == list(range(1, 6))
    assert caplog.messages[-1].startswith(
        f"control table {table.location} was not compacted, the next write tries again: Failed to commit"
    )


def test_a_write_succeeds_also_if_nothing_can_be_compacted(table, monkeypatch):
    """Older rows are damaged. A read of them raises an error, but the write doesn't need them."""
    add_next(table)
    damage_data_cut(table)
    monkeypatch.setattr(control_table, "_COMPACT_FILES_AT", 2)
    table.update(lambda _: Write(row(2)), reading=AtLeast("n", 2))
    assert table.read_since("n", 2).column("n").to_pylist() == [2]
    with pytest.raises(StateLayoutError, match="cannot be read"):
        table.read()


@pytest.fixture
def forgetful(lake, monkeypatch):
    """A table that keeps nothing longer than it must."""
    monkeypatch.setattr(control_table, "RETENTION", "interval 0 seconds")
    monkeypatch.setattr(control_table, "_CLEAN_EVERY", 10)
    made = ControlTable(str(lake / "forgetful"), SCHEMA)
    made.create()
    return made


def log_files(table):
    return [file for file in Path(table.location, "_delta_log").iterdir() if file.suffix in {".json", ".parquet"}]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_replaced_files_and_old_log_entries_are_removed(forgetful, mode, monkeypatch):
    monkeypatch.setattr(control_table, "_COMPACT_FILES_AT", 10)
    for n in range(1, 51):
        forgetful.update(lambda _: Write(row(n), mode), reading="n < 0")  # noqa: B023 - called at once
        # The files written between two cleanings, and the compacted ones.
        assert len(data_files(forgetful)) <= 20
        assert len(log_files(forgetful)) <= 22
    assert numbers(forgetful) == ([50] if mode == "overwrite" else list(range(1, 51)))


@pytest.mark.exhaustive
def test_a_writer_that_was_overtaken_by_more_commits_than_the_log_keeps_decides_again(forgetful):
    """I5: the log entry's number is free again, but the writer must not write its outdated decision."""
    add_next(forgetful)
    other = ControlTable(forgetful.location, SCHEMA)
    seen = []

    def decide(rows):
        seen.append(rows.num_rows)
        if len(seen) == 1:
            for _ in range(45):
                add_next(other)
            assert not commit_file(forgetful.location, 2).exists()
        return Write(row(max(rows.column("n").to_pylist()) + 1))

    forgetful.update(decide)
    assert seen == [1, 46]
    assert numbers(forgetful) == list(range(1, 48))


def test_files_that_were_just_replaced_are_kept_for_readers(table, monkeypatch):
    monkeypatch.setattr(control_table, "_CLEAN_EVERY", 2)
    reader = ControlTable(table.location, SCHEMA)
    opened = reader._open()
    for n in range(1, 6):
        table.update(lambda _: Write(row(n), "overwrite"))  # noqa: B023 - called at once
        if n == 1:
            opened = reader._open()
    assert reader._read(opened, None).to_pylist() == row(1).to_pylist()
    assert numbers(table) == [5]


def test_fresh_files_of_other_writers_are_kept_and_abandoned_ones_removed(table, monkeypatch):
    monkeypatch.setattr(control_table, "_CLEAN_EVERY", 2)
    add_next(table)
    fresh, left_over = Path(table.location, "fresh.parquet"), abandoned_file(table)
    shutil.copy(left_over, fresh)
    add_next(table)
    add_next(table)
    assert fresh.exists()
    assert not left_over.exists()
    assert numbers(table) == [1, 2, 3]


def test_every_nth_version_removes_files(table, monkeypatch):
    monkeypatch.setattr(control_table, "_CLEAN_EVERY", 4)
    removed_by = []
    while (version := DeltaTable(table.location).version() + 1) <= 12:
        left_over = abandoned_file(table)
        add_next(table)
        if not left_over.exists():
            removed_by.append(version)
    # A removal is an entry in the log, too, so not every version is a write.
    assert removed_by == [4, 8, 12]


def abandoned_file(table):
    """Return a data file that a writer wrote two days ago and never committed."""
    left_over = Path(table.location, "left-over.parquet")
    left_over.write_bytes(b"half a file")
    os.utime(left_over, (time.time() - 2 * 86_400,) * 2)
    return left_over


def test_a_write_succeeds_also_if_nothing_can_be_removed(table, monkeypatch, caplog):
    monkeypatch.setattr(control_table, "_CLEAN_EVERY", 1)

    def refuse(*_, **__):
        raise PermissionError("read-only")

    monkeypatch.setattr(DeltaTable, "vacuum", refuse)
    with caplog.at_level("INFO"):
        add_next(table)
    assert numbers(table) == [1]
    assert caplog.messages[-1] == f"replaced files of control table {table.location} were not removed: read-only"


def test_the_log_is_checkpointed_so_that_opening_stays_quick(table):
    for _ in range(21):
        add_next(table)
    last = json.loads((Path(table.location) / "_delta_log" / "_last_checkpoint").read_text(encoding="utf-8"))
    assert last["version"] >= 19
    assert numbers(table) == list(range(1, 22))
