"""What a Spark application is started with, and that it is not started if it could only fail."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from airflow_backfill_provider.applications import spark_settings
from airflow_backfill_provider.applications.private_folder import private_folder
from airflow_backfill_provider.applications.spark_settings import (
    AVRO_LIMITS,
    JARS_VARIABLE,
    STORAGE_OPTIONS_VARIABLE,
    require_java,
    spark_conf,
    spark_environment,
    storage_options_from_environment,
    storage_options_to_environment,
)
from airflow_backfill_provider.core.errors import SparkUnavailableError
from airflow_backfill_provider.sources import KINDS


@pytest.fixture
def jars(tmp_path, monkeypatch):
    """A folder with jars, as the set-up makes it; its name has a space."""
    folder = tmp_path / "the jars"
    folder.mkdir()
    for name in ("b.jar", "a.jar"):
        (folder / name).touch()
    monkeypatch.setenv(JARS_VARIABLE, str(folder))
    return folder


@pytest.fixture
def no_jars(tmp_path, monkeypatch):
    """An environment in which no set-up put any jars."""
    monkeypatch.delenv(JARS_VARIABLE, raising=False)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))


# --- configuration --------------------------------------------------------------------------------


@pytest.mark.parametrize("master", ["local[*]", "local", "yarn", "spark://host:7077", "k8s://https://host"])
def test_every_master_gets_delta_and_one_time_zone(jars, master):
    """I2: what a query gives must not depend on where it runs."""
    conf = spark_conf(master)
    assert conf["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension"
    assert conf["spark.sql.catalog.spark_catalog"] == "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    assert conf["spark.sql.session.timeZone"] == "UTC"
    assert all(isinstance(value, str) for value in conf.values())


def test_one_machine_takes_jars_from_the_class_path_and_is_tuned(jars):
    conf = spark_conf("local[2]")
    assert conf["spark.driver.extraClassPath"] == str(jars / "*")
    assert conf["spark.databricks.delta.snapshotPartitions"] == "1"
    assert conf["spark.sql.inMemoryColumnarStorage.compressed"] == "false"
    assert conf["spark.buffer.pageSize"] == "4m"
    assert conf["spark.driver.host"] == "127.0.0.1"
    assert conf["spark.sql.warehouse.dir"] == str(private_folder() / "warehouse")
    assert not {"spark.jars", "spark.jars.packages"} & set(conf)


def test_a_cluster_gets_the_jars_sent_and_keeps_its_own_settings(jars):
    conf = spark_conf("yarn")
    assert conf["spark.jars"] == f"{jars / 'a.jar'},{jars / 'b.jar'}"
    assert not {"spark.driver.memory", "spark.driver.host", "spark.driver.extraClassPath"} & set(conf)


@pytest.mark.parametrize("master", ["local[*]", "yarn"])
def test_without_a_set_up_spark_resolves_the_package(no_jars, master):
    conf = spark_conf(master)
    packages = {
        spark_settings.DELTA_PACKAGE,
        *(package for kind in ("postgres", "kafka") for package in KINDS.named(kind).spark_packages),
    }
    assert set(conf["spark.jars.packages"].split(",")) == packages
    assert "org.apache.hadoop:hadoop-client-runtime" in conf["spark.jars.excludes"].split(",")
    assert not {"spark.jars", "spark.driver.extraClassPath"} & set(conf)


def test_every_java_that_decodes_records_limits_what_avro_makes_room_for():
    assert AVRO_LIMITS.startswith("-Dorg.apache.avro.limits.bytes.maxLength=67108864 ")
    assert spark_conf("local")["spark.driver.defaultJavaOptions"].startswith(AVRO_LIMITS)
    cluster = spark_conf("yarn")
    assert {cluster[f"spark.{process}.defaultJavaOptions"] for process in ("driver", "executor")} == {AVRO_LIMITS}


@pytest.mark.parametrize("master", ["local[*]", "yarn"])
def test_java_is_not_told_the_line_of_python_of_each_column(jars, master):
    assert spark_conf(master)["spark.python.sql.dataFrameDebugging.enabled"] == "false"


@pytest.mark.parametrize("master", ["local[*]", "yarn"])
def test_no_task_holds_a_hundred_batches_that_it_has_written_to_disk(jars, master):
    """Each batch of rows that are kept has four megabytes or more: an engine of 600 MB ran out of memory."""
    assert int(spark_conf(master)["spark.serializer.objectStreamReset"]) <= 10
    assert (
        spark_conf(master, {"spark.serializer.objectStreamReset": "50"})["spark.serializer.objectStreamReset"] == "50"
    )


@pytest.mark.parametrize("exists", [False, True])
def test_a_named_folder_without_jars_is_refused(tmp_path, monkeypatch, exists):
    """Issue part 12: no Spark jars."""
    folder = tmp_path / "empty"
    if exists:
        folder.mkdir()
    monkeypatch.setenv(JARS_VARIABLE, str(folder))
    with pytest.raises(SparkUnavailableError, match="has no jars") as caught:
        spark_conf("local")
    assert str(folder) in str(caught.value)
    assert "unset the variable" in str(caught.value)


def test_jars_lie_in_the_environment_unless_the_variable_says_otherwise(no_jars, monkeypatch):
    assert spark_settings.jars_folder() == Path(sys.prefix) / "share" / "airflow-backfill" / "jars"
    monkeypatch.setenv(JARS_VARIABLE, "")
    assert spark_settings.jars_folder().is_relative_to(sys.prefix)
    monkeypatch.setenv(JARS_VARIABLE, "/opt/jars")
    assert spark_settings.jars_folder() == Path("/opt/jars")


@pytest.mark.parametrize(
    ("master", "local"),
    [("local", True), ("local[*]", True), ("local[2,3]", True), ("yarn", False), ("spark://h:1", False)],
)
def test_which_masters_are_this_machine(master, local):
    assert spark_settings.is_local(master) is local


# --- environment ----------------------------------------------------------------------------------


def test_spark_finds_this_python_first(monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    environment = spark_environment()
    assert environment["PATH"] == os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin"])
    assert environment["PYSPARK_PYTHON"] == sys.executable


def test_a_python_of_the_users_choice_stays(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    assert spark_environment()["PYSPARK_PYTHON"] == "/opt/python"


@pytest.mark.parametrize(
    ("locale", "changed"),
    [
        ({}, True),
        ({"LANG": "C"}, True),
        ({"LANG": "en_US.UTF-8"}, False),
        ({"LC_ALL": "C.utf8"}, False),
        ({"LC_ALL": "POSIX", "LANG": "en_US.UTF-8"}, True),
        ({"LC_CTYPE": "C.UTF-8", "LANG": "C"}, False),
    ],
)
def test_java_gets_a_locale_that_can_open_files_of_any_name(monkeypatch, locale, changed):
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in locale.items():
        monkeypatch.setenv(name, value)
    assert spark_environment().get("LC_ALL") == ("C.UTF-8" if changed else None)


# --- Java -----------------------------------------------------------------------------------------


@pytest.fixture
def java(tmp_path, monkeypatch):
    """Put a `java` on the path with a given answer."""

    def install(answer, *, home=False):
        binary = tmp_path / "bin" / "java"
        binary.parent.mkdir(exist_ok=True)
        binary.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{answer}\nEND\n", encoding="utf-8")
        binary.chmod(binary.stat().st_mode | stat.S_IXUSR)
        monkeypatch.delenv("JAVA_HOME", raising=False)
        if home:
            monkeypatch.setenv("JAVA_HOME", str(tmp_path))
        monkeypatch.setenv("PATH", f"{'/nowhere' if home else binary.parent}{os.pathsep}/bin{os.pathsep}/usr/bin")

    return install


@pytest.mark.parametrize("home", [False, True])
@pytest.mark.parametrize(
    "answer",
    [
        'openjdk version "17.0.13" 2024-10-15',
        'openjdk version "21" 2023-09-19',
        'java version "17" 2021-09-14 LTS',
        'Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "17.0.1" 2021-10-19',
    ],
)
def test_a_java_that_is_new_enough_is_accepted(java, answer, home):
    java(answer, home=home)
    require_java()


@pytest.mark.parametrize(
    "answer", ['java version "1.8.0_391"', 'openjdk version "11.0.2" 2019-01-15', "Segmentation fault", ""]
)
def test_a_java_that_is_too_old_or_broken_is_refused(java, answer):
    java(answer)
    with pytest.raises(SparkUnavailableError, match="is not Java 17 or newer; install Java 17 or newer"):
        require_java()


def test_a_machine_without_java_is_refused_with_what_to_install(tmp_path, monkeypatch):
    """Issue part 12: no Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SparkUnavailableError, match=r"there is no Java .* apt-get install openjdk-17"):
        require_java()


def test_a_java_home_without_java_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SparkUnavailableError, match="JAVA_HOME"):
        require_java()


# --- storage options ------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"aws_secret_access_key": "s3cr=t'\"\n"}, {"a": "1", "b": "ü"}])
def test_storage_options_are_passed_in_the_environment(monkeypatch, options):
    """Secrets must not be on a command line, which every user of the machine can read."""
    environment = storage_options_to_environment(options)
    assert list(environment) == [STORAGE_OPTIONS_VARIABLE]
    monkeypatch.setenv(STORAGE_OPTIONS_VARIABLE, environment[STORAGE_OPTIONS_VARIABLE])
    assert storage_options_from_environment() == options


@pytest.mark.parametrize("options", [None, {}])
def test_no_storage_options_leave_the_environment_alone(monkeypatch, options):
    monkeypatch.delenv(STORAGE_OPTIONS_VARIABLE, raising=False)
    assert storage_options_to_environment(options) == {}
    assert storage_options_from_environment() == {}
