"""Deleting a table: its log first, so that a crash halfway leaves no broken table."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.fs import DeltaStorageHandler

from airflow_backfill_provider.lake.files import stored_files
from airflow_backfill_provider.lake.log.dropping import drop_table


@pytest.fixture(params=["folder", "object store"])
def location(request, lake):
    """A table in two files with a neighbour, as a local folder or as a store reads it."""
    for name in ("table", "table_2"):
        for number in range(2):
            write_deltalake(str(lake / name), pa.table({"a": [number]}), mode="append")
    path = str(lake / "table")
    # Of the locations that deltalake takes, only paths are local: a URI is listed and deleted file by file.
    return path if request.param == "folder" else Path(path).as_uri()


def files_of(lake, name="table"):
    return sorted(str(file.relative_to(lake)) for file in (lake / name).rglob("*") if file.is_file())


def test_nothing_is_left_of_a_table_and_others_are_left_alone(lake, location):
    neighbour = files_of(lake, "table_2")
    drop_table(location)
    assert files_of(lake) == []
    assert not DeltaTable.is_deltatable(str(lake / "table"))
    assert files_of(lake, "table_2") == neighbour


def test_a_table_that_is_gone_is_dropped_again(lake, location):
    for _ in range(2):
        drop_table(location, {})
    assert files_of(lake) == []


def test_a_table_that_never_was_is_dropped(lake):
    drop_table(str(lake / "nothing"))
    assert not (lake / "nothing").exists()


@pytest.mark.parametrize("location", ["folder"], indirect=True)
def test_a_crash_halfway_leaves_no_table_in_a_folder(lake, location, monkeypatch):
    real = shutil.rmtree

    def dies_after_the_first(folder, **options):
        real(folder, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", dies_after_the_first)
    with pytest.raises(KeyboardInterrupt):
        drop_table(location)
    monkeypatch.undo()
    assert_no_table(lake, location)


@pytest.mark.parametrize("location", ["object store"], indirect=True)
def test_a_crash_halfway_leaves_no_table_in_a_store(lake, location, monkeypatch):
    class Dies(DeltaStorageHandler):
        """Deletes the log's two commits, and no data file."""

        deleted = 0

        def delete_file(self, path):
            if Dies.deleted == 2:
                raise KeyboardInterrupt
            Dies.deleted += 1
            super().delete_file(path)

    monkeypatch.setattr(stored_files, "DeltaStorageHandler", Dies)
    with pytest.raises(KeyboardInterrupt):
        drop_table(location)
    monkeypatch.undo()
    assert_no_table(lake, location)


def assert_no_table(lake, location):
    assert len(files_of(lake)) == 2
    assert all(file.endswith(".parquet") for file in files_of(lake))
    assert not DeltaTable.is_deltatable(location)
    drop_table(location)
    assert files_of(lake) == []
