"""Making the archive of classes, with a program instead of spark-submit."""

from __future__ import annotations

import sys

import pytest

from airflow_backfill_provider.applications.class_archive import java_options
from airflow_backfill_provider.applications.class_archiver import make_class_archive
from airflow_backfill_provider.applications.spark_settings import JARS_VARIABLE
from airflow_backfill_provider.core.errors import SparkUnavailableError
from tests.unit.applications.conftest import options_of, program

WRITES = '#!/bin/sh\nfor word in "$@"; do case $word in *.py) cat "$word" >&2 || exit 3;; '
WRITES += "*ArchiveClassesAtExit=*) options=$word;; esac; done\n"
WRITES += 'file=${options#*ArchiveClassesAtExit=}; echo classes > "${file%%\\"*}"\n'


def test_making_an_archive_replaces_the_former_ones(java, jars):
    former = jars / "classes-former.jsa"
    former.touch()
    program(java.with_name("spark-submit"), WRITES)
    archive = make_class_archive()
    assert archive.read_text(encoding="utf-8") == "classes\n"
    assert sorted(jars.iterdir()) == sorted([archive, jars / "delta.jar"])
    assert options_of() == java_options(archive)


def test_a_spark_that_fails_says_why_and_leaves_no_archive(java, jars):
    program(java.with_name("spark-submit"), "#!/bin/sh\necho 'no such option' >&2\nexit 1\n")
    with pytest.raises(SparkUnavailableError, match=r"exit code 1\): no such option"):
        make_class_archive()
    assert list(jars.iterdir()) == [jars / "delta.jar"]


def test_without_a_folder_of_jars_there_is_nothing_to_archive(java, tmp_path, monkeypatch):
    monkeypatch.delenv(JARS_VARIABLE, raising=False)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    with pytest.raises(SparkUnavailableError, match="put Delta's jars there first"):
        make_class_archive()
