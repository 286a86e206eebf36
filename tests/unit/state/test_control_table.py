"""Control tables: every write is a compare-and-swap, and a damaged table is never half read."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.core.errors import ConcurrentUpdateError, StateLayoutError, StorageUnavailableError
from airflow_backfill_provider.state import control_table, control_table_reader
from airflow_backfill_provider.state.conditions import Since, text_literal
from airflow_backfill_provider.state.control_table import ControlTable, Write
from airflow_backfill_provider.state.patience import Patience
from airflow_backfill_provider.state.stamps import stamped, stamped_schema
from tests.builders import commit_file
from tests.unit.lake.test_storage import NOBODY_THERE, PLACE
from tests.variants import exhaustive

SCHEMA = pa.schema([("n", pa.int64()), ("who", pa.string())])
REPOSITORY = Path(__file__).parents[3]


def row(n, who="tester"):
    return pa.Table.from_pylist([{"n": n, "who": who}], schema=SCHEMA)


def numbers(table, where=None):
    return sorted(table.read(where).column("n").to_pylist())


def add_next(table, who="tester"):
    """Append the number after the greatest, as one atomic step."""
    table.update(lambda rows: Write(row(max(rows.column("n").to_pylist(), default=0) + 1, who)))


@pytest.fixture
def table(lake):
    made = ControlTable(str(lake / "control"), SCHEMA)
    made.create()
    return made


# --- making and reading ---------------------------------------------------------------------------


def test_a_table_is_opened_once_for_each_of_its_versions(table, monkeypatch):
    """Opening reads the log, and an epoch asks its control tables some twenty times."""
    add_next(table)
    opened = []
    monkeypatch.setattr(
        control_table_reader, "DeltaTable", lambda *args, **options: opened.append(1) or DeltaTable(*args, **options)
    )
    for _ in range(3):
        assert numbers(table) == [1]
        assert table.greatest("n") == 1
    assert len(opened) == 1
    add_next(ControlTable(table.location, SCHEMA))
    opened.clear()
    assert [numbers(table), numbers(table)] == [[1, 2], [1, 2]]
    assert len(opened) == 1


def test_a_table_that_took_the_place_of_another_is_seen(table, lake):
    """Also one that ends with the same version."""
    add_next(table)
    other = ControlTable(str(lake / "other"), SCHEMA)
    other.create()
    add_next(other, "somebody else")
    assert table.read().column("who").to_pylist() == ["tester"]
    shutil.rmtree(table.location)
    shutil.copytree(other.location, table.location)
    assert table.read().column("who").to_pylist() == ["somebody else"]
    shutil.rmtree(table.location)
    with pytest.raises(StateLayoutError, match="is missing"):
        table.read()


def test_a_table_is_made_once_and_found_afterwards(lake):
    table = ControlTable(str(lake / "control"), SCHEMA)
    assert not table.exists()
    table.create()
    assert table.exists()
    add_next(table)
    table.create()
    assert numbers(table) == [1]
    assert DeltaTable(table.location).metadata().configuration == {
        "backfill.layoutVersion": "2",
        "delta.checkpointInterval": "20",
        "delta.deletedFileRetentionDuration": "interval 1 days",
        "delta.logRetentionDuration": "interval 1 days",
    }


def test_what_was_read_of_a_version_is_not_read_again(table):
    add_next(table)
    assert numbers(table) == [1]
    for file in data_files(table):
        file.unlink()
    assert numbers(table) == [1]
    with pytest.raises(StateLayoutError):
        table.read("n = 1")


def test_another_writers_rows_are_seen_at_once(table):
    assert numbers(table) == []
    add_next(ControlTable(table.location, SCHEMA))
    assert numbers(table) == [1]


def test_a_table_that_was_made_anew_is_read_anew(table):
    """I6: also where it has just as many versions."""
    add_next(table)
    assert numbers(table) == [1]
    shutil.rmtree(table.location)
    other = ControlTable(table.location, SCHEMA)
    other.create()
    other.update(lambda rows: Write(row(7)))
    assert numbers(table) == [7]


def test_where_there_can_be_no_table_is_said(lake):
    (lake / "notes.txt").write_text("x")
    table = ControlTable(str(lake / "notes.txt" / "control"), SCHEMA)
    with pytest.raises(StorageUnavailableError, match=r"notes\.txt/control cannot be reached .*Not a directory"):
        table.create()


def test_a_store_that_does_not_answer_is_said(lake):
    table = ControlTable(PLACE, SCHEMA, NOBODY_THERE)
    with pytest.raises(StorageUnavailableError, match=rf"^{PLACE} cannot be reached .*127\.0\.0\.1:1/"):
        table.exists()


@pytest.mark.parametrize("step", ["create", "update"])
def test_a_full_disk_is_said(lake, monkeypatch, step):
    """I6: whatever was half written does not count."""
    table = ControlTable(str(lake / "control"), SCHEMA)
    if step == "update":
        table.create()
        monkeypatch.setattr(control_table, "write_deltalake", _full)
    else:
        monkeypatch.setattr(DeltaTable, "create", _full)
    with pytest.raises(StorageUnavailableError, match=rf"^the storage of {re.escape(table.location)} is full"):
        table.create() if step == "create" else add_next(table)
    monkeypatch.undo()
    table.create()
    add_next(table)
    assert numbers(table) == [1]


def _full(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_looking_for_a_table_makes_none(tmp_path):
    assert not ControlTable(str(tmp_path / "control"), SCHEMA).exists()
    assert list(tmp_path.iterdir()) == []


def test_creators_at_once_all_find_one_table(lake):
    tables = [ControlTable(str(lake / "control"), SCHEMA) for _ in range(8)]
    start = threading.Barrier(8)

    def create(table):
        start.wait()
        table.create()
        add_next(table)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(create, tables))
    assert numbers(tables[0]) == list(range(1, 9))


def test_a_table_is_read_whole_or_by_a_condition(table):
    for n in range(1, 6):
        add_next(table, who=f"o'brien {n}")
    assert numbers(table) == [1, 2, 3, 4, 5]
    assert numbers(table, "n >= 4") == [4, 5]
    assert numbers(table, f"who = {text_literal(chr(111) + chr(39) + 'brien 2')}") == [2]
    assert numbers(table, "n > 99") == []
    assert table.read("n > 99").schema == SCHEMA
    assert table.greatest("n") == 5


def test_an_empty_table_has_no_rows_and_no_greatest_value(table):
    assert numbers(table) == []
    assert table.read().schema == SCHEMA
    assert table.greatest("n") == 0


@pytest.mark.parametrize("text", ["", "'", "''", "a'; DROP TABLE control; --", "\\'", "ü\n\u2028", '"', "%", "`", "{}"])
def test_a_text_in_a_condition_is_nothing_but_text(table, text):
    """Hostile names must not escape their place."""
    table.update(lambda _: Write(row(1, text)))
    table.update(lambda _: Write(row(2, text + "x")))
    assert numbers(table, f"who = {text_literal(text)}") == [1]


# --- deciding and writing -------------------------------------------------------------------------


def test_a_decision_gets_the_rows_it_asked_for(table):
    for _ in range(3):
        add_next(table)
    seen = []

    def decide(rows):
        seen.append(sorted(rows.column("n").to_pylist()))

    table.update(decide, reading="n >= 2")
    table.update(decide)
    assert seen == [[2, 3], [1, 2, 3]]


def test_a_decision_to_write_nothing_writes_nothing(table):
    version = DeltaTable(table.location).version()
    table.update(lambda _: None)
    assert DeltaTable(table.location).version() == version


def test_an_overwrite_replaces_all_rows_at_once(table):
    for _ in range(3):
        add_next(table)
    table.update(lambda _: Write(row(9), "overwrite"))
    assert numbers(table) == [9]


def test_an_error_in_a_decision_writes_nothing_and_comes_through(table):
    def decide(_):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        table.update(decide)
    assert numbers(table) == []


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize("other_mode", ["append", "overwrite"])
def test_whoever_was_overtaken_decides_again_on_what_is_there_by_then(table, mode, other_mode):
    """I5: a zombie cannot write what it decided long ago."""
    add_next(table)
    other = ControlTable(table.location, SCHEMA)
    seen = []

    def decide(rows):
        seen.append(sorted(rows.column("n").to_pylist()))
        if len(seen) == 1:
            other.update(lambda _: Write(row(50, "other"), other_mode))
        return Write(row(max(seen[-1]) + 1), mode)

    table.update(decide)
    after_other = [50] if other_mode == "overwrite" else [1, 50]
    assert seen == [[1], after_other]
    assert numbers(table) == ([51] if mode == "overwrite" else [*after_other, 51])


def test_whoever_is_overtaken_for_too_long_gives_up_with_an_error_that_a_retry_helps(table):
    """It waits longer and longer in between, and the total is bounded whoever else writes."""
    now, waits = [0.0], []

    def sleep(seconds):
        waits.append(seconds)
        now[0] += seconds

    patient = Patience(longest=60, first_wait=1, longest_wait=10, sleep=sleep, clock=lambda: now[0])
    mine = ControlTable(table.location, SCHEMA, patience=patient)
    other = ControlTable(table.location, SCHEMA)
    decided = []

    def decide(rows):
        decided.append(rows.num_rows)
        add_next(other)
        return Write(row(-1))

    with pytest.raises(ConcurrentUpdateError, match=r"during each of \d+ attempts within \d+ seconds; try"):
        mine.update(decide)
    assert ConcurrentUpdateError.retryable
    assert decided == list(range(len(waits) + 1))
    assert -1 not in numbers(table)
    assert 60 <= sum(waits) <= 70
    assert all(0 <= wait <= min(2**n, 10) for n, wait in enumerate(waits))


def test_whoever_is_not_overtaken_does_not_wait(table):
    mine = ControlTable(table.location, SCHEMA, patience=Patience(sleep=lambda _: pytest.fail("it waits")))
    add_next(mine)
    assert numbers(table) == [1]


@pytest.mark.slow
@pytest.mark.parametrize("writers", [16, exhaustive(96)])
def test_any_number_of_threads_at_once_lose_nothing(table, writers):
    """I5: of writers at the same moment each counts on from the one before, and none gives up."""
    start = threading.Barrier(writers)

    def work(name):
        mine = ControlTable(table.location, SCHEMA)
        start.wait()
        add_next(mine, name)

    with ThreadPoolExecutor(writers) as threads:
        list(threads.map(work, [f"thread {n}" for n in range(writers)]))
    rows = table.read().to_pylist()
    assert sorted(found["n"] for found in rows) == list(range(1, writers + 1))
    assert {found["who"] for found in rows} == {f"thread {n}" for n in range(writers)}


WORKER = """
import sys
import pyarrow as pa
from airflow_backfill_provider.state.control_table import Write
from airflow_backfill_provider.state.control_table import ControlTable
location, who = sys.argv[1:]
table = ControlTable(location, pa.schema([("n", pa.int64()), ("who", pa.string())]))
def decide(rows):
    n = max(rows.column("n").to_pylist(), default=0) + 1
    return Write(pa.Table.from_pylist([{"n": n, "who": who}], schema=table.schema))
print("ready", flush=True)
sys.stdin.readline()
for _ in range(6):
    table.update(decide)
"""


@pytest.mark.slow
def test_processes_lose_nothing(table):
    """I5, with nothing shared but the file system."""
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, table.location, f"process {n}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        )
        for n in range(2)
    ]
    for worker in workers:
        assert worker.stdout.readline() == b"ready\n"
    for worker in workers:
        worker.stdin.write(b"go\n")
        worker.stdin.flush()
    for worker in workers:
        worker.communicate(timeout=60)
        assert worker.returncode == 0
    rows = table.read().to_pylist()
    assert sorted(found["n"] for found in rows) == list(range(1, 13))
    assert {found["who"] for found in rows} == {f"process {n}" for n in range(2)}


# --- growing --------------------------------------------------------------------------------------


def test_many_writes_are_compacted_and_nothing_is_lost(table, monkeypatch):
    monkeypatch.setattr(control_table, "_COMPACT_FILES_AT", 20)
    for n in range(1, 26):
        table.update(lambda _: Write(row(n)), reading="n < 0")  # noqa: B023 - called at once
    assert numbers(table) == list(range(1, 26))
    assert table.greatest("n") == 25
    # The twentieth write left one, and five more were written.
    assert len(DeltaTable(table.location).file_uris()) == 6


def test_a_full_disk_puts_a_compaction_off(table, monkeypatch, caplog):
    add_next(table)
    monkeypatch.setattr(control_table, "_COMPACT_FILES_AT", 1)
    monkeypatch.setattr(control_table, "write_deltalake", _full)
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
    """I5: the 100th file of two runners at once. Four threads that compact all the time show it, too."""
    for _ in range(5):
        add_next(table)
    monkeypatch.setattr(control_table, "_COMPACT_FILES_AT", 3)
    stale = table._open_newest()
    table._compact(table._open_newest())
    # The other one committed after this one had looked at the log for the last time.
    monkeypatch.setattr(DeltaTable, "update_incremental", lambda _: None)
    with caplog.at_level("INFO"):
        table._compact(stale)
    assert numbers(table) == list(range(1, 6))
    assert caplog.messages[-1].startswith(
        f"control table {table.location} was not compacted, the next write tries again: Failed to commit"
    )


def test_a_write_is_done_also_if_nothing_can_be_compacted(table, monkeypatch):
    """What is wrong with older rows, whoever needs them is told; the write did not."""
    add_next(table)
    damage_data_cut(table)
    monkeypatch.setattr(control_table, "_COMPACT_FILES_AT", 2)
    table.update(lambda _: Write(row(2)), reading=Since("n", 2))
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
        # As many as are written between two times, and the compacted ones.
        assert len(data_files(forgetful)) <= 20
        assert len(log_files(forgetful)) <= 22
    assert numbers(forgetful) == ([50] if mode == "overwrite" else list(range(1, 51)))


@pytest.mark.slow
def test_whoever_was_overtaken_by_more_than_the_log_still_has_decides_again(forgetful):
    """I5: the entry that it wants to write is free again, and yet it writes nothing of what it decided."""
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


def test_what_was_replaced_a_moment_ago_is_kept_for_whoever_reads_it(table, monkeypatch):
    monkeypatch.setattr(control_table, "_CLEAN_EVERY", 2)
    opened = table._open()
    for n in range(1, 6):
        table.update(lambda _: Write(row(n), "overwrite"))  # noqa: B023 - called at once
        if n == 1:
            opened = table._open()
    assert table._read(opened, None).to_pylist() == row(1).to_pylist()
    assert numbers(table) == [5]


def test_a_file_that_another_writer_is_about_to_commit_is_kept_and_one_that_nobody_did_goes(table, monkeypatch):
    monkeypatch.setattr(control_table, "_CLEAN_EVERY", 2)
    add_next(table)
    fresh, left_over = Path(table.location, "fresh.parquet"), file_that_nobody_committed(table)
    shutil.copy(left_over, fresh)
    add_next(table)
    add_next(table)
    assert fresh.exists()
    assert not left_over.exists()
    assert numbers(table) == [1, 2, 3]


def test_files_are_removed_by_the_write_that_is_due_and_by_no_other(table, monkeypatch):
    monkeypatch.setattr(control_table, "_CLEAN_EVERY", 4)
    removed_by = []
    while (version := DeltaTable(table.location).version() + 1) <= 12:
        left_over = file_that_nobody_committed(table)
        add_next(table)
        if not left_over.exists():
            removed_by.append(version)
    # A removal is in the log itself, so that not each version is a write.
    assert removed_by == [4, 8, 12]


def file_that_nobody_committed(table):
    """Return a data file that a writer left behind two days ago."""
    left_over = Path(table.location, "left-over.parquet")
    left_over.write_bytes(b"half a file")
    os.utime(left_over, (time.time() - 2 * 86_400,) * 2)
    return left_over


def test_a_write_is_done_also_if_nothing_can_be_removed(table, monkeypatch, caplog):
    monkeypatch.setattr(control_table, "_CLEAN_EVERY", 1)

    def refuse(*_, **__):
        raise PermissionError("read-only")

    monkeypatch.setattr(DeltaTable, "vacuum", refuse)
    with caplog.at_level("INFO"):
        add_next(table)
    assert numbers(table) == [1]
    assert caplog.messages[-1] == f"replaced files of control table {table.location} were not removed: read-only"


# --- damage ---------------------------------------------------------------------------------------


def data_files(table):
    return list(Path(table.location).glob("*.parquet"))


def damage_log(table):
    """A crash of the machine in the middle of writing the newest entry."""
    file = commit_file(table.location, 1)
    file.write_bytes(file.read_bytes()[:40])


def damage_log_binary(table):
    commit_file(table.location, 1).write_bytes(b"\x00\xff\x80" * 50)


def damage_log_hole(table):
    commit_file(table.location, 0).unlink()


def damage_data_gone(table):
    for file in data_files(table):
        file.unlink()


def damage_data_cut(table):
    for file in data_files(table):
        file.write_bytes(file.read_bytes()[:30])


def damage_foreign_column(table):
    write_deltalake(
        table.location, pa.table({"n": [9], "who": ["x"], "extra": [1]}), mode="overwrite", schema_mode="overwrite"
    )


def damage_other_table(table):
    write_deltalake(table.location, pa.table({"a": [1]}), mode="overwrite", schema_mode="overwrite")


def damage_other_types(table):
    write_deltalake(
        table.location, pa.table({"n": ["not a number"], "who": ["x"]}), mode="overwrite", schema_mode="overwrite"
    )


DAMAGE = [
    damage_log,
    damage_log_binary,
    damage_log_hole,
    damage_data_gone,
    damage_data_cut,
    damage_foreign_column,
    damage_other_table,
    damage_other_types,
]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_table_is_refused_with_what_to_do_and_never_written_to(table, damage):
    """I6: unreadable state."""
    add_next(table)
    add_next(table)
    damage(table)
    before = {path: path.read_bytes() for path in Path(table.location).rglob("*") if path.is_file()}
    for look in (table.read, lambda: add_next(table)):
        with pytest.raises(StateLayoutError) as caught:
            look()
        assert table.location in str(caught.value)
        assert "create the job again" in str(caught.value)
        assert not caught.value.retryable
    assert {path: path.read_bytes() for path in Path(table.location).rglob("*") if path.is_file()} == before


def test_a_missing_table_is_refused_with_what_to_do(tmp_path):
    with pytest.raises(
        StateLayoutError, match="is missing; restore .* or delete them and the view, and create the job again"
    ):
        ControlTable(str(tmp_path / "control"), SCHEMA).read()


@pytest.mark.parametrize(
    ("layout", "refused"),
    [("2", False), ("1", True), ("3", True), ("999", True), (None, True), ("", True), ("one", True), ("1.5", True)],
)
def test_a_layout_that_nobody_knows_is_refused_before_a_row_is_read(tmp_path, layout, refused):
    """I6 and design §5.12: checked on open."""
    configuration = {} if layout is None else {"backfill.layoutVersion": layout}
    table = ControlTable(str(tmp_path / "control"), SCHEMA)
    DeltaTable.create(
        table.location, stamped_schema(SCHEMA), configuration=configuration, raise_if_key_not_exists=False
    )
    for look in (table.read, table.create, lambda: table.update(lambda _: Write(row(1))), lambda: table.greatest("n")):
        if not refused:
            look()
            continue
        with pytest.raises(StateLayoutError, match="upgrade airflow-backfill-provider") as caught:
            look()
        assert f"layout version {layout}" in str(caught.value)


def test_a_crash_before_the_log_entry_leaves_the_table_as_it_was(table):
    """Data files without a log entry are nobody's."""
    add_next(table)
    write = stamped(pa.table({"n": [99], "who": ["crashed"]}, SCHEMA), 2)
    write_deltalake(table.location, write, mode="append")
    commit_file(table.location, 2).unlink()
    assert numbers(table) == [1]
    add_next(table)
    assert numbers(table) == [1, 2]


def test_the_log_is_checkpointed_so_that_opening_stays_quick(table):
    for _ in range(21):
        add_next(table)
    last = json.loads((Path(table.location) / "_delta_log" / "_last_checkpoint").read_text(encoding="utf-8"))
    assert last["version"] >= 19
    assert numbers(table) == list(range(1, 22))
