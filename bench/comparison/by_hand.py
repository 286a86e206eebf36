"""The bare writes of a backfill: the lower bound for any backfill that commits once per epoch."""

from __future__ import annotations

from dataclasses import dataclass

from bench.comparison.peers import changes_since, latest_changes, make_view, query, rows_in_range
from bench.comparison.stage import Stage


@dataclass(frozen=True, slots=True)
class ByHand:
    """
    The commits of a hidden backfill, with everything known in advance that its epochs have to find out.

    Each range of keys is appended as of the first version. At the end the changed keys are removed, and their new rows
    appended. The ranges have equal size. There is no check for duplicate keys, no count of the written rows, and no
    record of the progress, so it can neither be paused nor resumed after a crash.
    """

    name: str = "the same commits by hand"

    def run(self, stage: Stage) -> None:
        """Append a range after each commit, then bring in all changes at once."""
        spark, view = stage.spark, f"delta.`{stage.view}`"
        make_view(spark, stage.upstream, stage.view, {"delta.enableDeletionVectors": "true"})
        bounds = stage.workload.key_bounds()
        for after, up_to in zip([None, *bounds], [*bounds, None], strict=True):
            stage.commit()
            with stage.step():
                rows = rows_in_range(spark, stage.upstream, after, up_to, version=0)
                query(rows).write.format("delta").mode("append").save(str(stage.view))
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
