"""Settings that an epoch's result depends on, in whatever session it runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from pyspark.sql import SparkSession

from airflow_backfill_provider.engine.session import prepare_session


def test_what_a_result_depends_on_is_pinned_whatever_the_session_had():
    """A cluster's or a server's own defaults could lose rows without a word (I6), or mean something else (I2)."""
    settings = {
        "spark.sql.files.ignoreMissingFiles": "true",
        "spark.sql.files.ignoreCorruptFiles": "true",
        "spark.sql.session.timeZone": "Pacific/Apia",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.variable.substitute": "true",
        "spark.databricks.delta.changeDataFeed.unsafeBatchReadOnIncompatibleSchemaChanges.enabled": "false",
        "spark.databricks.delta.maxCommitAttempts": "10000000",
        "spark.sql.shuffle.partitions": "7",
    }
    conf = SimpleNamespace(set=settings.__setitem__, get=settings.get)
    prepare_session(cast("SparkSession", SimpleNamespace(conf=conf)))
    assert settings == {
        "spark.sql.files.ignoreMissingFiles": "false",
        "spark.sql.files.ignoreCorruptFiles": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.variable.substitute": "false",
        "spark.databricks.delta.changeDataFeed.unsafeBatchReadOnIncompatibleSchemaChanges.enabled": "true",
        "spark.databricks.delta.maxCommitAttempts": "20",
        "spark.sql.shuffle.partitions": "7",
    }
