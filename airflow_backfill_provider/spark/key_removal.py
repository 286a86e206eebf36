"""Removes the rows of the view that have changed keys; their new rows are appended afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.scan.columns import OwnColumns
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.spark.key_variable import condition_for, fit_in_variable
from airflow_backfill_provider.spark.merging import REMOVE, merge_into, refuse_match, same_keys
from airflow_backfill_provider.spark.net_changes import MeasuredChanges
from airflow_backfill_provider.spark.small_changes import broadcast_if_few
from airflow_backfill_provider.spark.spark_errors import DUPLICATE_KEY
from airflow_backfill_provider.spark.stamped_table import StampedTable
from airflow_backfill_provider.spark.stamps import CHANGES_REMOVAL


class KeyRemoval:
    """
    Removes the changed keys of an epoch, once.

    :param table: the view's table.
    :param changed: the view's key columns and the flag ``appeared``. A key that appeared must not be in the table.
    :param measured: the number of changes, and their properties.
    :param keys: the view's key columns.
    :param own: the names of the package's own columns.
    :param within: conditions that every row of the table with a changed key meets.
    """

    def __init__(
        self,
        table: StampedTable,
        changed: DataFrame,
        measured: MeasuredChanges,
        keys: Sequence[str],
        own: OwnColumns,
        within: Sequence[str] = (),
    ) -> None:
        self._within = tuple(within)
        self._table = table
        self._changed = changed
        self._measured = measured
        self._keys = keys
        self._own = own

    def run(self, identity: ViewIdentity, barrier: Barrier) -> None:
        """
        Remove the keys.

        :raises PySparkException: with :data:`~airflow_backfill_provider.spark.spark_errors.DUPLICATE_KEY` if the table
            has a key that appeared.
        """
        if fit_in_variable(self._measured.through, len(self._keys), self._measured.key_bytes):
            self._delete(identity, barrier)
        else:
            self._merge(identity, barrier)

    def _delete(self, identity: ViewIdentity, barrier: Barrier) -> None:
        """Read the table's keys once."""
        appeared, schema = F.col(self._own.appeared), self._table.read().schema
        types = {key: schema[key].dataType.simpleString() for key in self._keys}
        with ExitStack() as variables:

            def any_of(flagged: Column, kind: str) -> str:
                keys = self._changed.filter(flagged).select(*map(column, self._keys))
                name = f"backfill_{kind}_{identity.incarnation}_{barrier.epoch}"
                return variables.enter_context(condition_for(keys, self._measured.through, types, name))

            condition = any_of(~appeared, "removed")
            if self._measured.some_appeared:
                condition = (
                    f"CASE WHEN {any_of(appeared, 'appeared')} THEN CAST(raise_error('{DUPLICATE_KEY}') AS BOOLEAN) "
                    f"ELSE {condition} END"
                )
            conditions = " AND ".join([*self._within, f"({condition})"])
            statement = f"DELETE FROM {self._table.sql_name} AS view WHERE {conditions}"
            self._table.run(statement, CHANGES_REMOVAL, identity, barrier)

    def _merge(self, identity: ViewIdentity, barrier: Barrier) -> None:
        """Join the keys, however many there are, with those of the table."""
        # With any assignment, Delta reads and moves whole rows, so add the refusal only if it is needed.
        refusal = refuse_match(self._keys, self._own.appeared) if self._measured.some_appeared else ""
        merge_into(
            self._table,
            broadcast_if_few(self._changed, self._measured.through, self._measured.key_bytes),
            [*same_keys(self._keys, self._measured.has_nulls), *self._within],
            f"{refusal}{REMOVE}",
            CHANGES_REMOVAL,
            identity,
            barrier,
        )
