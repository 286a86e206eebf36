"""What a process knows of tables in a bucket saves requests, and is never older than the table."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.lake.delta_log import DeltaLog
from airflow_backfill_provider.lake.one_listing import one_listing
from airflow_backfill_provider.lake.table_properties import table_properties
from airflow_backfill_provider.sources.delta.source import DeltaSource
from airflow_backfill_provider.sources.delta.versions import offset_of
from airflow_backfill_provider.state import control_table
from airflow_backfill_provider.state.control_table import ControlTable
from tests.integration.s3.proxy import FailingProxy
from tests.unit.state.counted_table import SCHEMA, add_next, numbers

pytestmark = pytest.mark.slow  # a server

ROW = pa.table({"n": pa.array([1], pa.int64())})


@pytest.fixture
def location(proxy: FailingProxy) -> str:
    return f"{proxy.root}/table"


@pytest.fixture
def create(proxy: FailingProxy, location: str) -> Callable[[str], None]:
    """Create the table with a property, in place of another one if there is one."""

    def replace(value: str) -> None:
        shutil.rmtree(folder_of(proxy, location), ignore_errors=True)
        DeltaTable.create(
            location,
            ROW.schema,
            configuration={"mine": value},
            storage_options=proxy.storage_options,
            raise_if_key_not_exists=False,
        )

    return replace


def folder_of(proxy: FailingProxy, location: str) -> Path:
    """Return where the server keeps a table."""
    return Path(proxy.folder, "data", location.removeprefix("s3a://"))


def let_an_hour_pass(proxy: FailingProxy, location: str) -> None:
    """Make a table's files older."""
    for file in folder_of(proxy, location).rglob("*.json"):
        os.utime(file, (time.time() - 3600, file.stat().st_mtime - 3600))


def append(proxy: FailingProxy, location: str) -> None:
    write_deltalake(location, ROW, mode="append", storage_options=proxy.storage_options)


def test_properties_are_asked_for_with_one_request(
    proxy: FailingProxy, location: str, create: Callable[[str], None]
) -> None:
    create("1")
    let_an_hour_pass(proxy, location)
    for _ in range(2):
        assert table_properties(location, proxy.storage_options) == {"mine": "1"}
    proxy.requests()
    assert table_properties(location, proxy.storage_options) == {"mine": "1"}
    assert len(proxy.requests()) == 1
    append(proxy, location)
    assert table_properties(location, proxy.storage_options) == {"mine": "1"}
    table = DeltaTable(location, storage_options=proxy.storage_options)
    table.alter.set_table_properties({"mine": "2"}, raise_if_not_exists=False)
    assert table_properties(location, proxy.storage_options) == {"mine": "2"}


def test_a_table_that_was_replaced_is_another_one(
    proxy: FailingProxy, location: str, create: Callable[[str], None]
) -> None:
    """I6; the new table has as many versions as the old one, of the same sizes, often in the same second."""
    source = DeltaSource(location, proxy.storage_options)
    ids = []
    for value in ("1", "2"):
        create(value)
        assert table_properties(location, proxy.storage_options) == {"mine": value}
        ids.append(source.at(source.latest()).table_id)
        ids.append(source.at(offset_of(0)).table_id)
    assert ids[0] == ids[1] != ids[2] == ids[3]


def test_a_commit_is_read_once(proxy: FailingProxy, location: str, create: Callable[[str], None]) -> None:
    create("1")
    let_an_hour_pass(proxy, location)
    for _ in range(2):
        log = DeltaLog(location, proxy.storage_options)
        assert log.versions() == [0]
        proxy.requests()
        assert log.written_at(0)
    assert len(proxy.requests()) == 0


def test_one_listing_serves_a_comparison(proxy: FailingProxy, location: str, create: Callable[[str], None]) -> None:
    create("1")
    proxy.requests()
    with one_listing():
        assert DeltaLog(location, proxy.storage_options).versions() == [0]
        append(proxy, location)
        proxy.requests()
        assert DeltaLog(location, proxy.storage_options).versions() == [0]
        assert len(proxy.requests()) == 0
    assert DeltaLog(location, proxy.storage_options).versions() == [0, 1]


@pytest.mark.exhaustive
def test_two_instances_of_a_control_table_see_each_others_writes(
    proxy: FailingProxy, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I5: also over checkpoints, compactions and the removal of old entries of the log."""
    monkeypatch.setattr(control_table, "_COMPACT_FILES_AT", 10)
    tables = [ControlTable(location, SCHEMA, proxy.storage_options) for _ in range(2)]
    tables[0].create()
    for number in range(1, 46):
        add_next(tables[number % 2 if number % 7 else 0])
        assert numbers(tables[0]) == numbers(tables[1]) == list(range(1, number + 1))


def test_a_control_table_is_read_with_one_request_and_written_with_few(proxy: FailingProxy, location: str) -> None:
    table = ControlTable(location, SCHEMA, proxy.storage_options)
    table.create()
    add_next(table)
    add_next(table)
    numbers(table)
    proxy.requests()
    numbers(table)
    assert len(proxy.requests()) == 1
    add_next(table)
    assert len(proxy.requests()) <= 8, "a listing; file, look and commit; the look at the commit; a listing"


def test_a_control_table_that_replaced_another_is_noticed(proxy: FailingProxy, location: str) -> None:
    """I6."""
    table, other = (ControlTable(f"{location}/{name}", SCHEMA, proxy.storage_options) for name in ("one", "other"))
    for made, by in ((table, "tester"), (other, "somebody else")):
        made.create()
        add_next(made, by)
    assert table.read().column("who").to_pylist() == ["tester"]
    root = Path(proxy.folder, "data", location.removeprefix("s3a://"))
    shutil.rmtree(root / "one")
    shutil.copytree(root / "other", root / "one")
    assert table.read().column("who").to_pylist() == ["somebody else"]
