"""A shared folder for temporary files, where others may be first."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from airflow_backfill_provider.applications.private_folder import private_folder


@pytest.fixture
def expected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder's name, which anybody can guess."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"airflow-backfill-{os.getuid()}"


def is_private(folder: Path) -> bool:
    return stat.S_IMODE(folder.stat().st_mode) == 0o700 and not folder.is_symlink()


def test_a_user_has_one_folder(expected):
    assert private_folder() == private_folder() == expected
    assert is_private(expected)


def test_a_folder_that_others_may_write_to_is_not_used(expected):
    expected.mkdir()
    expected.chmod(0o777)
    assert private_folder() != expected
    assert is_private(private_folder())


@pytest.mark.parametrize("target", ["elsewhere", "missing"])
def test_a_link_is_not_followed(expected, tmp_path, target):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    expected.symlink_to(tmp_path / target)
    assert private_folder().name not in {expected.name, target}
    assert is_private(private_folder())


def test_a_file_of_that_name_is_in_no_way(expected):
    expected.touch(mode=0o600)
    assert is_private(private_folder())
