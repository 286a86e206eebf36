"""
The changes of a window, where a row's position depends on other upstreams: history is read by the units of joins.

The changes of all upstreams together take rows of the lead from some units to others. Each unit decides alone: the view
gets what happens in units that were read, and the strategy keeps what happens in all others.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.engine.window_changes import HeldBack, WindowChanges
from airflow_backfill_provider.shapes.changes import Changes
from airflow_backfill_provider.spark.kept_changes import kept_changes, kept_rows
from airflow_backfill_provider.spark.net_changes import ROWS_ADDED, MeasuredChanges, leaves_something, measure_changes
from airflow_backfill_provider.spark.unit_places import are_all


class PlacedWindowChanges(WindowChanges):
    """Finds the changes of a window, those of rows of the lead by their units among them."""

    _held_back: HeldBack | None = None
    _added: int | None = None

    @property
    def rows_added(self) -> int:
        """The rows that these add to the units that were read before."""
        return super().rows_added if self._added is None else self._added

    def find(self) -> None:
        """Find the changes, and then what they do in each unit, as long as some unit is not read."""
        super().find()
        changes, barrier, placed = super().of_view(), self.barrier, self.tables.job_rows
        if barrier.computes_whole or are_all(placed, barrier.read_before):
            return
        self._added = 0
        if changes is None:
            return
        by_unit = self.opened.enter_context(self.tables.writer.placed_changes(changes, barrier))
        net = kept_rows(by_unit, self.opened)
        counted = net.agg(
            F.count_if(~self.visible).alias("held_back"),
            F.sum(F.when(self.visible, F.col(placed.own.named(ROWS_ADDED)))).alias("added"),
        ).collect()[0]
        self._added = int(counted["added"] or 0)
        if counted["held_back"]:
            self._held_back = HeldBack(net.filter(~self.visible & leaves_something(placed)), counted["held_back"])

    def of_view(self) -> Changes | None:
        """Return all changes, of which the writer applies those of units that were read; ``None`` if none was."""
        return super().of_view() if self.barrier.read_before else None

    def held_back(self) -> HeldBack | None:
        """Return the changes in units that are not read yet."""
        return self._held_back

    def net_changes(self) -> DataFrame | None:
        """Return the net changes of the lead: any of them may touch a unit."""
        if not self.barrier.lead_has_changes:
            return None
        return kept_changes(self.net(F.lit(True)), self.opened)

    def applied(self, net: DataFrame) -> DataFrame:
        """Return net changes as they are."""
        return net

    def measured(self, net: DataFrame) -> MeasuredChanges:
        """Count net changes; none of them is held back as such."""
        return measure_changes(self.rows, net, F.lit(True))
