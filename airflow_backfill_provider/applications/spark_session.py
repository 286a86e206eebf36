"""Starts Spark in this process."""

from __future__ import annotations

import os
from collections.abc import Mapping

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_backfill_provider.applications.inherited_environment import airflows_own_left_out
from airflow_backfill_provider.applications.spark_settings import (
    REMOTE_VARIABLE,
    require_java,
    spark_conf,
    spark_environment,
)
from airflow_backfill_provider.core.errors import SparkUnavailableError
from airflow_backfill_provider.spark.session import prepare_session


def start_session(app_name: str, *, master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """
    Start Spark in this process, by default only on this machine.

    :param app_name: the application's name.
    :param master: Spark's master; by default all cores of this machine.
    :param conf: configuration, added to this package's own.
    :raises SparkUnavailableError: if Java or Delta's jars are missing, or Spark does not start.
    """
    require_java()
    master = master or "local[*]"
    os.environ.update(spark_environment())
    # The caller has chosen a master, and Spark refuses a master and a remote at once.
    os.environ.pop(REMOTE_VARIABLE, None)
    settings = spark_conf(master, conf)
    builder = SparkSession.builder.appName(app_name).master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        # Java inherits the environment of this process.
        with airflows_own_left_out():
            spark = builder.getOrCreate()
    except (PySparkException, RuntimeError, OSError) as error:
        raise SparkUnavailableError(f"Spark did not start: {error}; check its configuration") from error
    spark.sparkContext.setLogLevel("ERROR")
    return prepare_session(spark)
