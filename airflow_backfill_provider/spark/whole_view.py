"""Replaces all rows of a view in one commit, once per epoch."""

from __future__ import annotations

from pyspark.sql import DataFrame

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.lake.tables.view_feed import CHANGE_DATA_FEED
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity, view_properties
from airflow_backfill_provider.spark.appending import overwrite_by_delta
from airflow_backfill_provider.spark.partitions import gathered, partition_columns, storable
from airflow_backfill_provider.spark.stamps import epoch_transaction
from airflow_backfill_provider.spark.view import MaterializedView
from airflow_backfill_provider.spark.view_columns import with_comments


def replace_view(view: MaterializedView, fresh: DataFrame, part: str, identity: ViewIdentity, barrier: Barrier) -> None:
    """
    Replace all rows of a view.

    It stays the same table: readers of its changes would take a replaced one for another. If the view has a change
    feed, only the rows that differ are written, so that these readers see no others. If the epoch also changes the
    columns, no file can stay, and all rows are written.

    :param fresh: all rows that the view shall have, in its columns.
    :param part: the part of the epoch; see :mod:`~airflow_backfill_provider.spark.stamps`.
    """
    if barrier.columns_change is not None:
        _replace_columns(view, fresh, part, identity, barrier)
        return
    if has_change_feed(view):
        view.replace_units(fresh, fresh.limit(0), (), part, identity, barrier)
        return
    relation = f"backfill_whole_{identity.incarnation}_{barrier.epoch}"
    columns = ", ".join(map(quote, fresh.columns))
    storable(fresh, view.table.partition_by).createOrReplaceTempView(relation)
    try:
        view.table.run(
            f"INSERT OVERWRITE {view.table.sql_name} ({columns}) SELECT {columns} FROM {relation}",
            part,
            identity,
            barrier,
        )
    finally:
        view.table.spark.catalog.dropTempView(relation)


def _replace_columns(
    view: MaterializedView, fresh: DataFrame, part: str, identity: ViewIdentity, barrier: Barrier
) -> None:
    """Replace all rows and all columns; the table's id, properties, partitions and comments stay."""
    table = view.table
    transaction = epoch_transaction(identity, part, barrier)
    placed = gathered(storable(fresh, table.partition_by), table.partition_by)
    rows, partitions = with_comments(placed, table.read().schema), partition_columns(fresh, table.partition_by)

    def write() -> None:
        overwrite_by_delta(rows, view.path, transaction, partitions)

    table.once(part, identity, barrier, write, may_be_empty=False)


def has_change_feed(view: MaterializedView) -> bool:
    """Return whether a view records its changes."""
    properties = view_properties(view.path, view.storage_options) or {}
    return properties.get(CHANGE_DATA_FEED, "false").lower() == "true"
