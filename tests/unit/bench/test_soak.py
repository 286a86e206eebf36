"""The long run's own arithmetic: what is written before each epoch, what is compared, and what counts as flat."""

from __future__ import annotations

import statistics
from collections import Counter

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from bench.soak import report, writer
from bench.soak.long_run import LongRun
from bench.soak.report import FLAT, blocks_of
from bench.soak.sample import files_of

pytestmark = pytest.mark.slow  # imports Spark

FILES = {"data": 9, "data_bytes": 900, "log": 5, "log_bytes": 500}


@pytest.fixture(autouse=True)
def _short_runs_are_long(monkeypatch):
    monkeypatch.setattr(report, "LEAST_EPOCHS", 50)


def sample(epoch, *, reads=False, seconds=2.0, memory=100, live_bytes=None, **files):
    return {
        "epoch": epoch,
        "reads": reads,
        "inject_seconds": seconds / 4,
        "run_seconds": seconds,
        "python": {"now": memory},
        "java": {"now": memory},
        "live_bytes": live_bytes or memory,
        "tables": {"soak_view": FILES, "barrier_log": FILES | files},
    }


def results(samples):
    return {"block": 10, "samples": samples}


def figures(samples):
    return {target.what: target.figure(results(samples)) for target in FLAT}


def test_a_write_changes_a_key_once_and_deletes_as_many_rows_as_it_inserts():
    for number in (1, 10, 150, 1000):
        done = writer.written(1000, number)
        assert len({row["order_id"] for row in done}) == len(done)
    kinds = Counter(row["done"] for number in range(201, 301) for row in writer.written(100_000, number))
    assert kinds["insert"] == kinds["delete"] == 100 * writer.INSERTS + 100 // writer.MOVES_EVERY
    assert kinds["update"] == 100 * writer.UPDATES


def test_a_write_is_one_commit_with_all_its_changes(tmp_path):
    path = str(tmp_path / "orders")
    writer._make(path, 1000)
    writer._write(path, 1000, 10)

    rows = {row["order_id"]: row for row in DeltaTable(path).to_pyarrow_table().to_pylist()}
    expected = {row["order_id"]: row for row in writer.written(1000, 10)}
    assert DeltaTable(path).version() == 1
    assert len(rows) == 1000 + writer.INSERTS
    for key, row in expected.items():
        done = row.pop("done")
        assert rows.get(key) == (None if done == "delete" else row)
    changed = pa.table(DeltaTable(path).load_cdf(starting_version=1).read_all()).column("_change_type")
    assert Counter(changed.to_pylist()) == {
        "update_preimage": writer.UPDATES,
        "update_postimage": writer.UPDATES,
        "insert": writer.INSERTS + 1,
        "delete": 1,
    }


def test_files_of_a_log_are_counted_separately(tmp_path):
    for name in ("_delta_log/1.json", "_delta_log/_sidecars/2", "part-1", "_change_data/part-2", "part-3"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"12345")
    found = files_of(tmp_path)
    assert (found.data, found.data_bytes, found.log, found.log_bytes) == (3, 15, 2, 10)


def test_a_run_has_ten_blocks_and_reads_history_in_four_of_them():
    run = LongRun(epochs=1000, rows=20_000)
    assert (run.block, run.chunk) == (100, 50)
    assert LongRun(epochs=3, rows=10).block == 1


def test_epochs_that_fill_no_block_go_to_the_last():
    assert [len(block) for block in blocks_of(results([sample(n) for n in range(25)]))] == [10, 15]


def test_epochs_are_compared_with_those_of_their_kind():
    """An epoch that keeps a view fresh reads no chunk. The first block warms up."""
    reading = [sample(n, reads=True, seconds=9.0 if n < 10 else 4.0 if n < 20 else 5.0) for n in range(30)]
    mixed = [sample(n, reads=n < 35, seconds=1.0) for n in range(30, 40)]
    fresh = [sample(n, seconds=2.0 if n < 50 else 3.0) for n in range(40, 60)]
    found = figures(reading + mixed + fresh)
    assert found["last epochs that read history, against the first"] == 5 / 4
    assert found["last epochs of a finished view, against its first"] == 3 / 2


def test_memory_and_bytes_are_compared_by_the_maximum_of_a_block():
    samples = [
        sample(n, reads=n < 30, memory=1000 if n < 10 else 200 if n == 15 else 100, log_bytes=100) for n in range(50)
    ]
    samples[-1] = sample(49, memory=300, log_bytes=150, data=77)
    found = figures(samples)
    assert found["memory of Python after all epochs"] == found["memory of Java"] == 1.5
    assert found["their bytes at most"] == 150 / 2**20
    assert found["files of the control tables at most"] == 77


def test_a_run_that_is_too_short_is_not_compared():
    (memory,) = (target for target in FLAT if target.what == "memory of Java")
    with pytest.raises(statistics.StatisticsError, match="too short to compare"):
        memory.figure(results([sample(n) for n in range(49)]))
