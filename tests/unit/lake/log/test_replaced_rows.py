"""Rows of a table are replaced in one commit, and only if they are still where they were found."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.core.errors import StorageUnavailableError
from airflow_backfill_provider.lake.files.deletion_vectors import hidden_rows, write_hidden_rows
from airflow_backfill_provider.lake.log import replaced_rows
from airflow_backfill_provider.lake.log.added_files import AppendTransaction, add_files, open_plain
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.log.log_state import WITH_STATISTICS, log_state
from airflow_backfill_provider.lake.log.replaced_rows import Replacement, replace_rows
from tests.unit.lake.log.test_plain_tables import field, made

FILE, OTHER = "part-00000-a.parquet", "part-00000-b.parquet"
FEATURES = ("appendOnly", "invariants", "changeDataFeed", "deletionVectors")
TRANSACTION = AppendTransaction("app", 7, '{"epoch": 7}')


def rows(*numbers: int, name: str = "x") -> pa.Table:
    return pa.table({"n": pa.array(numbers, pa.int64()), "name": [name] * len(numbers)})


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of two files: 0 to 9, and 10 to 12."""
    made(
        tmp_path,
        field("n"),
        field("name", "string"),
        features=FEATURES,
        enableDeletionVectors="true",
        enableChangeDataFeed="true",
    )
    for version, (name, numbers) in enumerate({FILE: range(10), OTHER: range(10, 13)}.items()):
        pq.write_table(rows(*numbers), tmp_path / name)
        footers = {name: pq.read_metadata(tmp_path / name)}
        add_files(str(tmp_path), footers, open_plain(str(tmp_path)), AppendTransaction("load", version, "{}"))
    return tmp_path


def replacing(places: dict[str, set[int]], gone: list[int], written: pa.Table) -> Replacement:
    """A number on both sides is an update."""
    come = written["n"].to_pylist()
    before, after = ([n in others for n in numbers] for numbers, others in ((gone, come), (come, gone)))
    flags = (pa.chunked_array([before], pa.bool_()), pa.chunked_array([after], pa.bool_()))
    return Replacement(places, rows(*gone), written, flags)


def replaced(
    table: Path,
    places: dict[str, set[int]],
    written: pa.Table,
    version: int = 2,
    transaction: AppendTransaction = TRANSACTION,
) -> bool:
    gone = [10 * (file == OTHER) + row for file, numbers in places.items() for row in numbers]
    replacement = replacing(places, gone, written)
    return replace_rows(str(table), replacement, open_plain(str(table)), version, transaction)


def state(table: Path):
    return log_state(DeltaLog(str(table)), DeltaTable(table).version(), WITH_STATISTICS)


def content(table: Path) -> list[int]:
    """The numbers in the table, read by its log."""
    found = []
    for path, entry in state(table).files.items():
        vector = entry.get("deletionVector")
        hidden = hidden_rows(table, vector) if vector else set()
        numbers = pq.read_table(table / path).column("n").to_pylist()
        found += [number for row, number in enumerate(numbers) if row not in hidden]
    return sorted(found)


def hidden_by_deltalake(table: Path) -> dict[str, set[int]]:
    """Another implementation's reading of the deletion vectors."""
    vectors = pa.table(DeltaTable(table).deletion_vectors().read_all()).to_pylist()
    return {
        Path(found["filepath"]).name: {row for row, stays in enumerate(found["selection_vector"]) if not stays}
        for found in vectors
    }


def test_rows_go_and_come_in_one_commit(table: Path) -> None:
    """I7: with the transaction and the stamp, and with the rows in the change feed."""
    assert replaced(table, {FILE: {1, 3}, OTHER: {2}}, rows(1, 40))
    assert content(table) == [0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 40]
    assert hidden_by_deltalake(table) == {FILE: {1, 3}, OTHER: {2}}
    commit = DeltaLog(str(table)).commit(3)
    assert commit is not None
    assert (commit.transactions, commit.user_metadata, commit.changes_data) == ({"app": 7}, '{"epoch": 7}', True)
    feed = pa.table(DeltaTable(table).load_cdf(3, 3).read_all()).select(["n", "_change_type"]).to_pylist()
    assert sorted((row["n"], row["_change_type"]) for row in feed) == [
        (1, "update_postimage"),
        (1, "update_preimage"),
        (3, "delete"),
        (12, "delete"),
        (40, "insert"),
    ]


def test_rows_that_were_hidden_before_stay_hidden(table: Path) -> None:
    assert replaced(table, {FILE: {1}}, rows())
    again = AppendTransaction("app", 8, "{}")
    assert replaced(table, {FILE: {0, 9}}, rows(99), 3, again)
    assert hidden_by_deltalake(table) == {FILE: {0, 1, 9}}
    assert content(table) == [2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 99]


def test_a_file_without_rows_leaves_the_table(table: Path) -> None:
    assert replaced(table, {OTHER: {0, 1, 2}}, rows())
    assert set(state(table).files) == {FILE}


def test_statistics_of_a_file_with_hidden_rows_are_bounds_only(table: Path) -> None:
    replaced(table, {FILE: {0}}, rows())
    statistics = json.loads(state(table).files[FILE]["stats"])
    assert (statistics["numRecords"], statistics["minValues"]["n"], statistics["tightBounds"]) == (10, 0, False)


def test_no_rows_still_leave_the_transaction(table: Path) -> None:
    assert replaced(table, {}, rows())
    assert DeltaTable(table).transaction_version("app") == 7
    assert content(table) == [*range(13)]


def test_without_a_change_feed_no_changes_are_written(tmp_path: Path) -> None:
    made(tmp_path, field("n"), field("name", "string"), features=FEATURES, enableDeletionVectors="true")
    assert replaced(tmp_path, {}, rows(1), 0)
    assert not (tmp_path / "_change_data").exists()


def files(table: Path) -> set[Path]:
    return {path for path in table.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("places", "version", "transaction"),
    [
        pytest.param({FILE: {1}}, 1, TRANSACTION, id="the table has moved on"),
        pytest.param({FILE: {1}}, 2, AppendTransaction("load", 1, "{}"), id="the transaction is there"),
        pytest.param({"gone.parquet": {1}}, 2, TRANSACTION, id="the file is gone"),
        pytest.param({FILE: {10}}, 2, TRANSACTION, id="the file has no such row"),
    ],
)
def test_nothing_is_written_if(table: Path, places, version: int, transaction: AppendTransaction) -> None:
    before = files(table)
    assert not replaced(table, places, rows(1), version, transaction)
    assert files(table) == before


def test_a_row_does_not_go_twice(table: Path) -> None:
    replaced(table, {FILE: {1}}, rows())
    assert not replaced(table, {FILE: {1}}, rows(5), 3, AppendTransaction("app", 8, "{}"))


def test_another_commit_at_the_last_moment_wins(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """I1: what it wrote may have moved the rows, so the version after it is not taken instead."""
    expected = open_plain(str(table))
    write = write_hidden_rows

    def meanwhile(*arguments):
        write_deltalake(table, rows(77), mode="append")
        return write(*arguments)

    monkeypatch.setattr(replaced_rows, "write_hidden_rows", meanwhile)
    replacement = replacing({FILE: {1}}, [1], rows(1, 40))
    assert not replace_rows(str(table), replacement, expected, 2, TRANSACTION)
    assert content(table) == [*range(13), 77]
    assert not [path for path in files(table) if path.name.startswith(("deletion_vector", "cdc", "_commit"))]


def test_files_stay_if_the_commit_may_be_there(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, link = open_plain(str(table)), os.link

    def linked(*arguments):
        link(*arguments)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "link", linked)
    with pytest.raises(StorageUnavailableError):
        replace_rows(str(table), replacing({FILE: {1}}, [1], rows(40)), expected, 2, TRANSACTION)
    assert content(table) == [0, *range(2, 13), 40]


def test_a_damaged_deletion_vector_is_left_to_delta(table: Path) -> None:
    replaced(table, {FILE: {1}}, rows())
    vector = next(table.glob("deletion_vector_*.bin"))
    vector.write_bytes(vector.read_bytes()[:-1] + b"?")
    assert not replaced(table, {FILE: {2}}, rows(5), 3, AppendTransaction("app", 8, "{}"))


def test_a_checkpoint_has_the_hidden_rows(table: Path) -> None:
    """Delta writes one at every tenth version."""
    for number in range(8):
        assert replaced(table, {FILE: {number}}, rows(100 + number), 2 + number, AppendTransaction("app", number, "{}"))
    assert (table / "_delta_log" / "_last_checkpoint").exists()
    for version in range(10):
        (table / "_delta_log" / f"{version:020d}.json").unlink()
    assert content(table) == [8, 9, 10, 11, 12, *range(100, 108)]
    assert hidden_by_deltalake(table) == {FILE: set(range(8))}
