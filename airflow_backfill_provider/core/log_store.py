"""The log stores with which Spark may write to Delta tables on S3."""

from __future__ import annotations

from collections.abc import Mapping

LOG_STORE = "airflow_backfill_provider.ConditionalLogStore"
"""The class of this package's own log store."""

LOG_STORES = (LOG_STORE, "io.delta.storage.S3DynamoDBLogStore")
"""The log stores with which at most one of several drivers commits a version; our own first."""

SCHEMES = frozenset({"s3", "s3a"})
"""The schemes for which Delta's own log store may lose commits."""


def setting_of(scheme: str) -> str:
    """Return the name of Spark's setting of the log store for a scheme; it counts only if Spark is started with it."""
    return f"spark.delta.logStore.{scheme}.impl"


def log_store_settings() -> Mapping[str, str]:
    """Return the settings of Spark that choose our log store."""
    return {setting_of(scheme): LOG_STORE for scheme in sorted(SCHEMES)}
