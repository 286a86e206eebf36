"""Creating a control table, and writing to it: every write is a compare-and-swap."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.core.errors import ConcurrentUpdateError, StorageUnavailableError
from airflow_backfill_provider.state import control_table
from airflow_backfill_provider.state.control_table import ControlTable, Write
from airflow_backfill_provider.state.retries import RetryPolicy
from airflow_backfill_provider.state.stamps import stamped
from tests.builders import commit_file
from tests.unit.state.counted_table import SCHEMA, add_next, full_disk, numbers, row
from tests.variants import exhaustive

REPOSITORY = Path(__file__).parents[3]


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


def test_a_path_that_cannot_hold_a_table_is_named(lake):
    (lake / "notes.txt").write_text("x")
    table = ControlTable(str(lake / "notes.txt" / "control"), SCHEMA)
    with pytest.raises(StorageUnavailableError, match=r"notes\.txt/control cannot be reached .*Not a directory"):
        table.create()


@pytest.mark.parametrize("step", ["create", "update"])
def test_a_full_disk_is_named(lake, monkeypatch, step):
    """I6: a write that was cut off does not count."""
    table = ControlTable(str(lake / "control"), SCHEMA)
    if step == "update":
        table.create()
        monkeypatch.setattr(control_table, "write_deltalake", full_disk)
    else:
        monkeypatch.setattr(DeltaTable, "create", full_disk)
    with pytest.raises(StorageUnavailableError, match=rf"^the storage of {re.escape(table.location)} is full"):
        table.create() if step == "create" else add_next(table)
    monkeypatch.undo()
    table.create()
    add_next(table)
    assert numbers(table) == [1]


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
def test_a_writer_that_was_overtaken_decides_again_on_the_new_rows(table, mode, other_mode):
    """I5: a zombie cannot write an outdated decision."""
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


def test_a_writer_that_is_overtaken_for_too_long_gives_up_with_a_retryable_error(table):
    """The waits get longer, and their total is bounded."""
    now, waits = [0.0], []

    def sleep(seconds):
        waits.append(seconds)
        now[0] += seconds

    patient = RetryPolicy(longest=60, first_wait=1, longest_wait=10, sleep=sleep, clock=lambda: now[0])
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


def test_a_writer_that_is_not_overtaken_does_not_wait(table):
    mine = ControlTable(table.location, SCHEMA, patience=RetryPolicy(sleep=lambda _: pytest.fail("it waits")))
    add_next(mine)
    assert numbers(table) == [1]


@pytest.mark.slow
@pytest.mark.parametrize("writers", [16, exhaustive(96)])
def test_many_threads_at_once_lose_nothing(table, writers):
    """I5: each writer counts on from the one before, and none gives up."""
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
    """I5: the processes share the file system alone."""
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


def test_a_crash_before_the_log_entry_leaves_the_table_as_it_was(table):
    """Data files without a log entry are not part of the table."""
    add_next(table)
    write = stamped(pa.table({"n": [99], "who": ["crashed"]}, SCHEMA), 2)
    write_deltalake(table.location, write, mode="append")
    commit_file(table.location, 2).unlink()
    assert numbers(table) == [1]
    add_next(table)
    assert numbers(table) == [1, 2]
