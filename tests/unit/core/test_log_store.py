"""Where the log store's name is said."""

from __future__ import annotations

from airflow_backfill_provider.applications.log_store import SOURCE
from airflow_backfill_provider.applications.spark_settings import spark_conf
from airflow_backfill_provider.core.log_store import LOG_STORE, log_store_settings


def test_every_spark_is_started_with_the_class_of_the_source():
    package, name = LOG_STORE.split(".")
    source = SOURCE.read_text(encoding="utf-8")
    assert f"package {package}\n" in source
    assert f"class {name}(" in source
    for master in ("local[*]", "spark://cluster:7077"):
        assert log_store_settings().items() <= spark_conf(master).items()
