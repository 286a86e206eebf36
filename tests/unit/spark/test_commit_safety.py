"""Which log stores may commit to which tables; which one Spark has is tested on S3."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkAttributeError

from airflow_backfill_provider.core.errors import UnsafeCommitsError
from airflow_backfill_provider.core.log_store import LOG_STORES, log_store_settings
from airflow_backfill_provider.spark.commit_safety import require_safe_commits

DELTAS_OWN = "io.delta.storage.S3SingleDriverLogStore"


class Conf(dict):
    """Settings."""

    def getConf(self):  # noqa: N802 - Spark's name
        return self


class Session:
    """A session of a Spark that was started with some settings, which it overrides."""

    def __init__(self, started_with, overridden=None):
        self.sparkContext = Conf(started_with)
        self.conf = Conf({**started_with, **(overridden or {})})


class Client:
    """A client of Spark Connect."""

    def __init__(self, settings):
        self.conf = Conf(settings)

    @property
    def sparkContext(self):  # noqa: N802 - Spark's name
        raise PySparkAttributeError("not in a client")


@pytest.mark.parametrize("kind", [Session, Client])
@pytest.mark.parametrize("store", LOG_STORES)
def test_a_store_that_commits_conditionally_is_used(kind, store):
    require_safe_commits(kind({"spark.delta.logStore.s3a.impl": store}), ["s3a://lake/view"])


@pytest.mark.parametrize("kind", [Session, Client])
@pytest.mark.parametrize("settings", [{}, {"spark.delta.logStore.s3a.impl": DELTAS_OWN}])
def test_any_other_store_is_refused(kind, settings):
    with pytest.raises(UnsafeCommitsError, match=r"s3a:// may be lost .* `airflow-backfill build-log-store`"):
        require_safe_commits(kind(settings), ["/lake/view", "s3a://lake/view"])


def test_each_scheme_has_a_setting_of_its_own():
    with pytest.raises(UnsafeCommitsError, match="logStore.s3.impl=nothing"):
        require_safe_commits(Session({"spark.delta.logStore.s3a.impl": LOG_STORES[0]}), ["s3a://a/b", "s3://a/b"])
    require_safe_commits(Session(log_store_settings()), ["s3a://a/b", "s3://a/b"])


def test_what_a_session_sets_does_not_count():
    """Delta ignores it."""
    with pytest.raises(UnsafeCommitsError):
        require_safe_commits(Session({}, log_store_settings()), ["s3a://lake/view"])


def test_other_tables_need_none():
    require_safe_commits(Session({}), ["/lake/view", "abfss://lake/view", "gs://lake/view"])
