"""
``kafka``: a topic of a Kafka cluster; an offset is one offset for each partition.

A record is a row. Its key is its partition and its offset, and it never changes. So the records of a topic are read
like those of a table to which rows are only appended, and no consumer group, no landing and no change log is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.upstream import UpstreamDefinition
from airflow_backfill_provider.sources.base import SourceKind
from airflow_backfill_provider.sources.kafka.definition import KafkaUpstream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_backfill_provider.sources.kafka.source import KafkaSource
    from airflow_backfill_provider.sources.reader import SourceReader


class Kafka(SourceKind[KafkaUpstream, "KafkaSource"]):
    """Topics of Kafka clusters."""

    name: ClassVar[str] = KafkaUpstream.kind
    definition: ClassVar[type[UpstreamDefinition]] = KafkaUpstream

    def open(self, upstream: KafkaUpstream, storage_options: Mapping[str, str] | None = None) -> KafkaSource:
        """Open a topic; the cluster is asked on demand."""
        del storage_options
        if find_spec("confluent_kafka") is None:
            raise InvalidJobError("upstream: kafka needs confluent-kafka; install airflow-backfill-provider[kafka]")
        from airflow_backfill_provider.sources.kafka.source import KafkaSource

        return KafkaSource(upstream)

    def reader(self, spark: SparkSession, source: KafkaSource) -> SourceReader:
        """Return the reader of records."""
        from airflow_backfill_provider.sources.kafka.reader import KafkaReader

        return KafkaReader(spark, source)
