"""Settings that an epoch's result depends on, in whatever session it runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from airflow_backfill_provider.core.errors import SparkUnavailableError
from airflow_backfill_provider.spark.session import prepare_session

PINNED = {
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.variable.substitute": "false",
    "spark.databricks.delta.changeDataFeed.unsafeBatchReadOnIncompatibleSchemaChanges.enabled": "true",
    "spark.databricks.delta.generatedColumn.partitionFilterOptimization.enabled": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.columnarReaderBatchSize": "16",
    "parquet.page.size.row.check.min": "1",
    "spark.databricks.delta.maxCommitAttempts": "20",
}


class Conf:
    """A session's settings, and how often a server would be called for them."""

    def __init__(self, settings: dict[str, str], fixed: frozenset[str] = frozenset()) -> None:
        self.settings = settings
        self.fixed = fixed
        self.calls = 0

    @property
    def getAll(self) -> dict[str, str]:  # noqa: N802 - Spark's name
        self.calls += 1
        return dict(self.settings)

    def set(self, name: str, value: str) -> None:
        self.calls += 1
        self.settings[name] = value

    def unset(self, name: str) -> None:
        if name in self.fixed:
            raise AnalysisException("CANNOT_MODIFY_STATIC_CONFIG")
        self.calls += 1
        del self.settings[name]


def prepare(conf: Conf) -> None:
    prepare_session(cast("SparkSession", SimpleNamespace(conf=conf)))


def test_what_a_result_depends_on_is_pinned_whatever_the_session_had() -> None:
    """A cluster's or a server's own defaults could silently lose rows (I6), or mean something else (I2)."""
    conf = Conf(
        {
            "spark.sql.files.ignoreMissingFiles": "true",
            "spark.sql.files.ignoreCorruptFiles": "true",
            "spark.sql.session.timeZone": "Pacific/Apia",
            "spark.sql.ansi.enabled": "false",
            "spark.sql.variable.substitute": "true",
            "spark.databricks.delta.maxCommitAttempts": "10000000",
            "spark.sql.parser.escapedStringLiterals": "true",
            "spark.sql.caseSensitive": "true",
            "spark.sql.legacy.nobody.has.seen.this": "true",
            "spark.databricks.delta.schema.autoMerge.enabled": "true",
            "spark.sql.shuffle.partitions": "7",
            "spark.app.name": "theirs",
        }
    )
    prepare(conf)
    assert conf.settings == {**PINNED, "spark.sql.shuffle.partitions": "7", "spark.app.name": "theirs"}


def test_a_session_that_is_as_it_should_be_costs_one_call() -> None:
    conf = Conf(dict(PINNED))
    prepare(conf)
    assert conf.calls == 1


def test_a_setting_that_no_session_can_change_is_refused_by_name() -> None:
    name = "spark.sql.some.fixed.setting"
    with pytest.raises(SparkUnavailableError, match=f"{name}=1.* start Spark without it"):
        prepare(Conf({name: "1"}, fixed=frozenset({name})))
