"""Reading a control table: each of its versions once, whole or by a condition."""

from __future__ import annotations

import shutil

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.core.errors import StateLayoutError, StorageUnavailableError
from airflow_backfill_provider.lake.files.rows import text_literal
from airflow_backfill_provider.state import control_table_reader
from airflow_backfill_provider.state.control_table import ControlTable, Write
from tests.unit.lake.store.test_storage import NOBODY_THERE, PLACE
from tests.unit.state.counted_table import SCHEMA, add_next, data_files, numbers, row


def test_a_table_is_opened_once_for_each_of_its_versions(table, monkeypatch):
    """Opening reads the log, and an epoch reads its control tables about twenty times."""
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


def test_a_table_that_replaced_another_is_noticed(table, lake):
    """The other table may end with the same version."""
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


def test_a_version_is_read_once(table):
    add_next(table)
    assert numbers(table) == [1]
    for file in data_files(table):
        file.unlink()
    assert numbers(table) == [1]
    with pytest.raises(StateLayoutError):
        table.read("n = 1")


def test_rows_of_another_writer_are_read_at_once(table):
    assert numbers(table) == []
    add_next(ControlTable(table.location, SCHEMA))
    assert numbers(table) == [1]


def test_a_table_that_was_created_again_is_read_again(table):
    """I6: the new table may have as many versions."""
    add_next(table)
    assert numbers(table) == [1]
    shutil.rmtree(table.location)
    other = ControlTable(table.location, SCHEMA)
    other.create()
    other.update(lambda rows: Write(row(7)))
    assert numbers(table) == [7]


def test_a_store_that_does_not_answer_is_named(lake):
    table = ControlTable(PLACE, SCHEMA, NOBODY_THERE)
    with pytest.raises(StorageUnavailableError, match=rf"^{PLACE} cannot be reached .*127\.0\.0\.1:1/"):
        table.exists()


def test_looking_for_a_table_makes_none(tmp_path):
    assert not ControlTable(str(tmp_path / "control"), SCHEMA).exists()
    assert list(tmp_path.iterdir()) == []


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
