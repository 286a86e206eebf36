"""Folders of small files that are written whole."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from airflow_backfill_provider.lake.files.record_files import RecordFiles, _ObjectStoreFiles, replace_file


def test_a_file_is_there_until_it_is_deleted_and_then_nothing_is_left(tmp_path: Path):
    files = RecordFiles(str(tmp_path / "state" / "records"))
    assert files.get("a.json") is None
    assert files.names("a") == []
    files.put("a.json", "one")
    files.put("a.json", "two")
    files.put("b.json", "three")
    assert (files.get("a.json"), files.names("a")) == ("two", ["a.json"])
    files.delete("a.json")
    files.delete("a.json")
    files.delete("b.json")
    assert list(tmp_path.iterdir()) == []


def test_threads_of_one_process_write_the_same_file_at_once(tmp_path: Path):
    """A temporary file that they share is gone for the second one; 190 of 900 requests to stop failed that way."""
    files = RecordFiles(str(tmp_path))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: files.put("epoch-1.stop", f"{number}"), range(400)))

    assert files.get("epoch-1.stop") is not None
    assert [entry.name for entry in tmp_path.iterdir()] == ["epoch-1.stop"]


def test_a_write_that_fails_leaves_no_temporary_file(tmp_path: Path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        replace_file(tmp_path / "folder", b"content")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_files_in_an_object_store_are_handled_in_the_same_way(tmp_path: Path):
    """Through deltalake's handler, here with a local folder."""
    (tmp_path / "records").mkdir()
    files = _ObjectStoreFiles(str(tmp_path / "records"), {})
    assert (files.get("a.json"), files.names()) == (None, [])
    files.put("a.json", b"one")
    files.put("a.json", b"two")
    assert (files.get("a.json"), files.names()) == (b"two", ["a.json"])
    files.delete("a.json")
    files.delete("a.json")
    assert files.names() == []
