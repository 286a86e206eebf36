"""What a process knows of tables in a bucket saves requests, and is never older than the table."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.core.errors import StateError, StateLayoutError
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.store.one_listing import one_listing
from airflow_backfill_provider.lake.tables.table_properties import table_properties
from airflow_backfill_provider.sources.delta.source import DeltaSource
from airflow_backfill_provider.sources.delta.versions import offset_of
from airflow_backfill_provider.state import control_table
from airflow_backfill_provider.state.control_table import ControlTable
from tests.integration.s3.bucket import let_an_hour_pass
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
        shutil.rmtree(proxy.on_disk(location), ignore_errors=True)
        DeltaTable.create(
            location,
            ROW.schema,
            configuration={"mine": value},
            storage_options=proxy.storage_options,
            raise_if_key_not_exists=False,
        )

    return replace


def append(proxy: FailingProxy, location: str) -> None:
    write_deltalake(location, ROW, mode="append", storage_options=proxy.storage_options)


def test_properties_are_asked_for_with_one_request(
    proxy: FailingProxy, location: str, create: Callable[[str], None]
) -> None:
    create("1")
    let_an_hour_pass(proxy.on_disk(location))
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
    let_an_hour_pass(proxy.on_disk(location))
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
        DeltaLog(location, proxy.storage_options).written_to()
        assert DeltaLog(location, proxy.storage_options).versions() == [0, 1]
        append(proxy, location)
    assert DeltaLog(location, proxy.storage_options).versions() == [0, 1, 2]


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
    let_an_hour_pass(proxy.on_disk(location))
    numbers(table)
    proxy.requests()
    numbers(table)
    assert len(proxy.requests()) == 1
    add_next(table)
    assert len(proxy.requests()) <= 7, "a listing; file, look and commit; the look at the commit"
    numbers(table)
    assert len(proxy.requests()) <= 3, "a listing, and the new file"


def test_a_control_table_that_is_replaced_right_after_a_write_is_noticed(
    proxy: FailingProxy, location: str, tmp_path: Path
) -> None:
    """I6: after a write, the table is known by the commit before, and so is a copy that somebody else wrote to."""
    table = ControlTable(location, SCHEMA, proxy.storage_options)
    table.create()
    folder = proxy.on_disk(location)
    let_an_hour_pass(folder)
    shutil.copytree(folder, tmp_path / "copy")
    add_next(table)
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "copy", folder, copy_function=shutil.copy)
    add_next(ControlTable(location, SCHEMA, proxy.storage_options), "somebody else")
    assert table.read().column("who").to_pylist() == ["somebody else"]


def test_a_new_process_finds_the_number_of_the_newest_write_in_one_commit(proxy: FailingProxy, location: str) -> None:
    table = ControlTable(location, SCHEMA, proxy.storage_options)
    table.create()
    for _ in range(6):
        add_next(table)
    let_an_hour_pass(proxy.on_disk(location))
    proxy.requests()
    assert numbers(ControlTable(location, SCHEMA, proxy.storage_options)) == list(range(1, 7))
    commits = [request for request in proxy.requests() if request.path.endswith(".json")]
    opened = 2 * 7
    assert len(commits) <= opened + 2, "opening reads each commit twice; of the newest one, its size and its content"


def test_a_control_table_that_replaced_another_is_noticed(proxy: FailingProxy, location: str) -> None:
    """I6."""
    table, other = (ControlTable(f"{location}/{name}", SCHEMA, proxy.storage_options) for name in ("one", "other"))
    for made, by in ((table, "tester"), (other, "somebody else")):
        made.create()
        add_next(made, by)
    assert table.read().column("who").to_pylist() == ["tester"]
    root = proxy.on_disk(location)
    shutil.rmtree(root / "one")
    shutil.copytree(root / "other", root / "one")
    assert table.read().column("who").to_pylist() == ["somebody else"]


class TestFilesOfControlTables:
    """Their rows are read by whole files, with the same checks as through deltalake."""

    @pytest.fixture
    def written(self, proxy: FailingProxy, location: str) -> ControlTable:
        """A table whose rows lie in five files."""
        table = ControlTable(location, SCHEMA, proxy.storage_options)
        table.create()
        for _ in range(5):
            add_next(table)
        return table

    @pytest.fixture
    def another(self, proxy: FailingProxy, written: ControlTable) -> ControlTable:
        """The same table, of a process that knows nothing."""
        return ControlTable(written.location, SCHEMA, proxy.storage_options)

    def test_rows_are_those_that_deltalake_finds(self, written: ControlTable, another: ControlTable) -> None:
        assert numbers(another) == [1, 2, 3, 4, 5] == numbers(another, "n > 0")
        assert another.read_since("n", 4) == written.read("n >= 4").sort_by("n")
        assert another.read_since("n", 6).num_rows == 0
        assert another.read().schema == written.read("n > 0").schema

    def test_each_file_is_read_once_with_two_requests(
        self, proxy: FailingProxy, written: ControlTable, another: ControlTable
    ) -> None:
        def of_data(table: ControlTable) -> int:
            proxy.requests()
            numbers(table)
            return sum(asked.path.endswith(".parquet") for asked in proxy.requests())

        assert of_data(another) == 5 * 2
        add_next(written)
        assert of_data(another) == 2
        assert of_data(another) == 0

    def test_only_files_with_wanted_rows_are_read(self, proxy: FailingProxy, another: ControlTable) -> None:
        proxy.requests()
        assert another.read_since("n", 5).column("n").to_pylist() == [5]
        assert sum(asked.path.endswith(".parquet") for asked in proxy.requests()) == 2

    @pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_bytes(file.read_bytes()[:30])])
    def test_a_file_that_is_gone_or_damaged_is_an_error(
        self, proxy: FailingProxy, another: ControlTable, damage: Callable[[Path], object]
    ) -> None:
        damage(next(proxy.on_disk(another.location).glob("*.parquet")))
        with pytest.raises(StateLayoutError, match="cannot be read"):
            another.read()

    def test_a_row_that_was_edited_is_an_error(self, proxy: FailingProxy, another: ControlTable) -> None:
        """I6."""
        table = DeltaTable(another.location, storage_options=proxy.storage_options)
        table.update(updates={"who": "'somebody else'"}, predicate="n = 3")
        with pytest.raises(StateError):
            another.read()
