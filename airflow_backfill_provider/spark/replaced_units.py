"""
Replaces units of a stamped table in one commit, once per epoch and part.

Where the rows that go are few and their places are known, no MERGE is needed; see
:mod:`~airflow_backfill_provider.spark.placed_rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity
from airflow_backfill_provider.sources.shared.kept_rows import KEPT
from airflow_backfill_provider.spark.merging import REMOVE, insert_of, merge_into
from airflow_backfill_provider.spark.partitions import partition_columns, touched_partitions
from airflow_backfill_provider.spark.placed_rows import KnownRows, KnownTable, replace_placed
from airflow_backfill_provider.spark.small_changes import are_few, broadcast_if_few
from airflow_backfill_provider.spark.stamped_table import StampedTable
from airflow_backfill_provider.spark.table_rows import has_deletion_vectors
from airflow_backfill_provider.spark.touched_units import TouchedUnits
from airflow_backfill_provider.spark.unit_changes import unit_changes


def table_before(table: StampedTable, part: str, identity: ViewIdentity, barrier: Barrier) -> KnownTable | None:
    """Return a table as it is before the epoch writes a part; ``None`` if an earlier attempt has written it."""
    version = table.log.newest().version
    # This comes second: then the version is from before the epoch's own write, and nothing is replaced twice.
    return None if table.is_written(part, identity, barrier) else KnownTable.of(table, version)


def units_of(
    known: KnownTable, touched: DataFrame, columns: Sequence[str], partition_by: Sequence[str]
) -> tuple[TouchedUnits | None, KnownRows]:
    """
    Return units, and the rows that a table has of them.

    :param touched: the units, in the table's columns.
    :param columns: the table's columns that identify a unit; none if the whole table is one unit.
    :param partition_by: the table's partition columns.
    :returns: ``None`` for the units if the whole table is one.
    """
    units = TouchedUnits.of(touched, columns) if columns else None
    partitions = touched_partitions(touched, partition_columns(touched, partition_by))
    return units, known.of_units(units, partitions)


def replace_following(
    table: StampedTable,
    known: KnownTable,
    touched: DataFrame,
    columns: Sequence[str],
    fresh: Callable[[DataFrame], DataFrame],
    part: str,
    identity: ViewIdentity,
    barrier: Barrier,
) -> int:
    """
    Replace units whose new rows depend on those that they have.

    :param known: the table before the part is written; see :func:`table_before`.
    :param touched: the units, as for :func:`units_of`.
    :param columns: likewise.
    :param fresh: returns all rows that the units shall have, from those that they have. These are kept meanwhile.
    :returns: the number of units.
    """
    units, old = units_of(known, touched, columns, table.partition_by)
    old = old.among(old.rows.persist(KEPT))
    try:
        replace_known(table, old, fresh(old.rows), units, part, identity, barrier)
        return 1 if units is None else units.number
    finally:
        old.rows.unpersist()


def replace_known(
    table: StampedTable,
    old: KnownRows,
    fresh: DataFrame,
    units: TouchedUnits | None,
    part: str,
    identity: ViewIdentity,
    barrier: Barrier,
) -> None:
    """
    Replace units whose rows were read before.

    :param old: all rows that the table has of the units, as of a version that was the newest one before the part was
        found unwritten. Rows that came later would stay.
    :param fresh: all rows that the units shall have, in the table's columns.
    :param units: the units; ``None`` if the whole table is one unit.
    """
    if units is None or not are_few(2 * units.number, len(old.columns), 2 * units.value_bytes):
        # A MERGE then replaces the rows, and places would be moved and sorted for nothing.
        old = old.without_places()
    with unit_changes(old, fresh, units, table.partition_by) as changes:
        if changes.are_few and replace_placed(
            table, changes.found, old, part, identity, barrier, is_updated=changes.is_updated
        ):
            return
        if not changes.removed:
            table.append(changes.fresh, part, identity, barrier)
            return
        merge_into(
            table,
            broadcast_if_few(changes.rows, changes.removed + changes.written, changes.value_bytes),
            [
                *changes.conditions(),
                *(units.within("view.") if units else ()),
                *changes.within("view."),
                *(changes.filters() if has_deletion_vectors(table.path, table.storage_options) else ()),
            ],
            f"{REMOVE} WHEN NOT MATCHED AND NOT change.{changes.is_tombstone} THEN {insert_of(old.columns)}",
            part,
            identity,
            barrier,
        )
