"""The changes of the upstreams beside the one that leads, as an epoch applies them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.engine.tables import JobTables
from airflow_backfill_provider.shapes import resolved_query_of
from airflow_backfill_provider.shapes.several import QueryOverSeveral
from airflow_backfill_provider.sources.shared.kept_rows import KEPT
from airflow_backfill_provider.spark.net_changes import net_changes


@contextmanager
def net_changes_of_others(tables: JobTables, barrier: Barrier) -> Iterator[Mapping[str, DataFrame]]:
    """
    Find the net changes of each other upstream, and keep them for the block.

    :returns: the changes by the names of the upstreams; only of those that have any, and none while the view has no row
        that they could touch.
    """
    query = resolved_query_of(tables.settings)
    if not isinstance(query, QueryOverSeveral) or barrier.computes_whole or not barrier.view_before:
        yield {}
        return
    images, found = query.images(), {}
    with ExitStack() as kept:
        for name, window in barrier.changed_others.items():
            other = tables.others[name]
            other.source.require_used_columns(window.from_offset, window.to_offset, other.created_on)
            net = net_changes(
                other.rows, window.from_offset, window.to_offset, F.lit(True), tuple(images.get(name, ()))
            ).persist(KEPT)
            kept.callback(net.unpersist)
            if net.head(1):
                found[name] = net
        yield found
