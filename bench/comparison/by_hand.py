"""The bare writes of a backfill: the lower bound for any backfill that commits once per epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from deltalake import DeltaTable
from pyspark.sql import DataFrame

from bench.comparison.peers import changes_since, latest_changes, make_view, query, rows_in_range
from bench.comparison.stage import Stage

Chunks = Callable[[Stage], Iterator[DataFrame]]
"""Yields the first rows in as many chunks as there are epochs."""


def chunks_of_files(stage: Stage) -> Iterator[DataFrame]:
    """Yield runs of the first version's files, read as plain Parquet files."""
    files = sorted(DeltaTable(str(stage.upstream), version=0).file_uris())
    epochs = stage.workload.epochs
    for number in range(epochs):
        chosen = files[len(files) * number // epochs : len(files) * (number + 1) // epochs]
        yield stage.spark.read.parquet(*chosen)


def chunks_of_keys(stage: Stage) -> Iterator[DataFrame]:
    """Yield ranges of keys as of the first version."""
    bounds = stage.workload.key_bounds()
    for after, up_to in zip([None, *bounds], [*bounds, None], strict=True):
        yield rows_in_range(stage.spark, stage.upstream, after, up_to, version=0)


@dataclass(frozen=True, slots=True)
class ByHand:
    """
    The commits of a hidden backfill, with everything known in advance that its epochs have to find out.

    Each chunk is appended as of the first version. At the end the changed keys are removed, and their new rows
    appended. The chunks have equal size. There is no check for duplicate keys, no count of the written rows, and no
    record of the progress, so it can neither be paused nor resumed after a crash.

    :param chunks: how it reads the first rows.
    """

    name: str = "the same commits by hand"
    chunks: Chunks = chunks_of_files

    def run(self, stage: Stage) -> None:
        """Append a chunk after each commit, then bring in all changes at once."""
        spark, view = stage.spark, f"delta.`{stage.view}`"
        make_view(spark, stage.upstream, stage.view, {"delta.enableDeletionVectors": "true"})
        chunks = self.chunks(stage)
        for _ in range(stage.workload.epochs):
            stage.commit()
            with stage.step():
                query(next(chunks)).write.format("delta").mode("append").save(str(stage.view))
        while stage.commit():
            pass
        if not stage.workload.per_mille:
            return
        with stage.step():
            changes = latest_changes(changes_since(spark, stage.upstream, 1)).persist()
            # With whole rows on the small side, a task of the join ran out of memory at 20 million rows.
            changes.select("order_id").createOrReplaceTempView("bench_changed")
            spark.sql(
                f"MERGE INTO {view} AS view USING bench_changed AS change ON view.order_id = change.order_id "
                "WHEN MATCHED THEN DELETE"
            )
            rows = changes.filter("NOT __deleted")
            query(rows).write.format("delta").mode("append").save(str(stage.view))
            changes.unpersist()
