"""Trying a folder for control tables."""

from __future__ import annotations

import os

import pytest

from airflow_backfill_provider.core.errors import StorageUnavailableError
from airflow_backfill_provider.state.probe import probe_state_root


def test_a_folder_is_left_as_it_was(lake):
    (lake / "job").mkdir()
    (lake / "file").touch()
    assert probe_state_root(str(lake), {}) == "it can be read and written to, and has 1 folder"
    assert sorted(path.name for path in lake.iterdir()) == ["file", "job"]


def test_a_missing_folder_is_not_created(lake):
    assert "the first job creates it" in probe_state_root(f"{lake}/a/b", {})
    assert list(lake.iterdir()) == []


def test_a_file_is_no_folder(lake):
    (lake / "file").touch()
    with pytest.raises(StorageUnavailableError, match="is a file; give a folder"):
        probe_state_root(f"{lake}/file", {})


def test_a_folder_that_cannot_be_written_to_says_so():
    """Not even root can create a folder there."""
    with pytest.raises(StorageUnavailableError, match="/proc/self cannot be written to"):
        probe_state_root("/proc/self", {})


def test_a_folder_that_cannot_be_created_says_so(lake, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(StorageUnavailableError, match="does not exist, and .* cannot be written to"):
        probe_state_root(f"{lake}/a/b", {})
