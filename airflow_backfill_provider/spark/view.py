"""
The materialized view's table: creates it, writes to it, and checks it.

:mod:`~airflow_backfill_provider.spark.stamped_table` makes each write happen once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint, reached
from airflow_backfill_provider.core.errors import MaterializedViewError
from airflow_backfill_provider.core.job.layout import ViewLayout
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.core.job.succession import FirstRows
from airflow_backfill_provider.core.scan.columns import OwnColumns
from airflow_backfill_provider.core.scan.table_version import TableVersion
from airflow_backfill_provider.lake.log.schemas import TableSchema
from airflow_backfill_provider.lake.tables.remains import create_clause
from airflow_backfill_provider.lake.tables.view_feed import feed_of_finished
from airflow_backfill_provider.lake.tables.view_identity import (
    ADOPTED_PROPERTY,
    FINISHED_PROPERTY,
    ViewIdentity,
    identifying_properties,
    identity_of,
    remove_uncommitted_files,
    view_identity,
    view_properties,
)
from airflow_backfill_provider.lake.tables.view_table import names_to_map
from airflow_backfill_provider.sources.shared.balanced import all_of
from airflow_backfill_provider.spark.first_rows import first_rows_of
from airflow_backfill_provider.spark.key_removal import KeyRemoval
from airflow_backfill_provider.spark.merging import insert_of, merge_into, refuse_match, same_keys
from airflow_backfill_provider.spark.net_changes import MeasuredChanges
from airflow_backfill_provider.spark.replaced_units import replace_known, table_before, units_of
from airflow_backfill_provider.spark.session import session_settings
from airflow_backfill_provider.spark.small_changes import MOST_KEYS, broadcast_if_few, key_filter
from airflow_backfill_provider.spark.staged_files import remove_staged
from airflow_backfill_provider.spark.stamped_table import VIEW_TABLE, StampedTable
from airflow_backfill_provider.spark.stamps import ADOPTION, CHANGES, OF_CHANGES, snapshot_part, transaction_id
from airflow_backfill_provider.spark.table_rows import has_deletion_vectors
from airflow_backfill_provider.spark.view_layout import ANY_PROPERTY, PLAIN, assignments, table_clauses

_UNFINISHED = {FINISHED_PROPERTY: "false"}


class MaterializedView:
    """
    The view's Delta table.

    :param spark: the session to write with.
    :param path: canonical location.
    :param storage_options: options of the object store, as deltalake takes them.
    :param partition_by: its partition columns.
    """

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        storage_options: Mapping[str, str] | None = None,
        partition_by: Sequence[str] = (),
    ) -> None:
        self.path = path
        self.table = StampedTable(spark, path, VIEW_TABLE, storage_options, partition_by)
        self.storage_options = storage_options
        self._spark = spark

    # ------------------------------------------------------------------------------------------------- identity

    def identity(self) -> ViewIdentity | None:
        """
        Return the identity of the view at the path; ``None`` if there is none.

        :raises MaterializedViewError: if the path holds anything but a materialized view of this package.
        """
        return view_identity(self.path, self.storage_options)

    def require_usable(self, job: str, incarnations: frozenset[str]) -> ViewIdentity | None:
        """
        Refuse a path that does not belong to a job.

        :param incarnations: the job's incarnations so far; empty before it is created.
        :returns: the identity of the job's own view; ``None`` if the path is free.
        :raises MaterializedViewError: if another table, another job's view, or files lie there.
        """
        found = self.identity()
        if found is not None and (found.job != job or found.incarnation not in incarnations):
            raise MaterializedViewError(
                f"materialized_view: {self.path} holds a view of job {found.job} that the control tables of job {job} "
                "don't know; choose another folder, correct the job's state folder, or delete the view"
            )
        return found

    def ensure(
        self,
        schema: StructType,
        identity: ViewIdentity,
        earlier_incarnations: Mapping[str, int],
        properties: Mapping[str, str],
        first_rows: FirstRows | None = None,
        layout: ViewLayout = PLAIN,
    ) -> None:
        """
        Create the table of an incarnation, or replace the table of an earlier incarnation of the job, in one commit.

        :param schema: the query's columns.
        :param earlier_incarnations: the job's earlier incarnations, each with its highest parallelism.
        :param first_rows: the rows of the new table, which make it a finished view; ``None`` for no rows.
        :param layout: how its files are laid out.
        :raises MaterializedViewError: if another table lies at the path, or the rows are not what the query gives.
        """
        incarnations = frozenset({*earlier_incarnations, identity.incarnation})
        found = self.require_usable(identity.job, incarnations)
        if found == identity:
            return
        if found is None:
            remove_uncommitted_files(self.path)
        else:
            # A delayed process of the old incarnation could append after the replacement, so its ids are used up first.
            parts = range(earlier_incarnations[found.incarnation])
            adopted = [ADOPTION] if ADOPTED_PROPERTY in (view_properties(self.path, self.storage_options) or {}) else []
            for part in (*OF_CHANGES, *adopted, *map(snapshot_part, parts)):
                self.table.burn_transaction(transaction_id(found, part))
            remove_staged(self.path, found.incarnation)
        if names_to_map(TableSchema.of(schema.json()).types):
            properties = {"delta.columnMapping.mode": "name", **properties}
        ours = identifying_properties(identity, finished=first_rows is not None)
        if first_rows is not None:
            ours |= feed_of_finished(properties, schema.names)
        verb = "REPLACE TABLE" if found is not None else create_clause(self.path, self.storage_options)
        relation = f"backfill_view_{identity.incarnation}"
        reached(CrashPoint.BEFORE_CREATION_COMMIT)
        first_rows_of(self._spark, schema, first_rows, self.storage_options).createOrReplaceTempView(relation)
        statement = f"{verb} {self.table.sql_name} {table_clauses(layout, schema.names, {**properties, **ours})}"
        try:
            with session_settings(self._spark, ANY_PROPERTY if layout.layout_properties else {}):
                self.table.create_once(f"{statement} AS SELECT * FROM {relation}", identity, order=len(incarnations))
        finally:
            self._spark.catalog.dropTempView(relation)
        reached(CrashPoint.AFTER_CREATION_COMMIT)
        self.require_usable(identity.job, incarnations)

    def mark_finished(self, identity: ViewIdentity, epoch: int, given: Mapping[str, str] | None = None) -> None:
        """
        Mark the view as finished, unless it is already, and switch its change feed on in the same commit.

        :param given: the table properties in the job's definition, which may keep the feed off.
        """
        if self._is_finished(identity) is not False:
            return
        remove_staged(self.path, identity.incarnation, before=epoch + 1)
        feed = feed_of_finished(given or {}, self.table.read().columns)
        self._set_properties({FINISHED_PROPERTY: "true", **feed}, identity, epoch)
        if self.identity() != identity:
            # A rebuild came between check and write, so this marked the new view by mistake.
            self._set_properties(_UNFINISHED, identity, epoch)

    def unmark_finished(self, identity: ViewIdentity, epoch: int) -> None:
        """Mark the view as not finished, if it is marked as finished."""
        if self._is_finished(identity):
            self._set_properties(_UNFINISHED, identity, epoch)

    def _is_finished(self, identity: ViewIdentity) -> bool | None:
        """Return whether the table is marked as finished; ``None`` if it is not the incarnation's."""
        properties = view_properties(self.path, self.storage_options) or {}
        if identity_of(properties) != identity:
            return None
        return properties.get(FINISHED_PROPERTY) == "true"

    def _set_properties(self, properties: Mapping[str, str], identity: ViewIdentity, epoch: int) -> None:
        with self.table.committing({"event": "finish", "incarnation": identity.incarnation, "epoch": epoch}):
            self._spark.sql(f"ALTER TABLE {self.table.sql_name} SET TBLPROPERTIES ({assignments(properties)})")
        self.table.log.written_to()

    # -------------------------------------------------------------------------------------------------- writes

    def merge(
        self,
        changes: DataFrame,
        measured: MeasuredChanges,
        keys: Sequence[str],
        columns: Sequence[str],
        own: OwnColumns,
        identity: ViewIdentity,
        barrier: Barrier,
        within: Sequence[str] = (),
    ) -> None:
        """
        Apply net changes, once per epoch.

        The merge fails if a key appeared that the view already has: the upstream would have two rows with that key, and
        the view only one.

        :param changes: the view's columns and the flags of
            :func:`~airflow_backfill_provider.spark.net_changes.net_changes`; rows without ``is_upsert`` are deleted.
        :param measured: the number of changes, and their properties.
        :param keys: the view's key columns.
        :param columns: the view's columns.
        :param own: the names of the package's own columns.
        :param within: conditions that every row of the view with a changed key meets.
        """
        if measured.has_nulls and all(measured.has_nulls):
            changes = self._without_idle_null(changes, keys, own)
        assignments = ", ".join(f"view.{quote(name)} = change.{quote(name)}" for name in columns)
        merge_into(
            self.table,
            broadcast_if_few(changes, measured.through, measured.value_bytes),
            [*same_keys(keys, measured.has_nulls), *within, *self._filters(changes, measured.through, keys)],
            f"{refuse_match(keys, own.appeared)}"
            f"WHEN MATCHED AND NOT change.{own.is_upsert} THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {assignments} "
            f"WHEN NOT MATCHED AND change.{own.is_upsert} THEN {insert_of(columns)}",
            CHANGES,
            identity,
            barrier,
        )

    def _without_idle_null(self, changes: DataFrame, keys: Sequence[str], own: OwnColumns) -> DataFrame:
        """
        Return changes without the removal of an all-null key that the view does not have.

        A merge into a table with deletion vectors fails on such a removal ("did not match any merge clause"): Delta
        checks the match again, with nulls in place of the row that it did not find.
        """
        is_null = all_of([F.col(quote(key)).isNull() for key in keys])
        if not self.table.read().filter(is_null).isEmpty():
            return changes
        return changes.filter(~is_null | F.col(own.is_upsert))

    def rewrite(
        self,
        changed: DataFrame,
        measured: MeasuredChanges,
        written: DataFrame,
        keys: Sequence[str],
        own: OwnColumns,
        identity: ViewIdentity,
        barrier: Barrier,
        within: Sequence[str] = (),
    ) -> None:
        """
        Apply net changes to an unfinished view in two commits, each once per epoch.

        Removing the changed keys and appending their new rows costs much less than a merge: a merge that also inserts
        has to shuffle the rows of every file that it touches.

        :param changed: the view's key columns and the flag ``appeared``.
        :param measured: the number of changes, and their properties.
        :param written: the changed keys' new rows, in the view's columns.
        :param keys: the view's key columns.
        :param own: the names of the package's own columns.
        :param within: conditions that every row of the view with a changed key meets.
        """
        # After the append the keys exist again, so a repeated removal would delete the new rows.
        if self.table.is_written(CHANGES, identity, barrier):
            return
        KeyRemoval(self.table, changed, measured, keys, own, within).run(identity, barrier)
        reached(CrashPoint.AFTER_REMOVAL_COMMIT)
        self.table.append(written, CHANGES, identity, barrier)

    def replace_units(
        self,
        fresh: DataFrame,
        touched: DataFrame,
        unit_columns: Sequence[str],
        part: str,
        identity: ViewIdentity,
        barrier: Barrier,
    ) -> int | None:
        """
        Replace units of the view in one commit, once per epoch and part.

        It does not matter which rows the units had, foreign and repeated ones included. Rows that the view has already
        are not written. No other part may touch the same units at the same time.

        :param fresh: all rows that the units shall have, in the view's columns; several rows of a unit are allowed.
        :param touched: the units, in the view's columns. A unit without fresh rows is removed.
        :param unit_columns: the view's columns that identify a unit; none if the whole view is one unit.
        :param part: the part of the epoch; see :mod:`~airflow_backfill_provider.spark.stamps`.
        :returns: the number of rows in ``touched``; ``None`` if an earlier attempt has replaced the units.
        """
        known = table_before(self.table, part, identity, barrier)
        if known is None:
            return None
        units, old = units_of(known, touched, unit_columns, self.table.partition_by)
        replace_known(self.table, old, fresh, units, part, identity, barrier)
        return 1 if units is None else units.number

    def has_chunk(self, part: int, identity: ViewIdentity, barrier: Barrier) -> bool:
        """Return whether an earlier attempt appended a part of the chunk."""
        return self.table.is_written(snapshot_part(part), identity, barrier)

    def append(self, rows: DataFrame, part: int, identity: ViewIdentity, barrier: Barrier) -> None:
        """Append a part of the chunk, once per epoch."""
        self.table.append(rows, snapshot_part(part), identity, barrier)

    def fence_chunk(self, parts: int, identity: ViewIdentity, barrier: Barrier) -> frozenset[int]:
        """Give up the unwritten parts of a chunk; return the written ones."""
        return frozenset(part for part in range(parts) if self.table.fence(snapshot_part(part), identity, barrier))

    def fence_changes(self, identity: ViewIdentity, barrier: Barrier) -> bool:
        """
        Give up the parts of an epoch's changes in the order of their writes, until one that is written.

        :returns: whether they are given up.
        """
        # The parts before the first written one had nothing to write, and those after it may still be written.
        return not any(self.table.fence(part, identity, barrier) for part in OF_CHANGES)

    def _filters(self, changes: DataFrame, rows: int, keys: Sequence[str]) -> list[str]:
        """Return conditions that exclude unchanged rows from a merge; a merge that rewrites files needs all rows."""
        if rows > MOST_KEYS or not keys or not has_deletion_vectors(self.path, self.storage_options):
            return []
        fields = {field.name: field.dataType.simpleString() for field in self.table.read().schema.fields}
        return [key_filter(changes, {key: fields[key] for key in keys}, "view")]

    # ------------------------------------------------------------------------------------------------- the log

    def require_ours(self, identity: ViewIdentity, barrier: Barrier, since: TableVersion | None) -> TableVersion:
        """
        Refuse a view that was replaced by another, or by an older copy of itself.

        :param since: the version that the previous epoch left; ``None`` before the first epoch.
        :returns: the view's newest version.
        :raises MaterializedViewError: with what was found.
        """
        if self.identity() != identity:
            raise MaterializedViewError(
                f"materialized_view: {self.path} is no longer the view of job {identity.job}; it was dropped or "
                "replaced: rebuild the job"
            )
        self._require_changeable()
        return self.table.require_continued(barrier, since)

    def _require_changeable(self) -> None:
        """Refuse an append-only view, which Delta would refuse only after computing a merge."""
        properties = view_properties(self.path, self.storage_options) or {}
        if properties.get("delta.appendOnly", "false").lower() == "true":
            raise MaterializedViewError(
                f"materialized_view: {self.path} has delta.appendOnly = true, so no epoch can apply changes; switch it "
                f"off with: ALTER TABLE {self.table.sql_name} UNSET TBLPROPERTIES ('delta.appendOnly')"
            )
