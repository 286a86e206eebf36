"""Writes a view of rows on Spark that keeps former rows: each change of a key by its version, in one commit."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.job.keep import ValidBy
from airflow_backfill_provider.core.scan.columns import own_columns
from airflow_backfill_provider.core.scan.table_version import TableVersions
from airflow_backfill_provider.lake.log.commit_times import recorded_times
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity
from airflow_backfill_provider.shapes.changes import Changes
from airflow_backfill_provider.shapes.row import repair
from airflow_backfill_provider.shapes.row.writer import RowWriter
from airflow_backfill_provider.sources.delta.versions import version_of
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.sources.shared.kept_rows import KEPT
from airflow_backfill_provider.spark.former_rows import (
    FormerRows,
    began,
    began_at,
    beginning_at,
    rows_of_query,
)
from airflow_backfill_provider.spark.job_rows import literal
from airflow_backfill_provider.spark.query import run_query
from airflow_backfill_provider.spark.replaced_units import replace_following, table_before
from airflow_backfill_provider.spark.stamps import CHANGES, REPAIR


class FormerRowsWriter(RowWriter):
    """
    Writes one job's view with ``keep: deleted`` or ``keep: history``.

    The query runs over each row that a key had in the window, and not only over the last one.
    """

    def write_part(
        self, rows: DataFrame, part: int, identity: ViewIdentity, barrier: Barrier, *, since: TableVersions | None
    ) -> None:
        """Append the rows that pass the query, each from the version on that it was read as of."""
        del since
        job = self._context.job
        begins = began_at(job.valid_by, barrier.chunk_offset, self._log)
        fresh = beginning_at(self._context.run(rows), job.keep, begins)
        self._context.view.append(fresh, part, identity, barrier)

    def write_changes(
        self,
        changes: Changes,
        identity: ViewIdentity,
        barrier: Barrier,
        *,
        repairs: bool,
        since: TableVersions | None,
    ) -> None:
        """Replace the rows that the changed keys have, in one commit."""
        del since
        versions = self._tolerated(changes) if repairs else self._versions_of(changes)
        self._replace(versions, CHANGES, identity, barrier)

    def repair(
        self, changes: Changes | None, identity: ViewIdentity, barrier: Barrier, *, since: TableVersions | None
    ) -> None:
        """
        Replace the changed rows by version, and the chosen ones as of the window's end.

        What differs from the query ends there, and the right row begins. Rows that have ended are not touched.
        """
        del since
        view, rows, outputs = self._context.view, self._rows, self._key_outputs()
        chosen = repair.rows_to_write(self._context.spark, rows, barrier)
        present = rows_of_query(view.table.read(), self._context.job.keep)
        keys = repair.keys_to_replace(self._context.spark, rows, barrier, chosen, present, outputs).persist(KEPT)
        end = literal(barrier.upstream.to_offset)
        steps = [
            self._as_changes(chosen, end, is_upsert=True),
            self._as_changes(keys.toDF(*rows.key.names), end, is_upsert=False),
        ]
        if changes is not None:
            steps.append(self._tolerated(changes))
        names = [*rows.columns, rows.change_offset, rows.own.is_upsert, rows.own.appeared]
        try:
            together = reduce(DataFrame.unionAll, (step.select(*map(column, names)) for step in steps))
            self._replace(together, REPAIR, identity, barrier)
        finally:
            keys.unpersist()

    def _as_changes(self, rows: DataFrame, end: Column, *, is_upsert: bool) -> DataFrame:
        """Return rows, or the columns of keys alone, as changes at the end of a window."""
        own, types = self._rows.own, self._rows.empty().schema
        return rows.select(
            *(
                column(name) if name in rows.columns else F.lit(None).cast(types[name].dataType).alias(name)
                for name in self._rows.columns
            ),
            end.alias(self._rows.change_offset),
            F.lit(is_upsert).alias(own.is_upsert),
            F.lit(False).alias(own.appeared),
        )

    def _tolerated(self, changes: Changes) -> DataFrame:
        """Return changes of keys that may be in the view although they appeared: the upstream has each once."""
        return self._versions_of(changes).withColumn(self._rows.own.appeared, F.lit(False))

    def _versions_of(self, changes: Changes) -> DataFrame:
        if changes.versions is None:
            raise TypeError("the changes of a view that keeps former rows come by version")
        return changes.versions

    def _replace(self, versions: DataFrame, part: str, identity: ViewIdentity, barrier: Barrier) -> None:
        """
        Replace the rows of changed keys, once per epoch.

        :param versions: the used columns, the version of each change, and the flags of a change.
        """
        table = self._context.view.table
        known = table_before(table, part, identity, barrier)
        if known is None:
            return
        former = FormerRows(self._context.job.keep, self.schema(), self._key_outputs())

        def fresh(old: DataFrame) -> DataFrame:
            return former.after(old, self._steps(former, self._dated(versions, barrier)))

        touched = former.units_of(self._keys_of(versions))
        replace_following(table, known, touched, former.unit, fresh, part, identity, barrier)

    def _dated(self, versions: DataFrame, barrier: Barrier) -> DataFrame:
        """Return changes with what the view has of their versions in place of these."""
        by, offset = self._context.job.valid_by, self._rows.change_offset
        if by is ValidBy.VERSION:
            return versions.withColumn(offset, began(by, F.col(offset)))
        end = version_of(barrier.upstream.to_offset)
        # Also versions without changes are read: then each time is later than all times before it.
        times = recorded_times(self._log, min(version_of(barrier.changes_after), end - 1), end)
        version, time = own_columns(versions.columns).numbered("time", 2)
        found = self._context.spark.createDataFrame([*times.items()], f"{version} BIGINT, {time} BIGINT")
        joined = versions.join(F.broadcast(found), F.col(offset) == F.col(version))
        return joined.withColumn(offset, began(by, F.col(time))).drop(version, time)

    @property
    def _log(self) -> DeltaLog:
        return DeltaLog(self._context.job.upstream.location, self._context.view.storage_options)

    def _steps(self, former: FormerRows, versions: DataFrame) -> DataFrame:
        """Return the changes with the query's columns; see :meth:`FormerRows.after`."""
        rows, names = self._rows, self._rows.names
        # The query passes the version on like a key column that it does not select.
        version = own_columns([*names, *self._query.words, *self._query.written_names(names)]).named("version")
        query = replace(self._context.query, key=(*self._context.query.key, version))
        (output,) = self._query.key_outputs((version,), names)
        written = versions.filter(F.col(rows.own.is_upsert)).withColumnRenamed(rows.change_offset, version)
        used = written.select(*map(column, (*rows.columns, version)))
        passing = run_query(self._context.spark, query, used)
        changed = self._keys_of(versions, rows.change_offset, rows.own.appeared)
        return former.written(passing, column(output), F.lit(False)).unionAll(
            former.changed(changed, F.col(rows.change_offset), F.col(rows.own.appeared))
        )

    def _keys_of(self, versions: DataFrame, *others: str) -> DataFrame:
        """Return the keys of changes under the names that the view has for them, and other columns."""
        outputs = zip(self._rows.key.names, self._key_outputs(), strict=True)
        return versions.select(*(column(name).alias(output) for name, output in outputs), *map(column, others))
