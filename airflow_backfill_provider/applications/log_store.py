"""The jar with the log store for S3, which is built from its source in this package; it has a few kilobytes."""

from __future__ import annotations

from pathlib import Path

from airflow_backfill_provider.applications.scala_jar import build_jar
from airflow_backfill_provider.applications.spark_settings import jars_folder

JAR = "airflow-backfill-log-store.jar"
"""The name of the jar."""

SOURCE = Path(__file__).parents[1] / "log_store" / "ConditionalLogStore.scala"
"""The log store's source."""


def default_jar() -> Path:
    """Return the jar beside Delta's, where every Spark that this package starts finds it."""
    return jars_folder() / JAR


def build(target: Path) -> None:
    """
    Compile the log store.

    :param target: the jar to write; an older one is replaced.
    :raises SparkUnavailableError: as :func:`~airflow_backfill_provider.applications.scala_jar.build_jar`.
    """
    build_jar(SOURCE, target)
