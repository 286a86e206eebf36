"""The Spark session that an epoch runs in, and the settings that its result depends on."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_backfill_provider.core.errors import SparkUnavailableError
from airflow_backfill_provider.core.location import is_local
from airflow_backfill_provider.lake.store.object_store import hadoop_settings
from airflow_backfill_provider.spark.session_settings import OURS, settings_to_reset

_CLASSES = (
    "PythonUtils",
    "PythonErrorUtils",
    "functions",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.SparkSession",
    "org.apache.spark.sql.internal.SQLConf",
    "org.apache.spark.SparkThrowableHelper",
    "org.apache.spark.util.Utils",
    "py4j",
    "py4j/reflection",
    "py4j/reflection/TypeUtil",
)
"""The names of Java's classes and packages as PySpark asks for them; behind a slash, in the package before it."""


def prepare_session(spark: SparkSession, storage_options: Mapping[str, str] | None = None) -> SparkSession:
    """
    Pin the settings that an epoch's result depends on, and return the session.

    :param storage_options: options of the object store, as deltalake takes them. They are set in the session, because
        Spark's configuration is part of the JVM's command line. Options in Spark's own configuration
        (``spark.hadoop.fs.…``) take precedence.
    :raises StorageOptionsError: if Spark cannot use one of them.
    """
    quiet_libraries()
    if (java := _java(spark)) is not None:
        _keep_java_classes(java)
    pin_settings(spark)
    for name, value in hadoop_settings(storage_options or {}).items():
        if spark.conf.get(f"spark.hadoop.{name}", None) is None:
            spark.conf.set(name, value)
    return spark


def quiet_libraries() -> None:
    """Keep out of this process's log what Spark's libraries say of each call."""
    # Spark logs every refused query with the JVM's stack; the raised error has the cause in one line.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # It tells of each thread whose connection it closes.
    logging.getLogger("py4j").setLevel(logging.WARNING)


def _java(spark: SparkSession) -> Any:
    """Return PySpark's view of Java's names; ``None`` on a Spark Connect server, where Java is elsewhere."""
    return getattr(spark, "_jvm", None)


def _keep_java_classes(java: Any) -> None:
    """
    Look up once which Java classes PySpark's short names mean, and let it find them among the names of its own side.

    PySpark asks Java again for each column and for each error. For some of the names, Java looks through all jars up to
    ten times.
    """
    for name in _CLASSES:
        at, _, attribute = name.rpartition("/")
        owner = reduce(getattr, at.split("/") if at else (), java)
        if attribute not in vars(owner):
            setattr(owner, attribute, getattr(owner, attribute))


def pin_settings(spark: SparkSession) -> None:
    """
    Set all settings that a result may depend on. If they are set already, this needs one call to a server.

    :raises SparkUnavailableError: if a session cannot change one of them.
    """
    found = _settings(spark)
    for name, value in OURS.items():
        if found.get(name) != value:
            spark.conf.set(name, value)
    for name in settings_to_reset(found):
        try:
            spark.conf.unset(name)
        except PySparkException as error:
            raise SparkUnavailableError(
                f"Spark was started with {name}={found[name]}; results may depend on that setting, and a session "
                "cannot change it: start Spark without it"
            ) from error


def _settings(spark: SparkSession) -> dict[str, str]:
    """Return all settings of a session, with few calls; PySpark's own classic one asks Java thrice for each setting."""
    java = _java(spark)
    if java is None:
        return spark.conf.getAll
    # Spark itself writes JSON with this library.
    to_json = getattr(java, "com.fasterxml.jackson.databind.ObjectMapper")()
    found: dict[str, str] = json.loads(to_json.writeValueAsString(spark.conf._jconf.getAllAsJava()))  # noqa: SLF001
    return found


def write_no_checksums(spark: SparkSession, locations: Iterable[str]) -> None:
    """
    Let Delta write no checksum beside a commit if one of some tables is in an object store.

    Delta can do without it. There, it is about 20 requests for each commit, in a chunk's epoch as many as all others of
    Spark.
    """
    if not all(map(is_local, locations)):
        spark.conf.set("spark.databricks.delta.writeChecksumFile.enabled", "false")


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
