"""The files beside the code: the examples are copied, and never over somebody's; constraints fit the Python."""

from __future__ import annotations

import sys

import pytest

from airflow_backfill_provider.applications import shipped_files
from airflow_backfill_provider.applications.shipped_files import copy_examples, shipped_folder, tested_versions
from airflow_backfill_provider.core.errors import InstallationError


def test_examples_are_copied_with_their_jobs(tmp_path):
    copied = dict(copy_examples(tmp_path / "dags"))
    assert all(copied.values())
    assert (tmp_path / "dags" / "backfill_manual.py").is_file()
    assert (tmp_path / "dags" / "jobs" / "paid_orders.yaml").is_file()


def test_a_file_that_is_there_stays_as_it_is(tmp_path):
    mine = tmp_path / "backfill_manual.py"
    mine.write_text("mine", encoding="utf-8")
    assert dict(copy_examples(tmp_path))[mine] is False
    assert mine.read_text(encoding="utf-8") == "mine"


def test_versions_are_those_of_this_python():
    lines = tested_versions().splitlines()
    assert any(line.startswith("pyspark==") for line in lines)
    assert not any("--hash" in line for line in lines), "pip demands hashes of everything if one line has one"
    assert not any(line.startswith("pytest==") for line in lines), "tools of the developers bind no user"


def test_a_python_that_is_not_tested_is_told_which_ones_are(monkeypatch):
    monkeypatch.setattr(sys, "version", "3.99.1 (somewhere)")
    monkeypatch.setattr(sys, "version_info", type(sys)("version_info"))
    sys.version_info.major, sys.version_info.minor = 3, 99
    with pytest.raises(InstallationError, match=r"no tested versions for Python 3\.99\.1; use Python 3\.11"):
        tested_versions()


def test_a_folder_that_is_missing_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(shipped_files, "PACKAGE", tmp_path / "somewhere")
    with pytest.raises(InstallationError, match="dags is missing from the installation at"):
        shipped_folder("dags")
