"""The choice of Java's garbage collector: one that suits a backfill, and never a second one."""

from __future__ import annotations

import subprocess

import pytest

from airflow_backfill_provider.applications import collector
from airflow_backfill_provider.applications.collector import PARALLEL, SERIAL, collector_options
from airflow_backfill_provider.applications.spark_settings import FEW_ROWS, java_command, spark_conf

VARIABLES = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")


@pytest.fixture(autouse=True)
def _nothing_is_chosen(monkeypatch, tmp_path):
    for name in (*VARIABLES, "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))


def options(conf=None, *, rows=None):
    found = spark_conf("local[2]", conf, rows=rows)["spark.driver.defaultJavaOptions"].split()
    return [option for option in found if option in {PARALLEL, SERIAL}]


def test_few_rows_get_the_one_that_needs_the_least_memory_and_more_rows_the_one_that_takes_the_least_time():
    assert options(rows=FEW_ROWS) == [SERIAL]
    assert options(rows=FEW_ROWS + 1) == options() == [PARALLEL]


def test_a_cluster_keeps_its_own():
    found = spark_conf("yarn", rows=1)
    assert not any(collector in value for value in found.values() for collector in (PARALLEL, SERIAL))


@pytest.mark.parametrize("chosen", ["-XX:+UseG1GC", "-Xmx1g -XX:+UseZGC -ea", "-XX:+UseSerialGC"])
def test_a_choice_of_the_user_is_the_only_one(chosen, monkeypatch, tmp_path):
    assert options({"spark.driver.extraJavaOptions": chosen}) == []
    for name in VARIABLES:
        with monkeypatch.context() as patched:
            patched.setenv(name, chosen)
            assert options() == []
    (tmp_path / "spark-defaults.conf").write_text(f"spark.driver.extraJavaOptions {chosen}\n")
    assert options() == []


def test_the_defaults_of_an_installed_spark_count_too(monkeypatch, tmp_path):
    monkeypatch.delenv("SPARK_CONF_DIR")
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert options() == [PARALLEL]
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.driver.extraJavaOptions=-XX:+UseG1GC\n")
    assert options() == []


def test_the_defaults_of_pysparks_own_spark_count_if_no_other_is_named(monkeypatch, tmp_path):
    monkeypatch.delenv("SPARK_CONF_DIR")
    monkeypatch.setattr(collector, "pyspark_folder", lambda: tmp_path)
    assert options() == [PARALLEL]
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.driver.extraJavaOptions=-XX:+UseG1GC\n")
    assert options() == []


@pytest.mark.parametrize("other", ["-XX:-UseGCOverheadLimit", "-XX:+UseGCOverheadLimit -Xmx1g", "-Xlog:gc", ""])
def test_other_options_choose_none(other):
    assert options({"spark.driver.extraJavaOptions": other}) == [PARALLEL]


@pytest.mark.slow
@pytest.mark.parametrize("chosen", [PARALLEL, SERIAL])
def test_java_starts_with_one_and_not_with_two(chosen):
    """The reason why nothing may be added to another choice."""

    def starts(*given):
        return subprocess.run([java_command(), *given, "-version"], capture_output=True, check=False).returncode == 0

    assert starts(*collector_options({}, is_short=chosen == SERIAL))
    assert not starts(chosen, "-XX:+UseG1GC")
