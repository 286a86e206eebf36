"""The Spark session that an epoch runs in, and the settings without which it could be wrong."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_backfill_provider.core.errors import SparkUnavailableError
from airflow_backfill_provider.engine.session_settings import OURS, to_unset
from airflow_backfill_provider.object_store import hadoop_settings
from airflow_backfill_provider.spark_settings import REMOTE_VARIABLE, require_java, spark_conf, spark_environment


def start_session(app_name: str, *, master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """
    Start Spark in this process, on one machine unless told otherwise.

    :param app_name: the application's name.
    :param master: Spark's master, by default all cores of this machine.
    :param conf: configuration on top of this package's own.
    :raises SparkUnavailableError: if Java or Delta's jars are missing, or Spark does not start.
    """
    require_java()
    master = master or "local[*]"
    os.environ.update(spark_environment())
    # Whoever calls this has chosen; Spark would not have both.
    os.environ.pop(REMOTE_VARIABLE, None)
    settings = {**spark_conf(master), **(conf or {})}
    builder = SparkSession.builder.appName(app_name).master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        spark = builder.getOrCreate()
    except (PySparkException, RuntimeError, OSError) as error:
        raise SparkUnavailableError(f"Spark did not start: {error}; is its configuration right?") from error
    spark.sparkContext.setLogLevel("ERROR")
    return prepare_session(spark)


def prepare_session(spark: SparkSession, storage_options: Mapping[str, str] | None = None) -> SparkSession:
    """
    Pin the settings that an epoch's result depends on, and return the session.

    :param storage_options: options of the object store, as deltalake takes them. Hadoop gets them from the session and
        not from Spark's configuration, which stands on the JVM's command line. What Spark was configured with itself
        (``spark.hadoop.fs.…``) stays as it is.
    :raises StorageOptionsError: if Spark could not use one of them.
    """
    # It prints every refused query with the JVM's stack; the error that is raised says it in one line.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    pin_settings(spark)
    for name, value in hadoop_settings(storage_options or {}).items():
        if spark.conf.get(f"spark.hadoop.{name}", None) is None:
            spark.conf.set(name, value)
    return spark


def pin_settings(spark: SparkSession) -> None:
    """
    Give a session the settings that a result may depend on; one call of a server if it has them already.

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
    """Set what only some statements shall find; the settings are the session's, so they are unset again."""
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(name)
