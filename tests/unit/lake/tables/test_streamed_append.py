"""Batches are appended to a table one by one, in one commit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError

from airflow_backfill_provider.core.errors import StorageUnavailableError
from airflow_backfill_provider.lake.tables.streamed_append import append_streamed

ONCE = CommitProperties(max_commit_retries=0, custom_metadata={"by": "test"})


def batch(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(numbers, pa.int64()), "name": [f"n{number}" for number in numbers]})


@pytest.fixture
def table(lake: Path) -> Path:
    """A table of one row."""
    write_deltalake(str(lake / "t"), pa.Table.from_batches([batch(0)]))
    return lake / "t"


def append(table: Path, batches: Iterator[pa.RecordBatch], opened: DeltaTable | None = None) -> None:
    append_streamed(opened or DeltaTable(str(table)), str(table), batches, indexed=1, commit_properties=ONCE)


def data_files(table: Path) -> set[str]:
    return {file.name for file in table.glob("*.parquet")}


def test_all_batches_are_one_file_in_one_commit_with_bounds(table):
    taken = []

    def batches() -> Iterator[pa.RecordBatch]:
        for numbers in ((3, 1), (9, 5)):
            taken.append(numbers)
            yield batch(*numbers)

    append(table, batches())
    found = DeltaTable(str(table))
    assert sorted(found.to_pyarrow_table()["id"].to_pylist()) == [0, 1, 3, 5, 9]
    assert (found.version(), len(taken)) == (1, 2)
    log = (table / "_delta_log" / f"{1:020}.json").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in log.splitlines()]
    assert [line["commitInfo"]["by"] for line in lines if "commitInfo" in line] == ["test"]
    (added,) = (line["add"] for line in lines if "add" in line)
    stats = json.loads(added["stats"])
    assert (stats["numRecords"], stats["minValues"], stats["maxValues"]) == (4, {"id": 1}, {"id": 9})


def test_a_table_that_has_gone_on_is_not_appended_to(table):
    """I5."""
    opened = DeltaTable(str(table))
    write_deltalake(str(table), pa.Table.from_batches([batch(7)]), mode="append")
    with pytest.raises(CommitFailedError):
        append(table, iter([batch(1)]), opened)
    assert DeltaTable(str(table)).version() == 1


def test_an_error_of_the_rows_is_raised_as_it_is_and_leaves_nothing(table):
    def batches() -> Iterator[pa.RecordBatch]:
        yield batch(1)
        raise ZeroDivisionError

    before = data_files(table)
    with pytest.raises(ZeroDivisionError):
        append(table, batches())
    assert (data_files(table), DeltaTable(str(table)).version()) == (before, 0)


def test_a_storage_that_takes_nothing_is_named(table, monkeypatch):
    def full(*_: object) -> None:
        raise OSError("No route to host")

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_batch", full)
    with pytest.raises(StorageUnavailableError):
        append(table, iter([batch(1)]))
