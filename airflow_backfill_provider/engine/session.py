"""The Spark session that an epoch runs in, and the settings without which it could be wrong."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_backfill_provider.core.errors import SparkUnavailableError
from airflow_backfill_provider.engine.session_settings import OURS, to_unset
from airflow_backfill_provider.lake.object_store import hadoop_settings


def prepare_session(spark: SparkSession, storage_options: Mapping[str, str] | None = None) -> SparkSession:
    """
    Pin the settings that an epoch's result depends on, and return the session.

    :param storage_options: options of the object store, as deltalake takes them. Hadoop gets them from the session and
        not from Spark's configuration, which stands on the JVM's command line. What Spark was configured with itself
        (``spark.hadoop.fs.…``) stays as it is.
    :raises StorageOptionsError: if Spark could not use one of them.
    """
    # Spark prints every refused query with the JVM's stack; the raised error says it in one line.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    pin_settings(spark)
    for name, value in hadoop_settings(storage_options or {}).items():
        if spark.conf.get(f"spark.hadoop.{name}", None) is None:
            spark.conf.set(name, value)
    return spark


def pin_settings(spark: SparkSession) -> None:
    """
    Set all settings that a result may depend on; needs one call of a server if they are already set.

    :raises SparkUnavailableError: if one of them cannot be changed in a session.
    """
    found = spark.conf.getAll
    for name, value in OURS.items():
        if found.get(name) != value:
            spark.conf.set(name, value)
    for name in to_unset(found):
        try:
            spark.conf.unset(name)
        except PySparkException as error:
            raise SparkUnavailableError(
                f"Spark was started with {name}={found[name]}, on which results may depend and which no session can "
                "change; start it without that setting"
            ) from error


@contextmanager
def session_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Change settings of the session for some statements, and restore them afterwards."""
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(name)
