"""The peers: what people write without this package, in its best form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from bench.comparison.stage import Stage
from bench.comparison.workload import QUERY
from bench.submitting import submit


@dataclass(frozen=True, slots=True)
class ChangeFeedStream:
    """
    Peer 1: Structured Streaming over the change feed from version 0, with a MERGE into the view in each micro-batch.

    The application stays alive. A micro-batch takes the changes of one commit, as if the commits came as slowly as the
    epochs.
    """

    name: str = "change feed stream with MERGE"

    def run(self, stage: Stage) -> None:
        """Run the stream until it has seen every commit."""
        make_view(stage.spark, stage.upstream, stage.view)

        def merge_batch(batch: DataFrame, _: int) -> None:
            merge_changes(batch, stage.view)

        stream = (
            stage.spark.readStream.format("delta")
            .option("readChangeFeed", "true")
            .option("startingVersion", 0)
            # The files of one commit are never divided, so each batch is one commit.
            .option("maxFilesPerTrigger", 1)
            .load(str(stage.upstream))
            .writeStream.foreachBatch(merge_batch)
            .option("checkpointLocation", str(stage.folder / "checkpoint"))
            .start()
        )
        try:
            while True:
                with stage.step():
                    stream.processAllAvailable()
                if not stage.commit():
                    return
        finally:
            stream.stop()


@dataclass(frozen=True, slots=True)
class KeyRangeLoop:
    """
    Peer 2: a loop of tasks in Airflow, each a Spark application that merges one range of keys (a microbatch).

    The ranges were read at different times, so at the end one more application merges all changes since then.
    """

    name: str = "loop of key ranges with MERGE"

    def run(self, stage: Stage) -> None:
        """Submit an application for each range, then one that catches up."""
        bounds = stage.workload.key_bounds()
        make_view(stage.spark, stage.upstream, stage.view)
        application = Path(__file__).with_name("key_range_task.py")
        tables = ["--upstream", str(stage.upstream), "--view", str(stage.view)]
        for after, up_to in zip([None, *bounds], [*bounds, None], strict=True):
            stage.commit()
            chosen = [*(["--after", after] if after else []), *(["--up-to", up_to] if up_to else [])]
            with stage.step():
                submit(application, [*tables, "range", *chosen])
        while stage.commit():
            pass
        if stage.workload.per_mille:
            with stage.step():
                submit(application, [*tables, "changes"])


def make_view(spark: SparkSession, upstream: Path, view: Path, properties: Mapping[str, str] | None = None) -> None:
    """Make the empty table of the view."""
    rows = spark.read.format("delta").load(str(upstream)).limit(0)
    query(rows).write.format("delta").options(**(properties or {})).save(str(view))


def query(rows: DataFrame) -> DataFrame:
    """Run the view's query over some rows of the upstream."""
    relation = "bench_upstream"
    rows.createOrReplaceTempView(relation)
    return rows.sparkSession.sql(QUERY.replace("FROM upstream", f"FROM {relation}"))


def changes_since(spark: SparkSession, upstream: Path, version: int) -> DataFrame:
    """Return the change feed from a version on."""
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", version)
    return feed.load(str(upstream))


def changes_of(spark: SparkSession, upstream: Path, version: int) -> DataFrame:
    """Return the change feed of one version."""
    feed = spark.read.format("delta").option("readChangeFeed", "true")
    return feed.option("startingVersion", version).option("endingVersion", version).load(str(upstream))


def latest_changes(changes: DataFrame) -> DataFrame:
    """Return the latest change of each key; ``__deleted`` means that the view has no row of it any more."""
    latest = Window.partitionBy("order_id").orderBy(F.col("_commit_version").desc())
    return (
        changes.filter("_change_type <> 'update_preimage'")
        .withColumn("__rank", F.row_number().over(latest))
        .filter("__rank = 1")
        .withColumn("__deleted", F.expr("_change_type = 'delete' OR status = 'cancelled'"))
    )


def merge_changes(changes: DataFrame, view: Path) -> None:
    """Merge the latest change of each key in a batch of the change feed; rows that fail the filter are deleted."""
    changes = latest_changes(changes)
    spark = changes.sparkSession
    source = "bench_changes"
    names = query(changes.limit(0)).columns
    changes.withColumn("cents", F.expr("amount * 100")).createOrReplaceTempView(source)
    assignments = ", ".join(f"view.{name} = change.{name}" for name in names)
    spark.sql(
        f"MERGE INTO delta.`{view}` AS view USING {source} AS change ON view.order_id = change.order_id "
        "WHEN MATCHED AND change.__deleted THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {assignments} "
        f"WHEN NOT MATCHED AND NOT change.__deleted THEN INSERT ({', '.join(names)}) "
        f"VALUES ({', '.join(f'change.{name}' for name in names)})"
    )


def rows_in_range(
    spark: SparkSession, upstream: Path, after: str | None, up_to: str | None, version: int | None = None
) -> DataFrame:
    """Return the rows of a range of keys, as of a version or the newest one."""
    reader = spark.read.format("delta")
    rows = (reader if version is None else reader.option("versionAsOf", version)).load(str(upstream))
    if after is not None:
        rows = rows.filter(F.col("order_id") > after)
    return rows if up_to is None else rows.filter(F.col("order_id") <= up_to)


def merge_range(spark: SparkSession, upstream: Path, view: Path, after: str | None, up_to: str | None) -> None:
    """Merge the current rows of a range of keys."""
    query(rows_in_range(spark, upstream, after, up_to)).createOrReplaceTempView("bench_range")
    spark.sql(
        f"MERGE INTO delta.`{view}` AS view USING bench_range AS batch ON view.order_id = batch.order_id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
