"""The jars that are fetched: those that Spark would resolve itself, and none of Spark's own beside them."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_backfill_provider.applications import spark_settings
from airflow_backfill_provider.applications.jars import STAMP, complete, fetched, s3_jars, spark_jars
from airflow_backfill_provider.core.errors import SparkUnavailableError
from demo.kafka import broker
from scripts.fetch_broker_jars import BROKER


@pytest.fixture
def resolved(tmp_path: Path) -> Path:
    """What Ivy resolved."""
    for name in ("org.a_a-1.0.jar", "org.b_b-extra-2.0.jar"):
        with zipfile.ZipFile(tmp_path / name, "w"):
            pass
    (tmp_path / "org.c_c-3.jar").write_text("not a jar")
    return tmp_path


def test_they_are_what_spark_resolves_where_there_was_no_set_up(tmp_path, monkeypatch):
    monkeypatch.delenv(spark_settings.JARS_VARIABLE, raising=False)
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    conf = spark_settings.spark_conf("local")
    assert conf["spark.jars.packages"] == spark_jars().stamp
    assert conf["spark.jars.excludes"] == ",".join(spark_jars().excluded)


def test_the_connector_to_s3_lies_beside_deltas_jars_where_a_session_looks_for_it(tmp_path, monkeypatch):
    monkeypatch.setenv(spark_settings.JARS_VARIABLE, str(tmp_path / "jars"))
    assert s3_jars().folder == tmp_path / spark_settings.S3_FOLDER


def test_the_broker_is_started_from_the_folder_that_is_fetched(monkeypatch):
    monkeypatch.delenv("DEMO_KAFKA_JARS", raising=False)
    assert broker.jars_folder() == BROKER.folder
    assert BROKER.folder != spark_jars().folder


def test_jars_to_leave_out_are_removed(resolved):
    jars = replace(spark_jars(), coordinates=("org.a:a:1.0",))
    assert complete(resolved, jars, {"b-extra"}) == ["org.a_a-1.0.jar"]
    assert not (resolved / "org.b_b-extra-2.0.jar").exists()


def test_a_coordinate_that_is_missing_is_named(resolved):
    jars = replace(spark_jars(), coordinates=("org.a:a:1.0", "org.d:d:4"))
    with pytest.raises(SparkUnavailableError, match=r"org.d_d-4.jar is missing among the resolved jars: org.a_a-1.0."):
        complete(resolved, jars, frozenset())


def test_only_a_whole_folder_of_the_same_coordinates_is_kept(resolved):
    jars = replace(spark_jars(), folder=resolved, coordinates=("org.a:a:1.0",))
    assert fetched(jars) is None
    (resolved / STAMP).write_text(f"{jars.stamp}\norg.a_a-1.0.jar\n", encoding="utf-8")
    assert fetched(jars) == 1
    assert fetched(replace(jars, coordinates=("org.a:a:1.1",))) is None
    (resolved / "org.a_a-1.0.jar").unlink()
    assert fetched(jars) is None
