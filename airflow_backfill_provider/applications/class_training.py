"""A small backfill that loads the classes of an epoch: ``spark-submit class_training.py FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.engine.spark_engine import SparkEngine
from airflow_backfill_provider.jobs import creation
from airflow_backfill_provider.jobs.backfill import Backfill

REQUESTER = Requester(user="class training")


def train(spark: SparkSession, folder: Path) -> None:
    """Run a backfill until its view is finished, with a change in between."""
    upstream = str(folder / "orders")
    orders = spark.range(20).selectExpr("id", "CAST(id AS STRING) AS name")
    orders.write.format("delta").option("delta.enableChangeDataFeed", "true").save(upstream)
    job = BackfillJob(
        name="class_training",
        upstream={"path": upstream, "key": ["id"]},
        materialized_view=str(folder / "view"),
        query="SELECT id, upper(name) AS name FROM upstream WHERE id >= 0",
        strategy="no_shuffle",
        rate_limit=15,
    )
    backfill, engine = Backfill(job), SparkEngine(spark)
    store, table = backfill.store, backfill.upstream
    creation.create_job(job, store=store, upstream=table, engine=lambda: engine, requested_by=str(REQUESTER))
    for _ in range(2):
        barrier = protocol.inject_barrier(store=store, upstream=table, requester=REQUESTER).barrier
        if barrier is not None:
            protocol.run_epoch(barrier, store=store, engine=engine)
        spark.sql(f"UPDATE delta.`{upstream}` SET name = 'x' WHERE id = 3")


if __name__ == "__main__":
    session = SparkSession.builder.getOrCreate()
    train(session, Path(sys.argv[1]))
    session.stop()
