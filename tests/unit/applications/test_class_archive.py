"""The archive of classes: used where it fits, and made by whatever JVM `spark-submit` starts."""

from __future__ import annotations

import os

import pytest

from airflow_backfill_provider.applications.class_archive import archive_path, java_options
from airflow_backfill_provider.applications.spark_settings import FEW_ROWS
from tests.unit.applications.conftest import options_of


def test_a_local_spark_uses_the_archive_that_is_there(java, jars):
    assert options_of() is None
    archive = archive_path(jars, str(java))
    archive.touch()
    assert options_of() == java_options(archive)
    assert f'"-XX:SharedArchiveFile={archive}" -Xshare:auto' in java_options(archive)


def test_a_cluster_uses_none(java, jars):
    archive_path(jars, str(java)).touch()
    assert options_of("yarn", rows=1) is None


def test_few_rows_are_read_without_javas_second_compiler(java, jars):
    assert options_of(rows=FEW_ROWS) == "-XX:TieredStopAtLevel=1"
    assert options_of(rows=FEW_ROWS + 1) is None
    archive = archive_path(jars, str(java))
    archive.touch()
    assert options_of(rows=1) == f"{java_options(archive)} -XX:TieredStopAtLevel=1"


@pytest.mark.parametrize("replaced", ["Java", "a jar"])
def test_an_archive_of_something_else_is_not_used(java, jars, replaced):
    archive_path(jars, str(java)).touch()
    if replaced == "Java":
        os.utime(java, (1, 1))
    else:
        (jars / "delta.jar").rename(jars / "delta-2.jar")
    assert options_of() is None


def test_a_machine_without_java_has_no_archive(jars):
    assert archive_path(jars, "/nowhere/java") is None
