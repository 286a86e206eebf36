"""Damaged tables and full disks give named errors, never those of a library (I6)."""

from __future__ import annotations

import errno
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.core import errors
from airflow_backfill_provider.core.scan.columns import OwnColumns
from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyField, KeyOrder
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.store.storage import DamagedLogError, panics_as_errors, storage_errors
from airflow_backfill_provider.lake.tables.table_files import table_files
from airflow_backfill_provider.sources.delta.source import DeltaSource
from airflow_backfill_provider.sources.delta.versions import offset_of
from airflow_backfill_provider.state.control_table import ControlTable
from airflow_backfill_provider.strategies.arrangement.files import ArrangementFiles
from tests.builders import Orders, commit_file, order_of

KEY = KeyOrder((KeyField(name="id", type="long"),))


class PanicException(BaseException):
    """What deltalake raises where Rust panics; its class cannot be imported."""


def test_a_panic_of_rust_is_an_ordinary_error():
    with pytest.raises(DamagedLogError, match="panicked: index out of bounds"), panics_as_errors():
        raise PanicException("index\nout of bounds")


def test_an_interrupt_is_no_panic():
    with pytest.raises(KeyboardInterrupt), panics_as_errors():
        raise KeyboardInterrupt


def test_a_panic_over_a_control_table_is_a_state_error(lake, monkeypatch):
    table = ControlTable(str(lake / "control"), pa.schema([("n", pa.int64())]))
    table.create()

    def panic(*_, **__):
        raise PanicException("boom")

    monkeypatch.setattr(DeltaTable, "transaction_version", panic)
    with pytest.raises(errors.StateLayoutError, match=r"cannot be read: deltalake panicked: boom"):
        table.read()


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError("Generic LocalFileSystem error ↳ Unable to copy data to file ↳ No space left on device (os error 28)"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
    ],
)
def test_a_full_disk_is_a_retryable_error(error):
    with pytest.raises(errors.StorageUnavailableError, match="is full; make room") as caught, storage_errors("/x"):
        raise error
    assert caught.value.retryable


@pytest.fixture
def orders(lake):
    made = Orders(lake)
    made.add(*range(10))
    return made


def data_file(path):
    return next(file for file in sorted(Path(path).glob("*.parquet")))


def cut(file):
    file.write_bytes(file.read_bytes()[:-30])


def overwrite(file):
    file.write_bytes(b"not Parquet" * 50)


def scramble(file):
    """Leave the footer alone."""
    content = bytearray(file.read_bytes())
    content[4:80] = b"\xff" * 76
    file.write_bytes(content)


@pytest.mark.parametrize("damage", [cut, overwrite, scramble, Path.unlink])
def test_planning_a_chunk_names_a_damaged_data_file(orders, damage):
    file = data_file(orders.path)
    damage(file)
    files, keys = orders.table.files_at(offset_of(0)).statistics(KEY)
    with pytest.raises(errors.DataFileError, match=f"data file {file.name} of .*orders is (damaged|gone)"):
        keys.count(files[0], EVERYTHING)


@pytest.mark.parametrize("text", ["{", "[]", '"x"', '{"add": 3}', '{"commitInfo": {"timestamp": "soon"}}', "\xff"])
def test_a_damaged_commit_is_named_by_its_table(orders, text):
    commit_file(orders.path, 0).write_text(text, encoding="latin-1")
    with pytest.raises(errors.TableLogError, match="the log of the Delta table at .*orders is damaged"):
        DeltaLog(orders.path).commit(0)


def test_listing_files_names_a_damaged_log(orders):
    commit_file(orders.path, 0).write_text("{", encoding="utf-8")
    with pytest.raises(errors.TableLogError, match="orders is damaged"):
        table_files(orders.path)
    with pytest.raises(errors.UpstreamNotFoundError, match="cannot be read"):
        DeltaSource(orders.path).at()


@pytest.fixture
def arrangement(lake):
    """A table with the columns of an arrangement by (vnode, k1)."""
    rows = pa.table(
        {
            "__vnode": pa.array([0, 0, 1], pa.int32()),
            "k1": pa.array([1, 2, 3], pa.int64()),
            "__epoch": pa.array([0, 0, 0], pa.int64()),
            "__is_upsert": [True] * 3,
            "__appeared": [False] * 3,
        }
    )
    path = str(lake / "arrangement_a1")
    write_deltalake(path, rows)
    write_deltalake(path, rows.set_column(2, "__epoch", pa.array([1, 1, 1], pa.int64())), mode="append")
    return path


@pytest.mark.parametrize("damage", [cut, overwrite, Path.unlink])
def test_a_damaged_arrangement_is_damaged_state(arrangement, damage):
    for file in Path(arrangement).glob("*.parquet"):
        damage(file)
    order = KeyOrder((KeyField(name="__vnode", type="integer"), *order_of("long").fields))
    with pytest.raises(errors.StateError, match="the arrangement at .*arrangement_a1 is damaged .* rebuild the job"):
        ArrangementFiles(arrangement).statistics(order, 0, OwnColumns())


def test_an_arrangement_with_a_damaged_log_is_damaged_state(arrangement):
    commit_file(arrangement, 1).write_text("{", encoding="utf-8")
    for look in (
        lambda: ArrangementFiles(arrangement).size(),
        lambda: ArrangementFiles(arrangement).smallest_of_base(0, OwnColumns()),
        lambda: ArrangementFiles(arrangement).statistics(KEY, 0, OwnColumns()),
    ):
        with pytest.raises(errors.StateError, match="the arrangement at .* is damaged"):
            look()
