"""The contestants: this package, a stream, and a plain copy; each makes a Delta table of a topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.engine.spark_engine import SparkEngine
from airflow_backfill_provider.jobs import creation
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.sources.kafka.connection import kafka_connection
from bench.measuring import REQUESTER
from bench.source.results import BACKFILL, BACKFILL_OF_BYTES, COPY, STREAM
from bench.source.topic import CONNECTION, FIELDS, SCHEMA

Contestant = Callable[[SparkSession, str, Path], None]
"""Makes the table at a path of a topic."""

_PARSED = f"from_json(CAST(value AS STRING), '{SCHEMA}')"


def backfill(spark: SparkSession, topic: str, path: Path) -> None:
    """This package, with values that are read exactly."""
    columns = ", ".join(f"value.{name}" for name in FIELDS)
    upstream = {"topic": topic, "value": {"format": "json", "schema": SCHEMA}}
    _backfill(spark, path, upstream, f"SELECT partition, offset, {columns} FROM upstream")


def backfill_of_bytes(spark: SparkSession, topic: str, path: Path) -> None:
    """This package, with values that the query converts."""
    columns = ", ".join(f"parsed.{name}" for name in FIELDS)
    parsed = f"(SELECT partition, offset, {_PARSED} AS parsed FROM upstream)"
    _backfill(spark, path, {"topic": topic}, f"SELECT partition, offset, {columns} FROM {parsed}")


def stream(spark: SparkSession, topic: str, path: Path) -> None:
    """Structured Streaming, until nothing is left."""
    options = {**kafka_connection(CONNECTION).spark(), "subscribe": topic, "startingOffsets": "earliest"}
    query = (
        _selected(spark.readStream.format("kafka").options(**options).load())
        .writeStream.format("delta")
        .option("checkpointLocation", f"{path}_checkpoint")
        .trigger(availableNow=True)
        .start(str(path))
    )
    query.awaitTermination()


def copy(spark: SparkSession, topic: str, path: Path) -> None:
    """A plain read and write."""
    options = {**kafka_connection(CONNECTION).spark(), "subscribe": topic}
    _selected(spark.read.format("kafka").options(**options).load()).write.format("delta").save(str(path))


CONTESTANTS: Mapping[str, Contestant] = {
    BACKFILL: backfill,
    BACKFILL_OF_BYTES: backfill_of_bytes,
    STREAM: stream,
    COPY: copy,
}


def _selected(records: DataFrame) -> DataFrame:
    return records.selectExpr("partition", "offset", f"{_PARSED} AS value").selectExpr("partition", "offset", "value.*")


def _backfill(spark: SparkSession, path: Path, upstream: Mapping[str, Any], query: str) -> None:
    engine = SparkEngine(spark)
    job = Backfill(
        BackfillJob(
            name="bench_source",
            upstream={"kafka": {"connection": CONNECTION, **upstream}},
            materialized_view=str(path),
            query=query,
            state=f"{path}_state",
        )
    )
    creation.create_job(
        job.job, store=job.store, upstream=job.upstream, engine=lambda: engine, requested_by=str(REQUESTER)
    )
    while not job.store.state().completed:
        pinned = protocol.inject_barrier(store=job.store, upstream=job.upstream, requester=REQUESTER).barrier
        if pinned is not None:
            protocol.run_epoch(pinned, store=job.store, engine=engine)
