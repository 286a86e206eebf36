"""
Refuses to write to S3 unless Spark's commits there are made by a log store that two drivers cannot both win with.

Delta's own log store for S3 looks whether a commit exists, and then writes it. Of two drivers that do so at the same
instant, both are told that they have committed, and one of the commits is gone. So the session must have been started
with another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_backfill_provider.core.errors import UnsafeCommitsError
from airflow_backfill_provider.core.log_store import LOG_STORE, LOG_STORES, SCHEMES, setting_of
from airflow_backfill_provider.core.site import page
from airflow_backfill_provider.lake.log.exclusive_commits import require_exclusive_commits


def require_safe_commits(spark: SparkSession, locations: Iterable[str]) -> None:
    """
    Refuse a session whose commits to any of some tables may be lost.

    :param locations: canonical locations of tables.
    :raises UnsafeCommitsError: with what to set.
    """
    for scheme in sorted({location.partition("://")[0] for location in locations} & SCHEMES):
        found = _started_with(spark, setting_of(scheme))
        if found not in LOG_STORES:
            raise UnsafeCommitsError(
                f"Spark was started with {setting_of(scheme)}={found or 'nothing'}, so commits to tables at "
                f"{scheme}:// may be lost if two drivers write at the same instant; start it with {LOG_STORES[0]}, and "
                f"with the jar that `airflow-backfill build-log-store` makes, see {page('how-to/use-an-object-store')}"
            )


def require_exclusive_places(
    spark: SparkSession, view: str, state: str, storage_options: Mapping[str, str] | None
) -> None:
    """
    Refuse places for a new job where a second writer can replace the first one's commit.

    :param view: the view's canonical location; if DynamoDB decides who commits there, the store need not.
    :param state: the folder of control tables, to which deltalake commits.
    :param storage_options: options of the object store, as deltalake takes them.
    :raises UnsafeCommitsError: with the bucket.
    """
    scheme = view.partition("://")[0]
    decides_elsewhere = scheme in SCHEMES and _started_with(spark, setting_of(scheme)) != LOG_STORE
    require_exclusive_commits([f"{state}/settings", *([] if decides_elsewhere else [view])], storage_options)


def _started_with(spark: SparkSession, name: str) -> str | None:
    """Return a setting with which Spark was started; what a session sets later has no effect on log stores."""
    try:
        return spark.sparkContext.getConf().get(name)
    except PySparkException:
        # A client of Spark Connect sees the server's settings, and this package never sets this one in a session.
        return spark.conf.get(name, None)
