"""The writes of a backfill without everything that makes it one: what none that commits once per epoch can go below."""

from __future__ import annotations

from dataclasses import dataclass

from bench.comparison.peers import changes_since, latest_changes, make_view, query, rows_in_range
from bench.comparison.stage import Stage


@dataclass(frozen=True, slots=True)
class ByHand:
    """
    The commits of a hidden backfill, by somebody who knows beforehand what its epochs have to find out.

    Each range of keys is appended as of the first version. In the end the changed keys are removed, and their new rows
    appended. The ranges are of equal size, nobody asks whether a key is there twice or how many rows were written, and
    nothing is kept of how far it is: it can neither be stopped nor go on after a crash.
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
            # Whole rows on the small side made a task of the join run out of memory at 20 million rows.
            changes.select("order_id").createOrReplaceTempView("bench_changed")
            spark.sql(
                f"MERGE INTO {view} AS view USING bench_changed AS change ON view.order_id = change.order_id "
                "WHEN MATCHED THEN DELETE"
            )
            rows = changes.filter("NOT __deleted")
            query(rows).write.format("delta").mode("append").save(str(stage.view))
            changes.unpersist()
