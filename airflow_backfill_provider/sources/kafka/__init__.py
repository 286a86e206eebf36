"""
``kafka``: a topic of a Kafka cluster; an offset is one offset for each partition.

A record is a row. Its key is its partition and its offset, and it never changes. So the records of a topic are read
like those of a table to which rows are only appended, and no consumer group, no landing and no change log is needed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar

from airflow_backfill_provider.core.errors import (
    BackfillError,
    ChangeFeedGapError,
    InvalidJobError,
    UnsupportedValueError,
)
from airflow_backfill_provider.core.job.upstream import UpstreamDefinition
from airflow_backfill_provider.sources.kafka.definition import KafkaUpstream
from airflow_backfill_provider.sources.kind import SourceKind
from airflow_backfill_provider.sources.spark_failures import SparkFailure

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_backfill_provider.sources.kafka.source import KafkaSource
    from airflow_backfill_provider.sources.reader import SourceReader


_RECORDS_LOST = re.compile(
    r"^(?:Caused by: |: |\()?org\.apache\.spark\.sql\.kafka010\.KafkaIllegalStateException\b", re.MULTILINE
)
"""The error of a read whose records were removed from a topic after it was planned; it may have a condition."""

_NO_INSTANT = re.compile(
    r"KafkaIllegalStateException: (?:\[KAFKA_MALFORMED_RECORD_TIMESTAMP\] )?Record at topic (?P<topic>\S+) "
    r"partition (?P<partition>\d+) offset (?P<offset>\d+) has timestamp value"
)
"""The error of a record whose timestamp overflows in microseconds; of the same class as a lost record."""


class Kafka(SourceKind[KafkaUpstream, "KafkaSource"]):
    """Topics of Kafka clusters."""

    name: ClassVar[str] = KafkaUpstream.kind
    definition: ClassVar[type[UpstreamDefinition]] = KafkaUpstream
    spark_packages: ClassVar[Sequence[str]] = (
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "org.apache.spark:spark-avro_2.13:4.2.0",
    )

    def open(self, upstream: KafkaUpstream, storage_options: Mapping[str, str] | None = None) -> KafkaSource:
        """Open a topic; the cluster is asked on demand."""
        del storage_options
        if find_spec("confluent_kafka") is None:
            raise InvalidJobError("upstream: kafka needs confluent-kafka; install airflow-backfill-provider[kafka]")
        from airflow_backfill_provider.sources.kafka.source import KafkaSource

        return KafkaSource(upstream)

    def explained(self, failure: SparkFailure, what: str) -> BackfillError | None:
        """Return the error for a timestamp that Spark cannot read, or for records that are gone."""
        if found := _NO_INSTANT.search(failure.text):
            return UnsupportedValueError(
                f"{what}: {found['topic']}, partition {found['partition']}, offset {found['offset']}: the timestamp "
                "lies beyond what Spark can read; its producer took another unit than milliseconds. Remove the records "
                "up to it from the topic (kafka-delete-records), and rebuild the job, which begins with those that are "
                "left"
            )
        is_lost = any(condition.startswith("KAFKA_DATA_LOSS") for condition in failure.conditions)
        if not is_lost and not _RECORDS_LOST.search(failure.text):
            return None
        return ChangeFeedGapError(
            f"{what} needs records of the upstream that are gone ({failure.shown}): the topic's retention or "
            "somebody removed them after the epoch was pinned"
        )

    def reader(self, spark: SparkSession, source: KafkaSource) -> SourceReader:
        """Return the reader of records."""
        from airflow_backfill_provider.sources.kafka.reader import KafkaReader

        return KafkaReader(spark, source)
