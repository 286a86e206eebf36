"""Writes a row-level view on Spark: merges changes by their key, and appends chunks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.unit_work import WHOLE, UnitWork
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.visibility import Visibility
from airflow_backfill_provider.core.scan.columns import own_columns
from airflow_backfill_provider.core.scan.table_version import TableVersions
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity
from airflow_backfill_provider.shapes.base import ViewWriter, WriterContext
from airflow_backfill_provider.shapes.changes import Changes
from airflow_backfill_provider.shapes.row import repair
from airflow_backfill_provider.shapes.row.query import check_query
from airflow_backfill_provider.shapes.view_checks import require_lasting
from airflow_backfill_provider.sources.shared.by_key import column, with_keys, without_keys
from airflow_backfill_provider.sources.shared.kept_rows import KEPT
from airflow_backfill_provider.spark.mergeable_columns import require_mergeable
from airflow_backfill_provider.spark.net_changes import MeasuredChanges, leaves_something, net_by_key, new_images
from airflow_backfill_provider.spark.partitions import touched_partitions
from airflow_backfill_provider.spark.placed_rows import KnownTable
from airflow_backfill_provider.spark.replaced_units import replace_following, table_before
from airflow_backfill_provider.spark.small_changes import are_few
from airflow_backfill_provider.spark.spark_errors import DUPLICATE_KEY
from airflow_backfill_provider.spark.spark_messages import condition_of_a_row
from airflow_backfill_provider.spark.stamps import CHANGES, REPAIR
from airflow_backfill_provider.spark.table_rows import has_deletion_vectors
from airflow_backfill_provider.spark.view_columns import require_columns
from airflow_backfill_provider.spark.whole_view import replace_view


class RowWriter(ViewWriter):
    """
    Writes one job's view.

    :param context: the objects that the writer works with.
    """

    def __init__(self, context: WriterContext) -> None:
        self._context = context
        self._rows = context.job_rows
        self._query = check_query(context.job.query)

    def check(self, rows: DataFrame, table_properties: Mapping[str, str]) -> None:
        """Refuse columns that the view cannot have, values that depend on the day, and hidden aggregates."""
        result = self._context.run(rows.limit(0))
        names = self._rows.names
        hidden = self._query.hidden_keys(self._rows.key.names, names).values()
        written = self._query.written_names(names) | {name.lower() for name in hidden}
        require_columns(result.schema, table_properties, written)
        require_mergeable(self._context.spark, result.schema, table_properties)
        require_lasting(self._context, rows)
        if result.limit(1).count():
            raise InvalidJobError(
                "query: it returns a row for an empty upstream, so it is an aggregate; remove the aggregate functions"
            )

    def schema(self) -> StructType:
        """Return the view's columns."""
        return self._context.run(self._rows.empty()).schema

    def keys(self, view: DataFrame) -> DataFrame:
        """Return the keys of the view's rows."""
        return view.select(*map(column, self._key_outputs())).toDF(*self._rows.key.names)

    def write_changes(
        self,
        changes: Changes,
        identity: ViewIdentity,
        barrier: Barrier,
        *,
        repairs: bool,
        since: TableVersions | None,
    ) -> None:
        """Replace or merge the changed keys; if changes waited, remove these keys and append their rows."""
        del since
        if self._rows.reader.appends_only and not repairs:
            appended = self._context.run(changes.net.select(*map(column, self._rows.columns)))
            self._context.view.table.append(appended, CHANGES, identity, barrier)
            return
        by_key = self._by_key(changes)
        if repairs:
            # The upstream was checked for repeated keys, so rows with these keys in the view are foreign.
            by_key = by_key.withColumn(self._rows.own.appeared, F.lit(False))
        # Nobody reads a view that is hidden until it is finished, so two commits do no harm.
        is_hidden = self._context.job.visibility is Visibility.ON_FINISH and barrier.was_unfinished
        view, measured = self._context.view, changes.measured
        if not is_hidden and has_deletion_vectors(view.path, view.storage_options):
            known = table_before(view.table, CHANGES, identity, barrier)
            if known is None:
                return
            places = known.places
            if places and are_few(2 * measured.through, len(places.table.fields), 2 * measured.value_bytes):
                self._replace_known(by_key, known, identity, barrier)
                return
        apply = self._rewrite if is_hidden else self._merge
        # A foreign row may lie in a partition that its key does not decide.
        within = () if repairs else self._partitions_of(by_key)
        apply(by_key, measured, identity, barrier, within)

    def write_part(
        self, rows: DataFrame, part: int, identity: ViewIdentity, barrier: Barrier, *, since: TableVersions | None
    ) -> None:
        """Append the rows that pass the query."""
        del since
        self._context.view.append(self._context.run(rows), part, identity, barrier)

    def repair(
        self, changes: Changes | None, identity: ViewIdentity, barrier: Barrier, *, since: TableVersions | None
    ) -> None:
        """Replace the changed rows, and those of a repair or of another filter, as of the window's end."""
        del since
        names, outputs, view = self._rows.key.names, self._key_outputs(), self._context.view
        with self._rewritten(barrier) as (rows, touched):
            fresh, keys = rows.select(*map(column, self._rows.columns)), touched
            if changes is not None:
                by_key = self._by_key(changes)
                # What was chosen is read as of the window's end, so it has these changes.
                others = without_keys(by_key, touched, names)
                fresh = fresh.unionAll(new_images(self._rows, others))
                keys = touched.unionAll(by_key.select(*map(column, names)))
            view.replace_units(self._context.run(fresh), keys, outputs, REPAIR, identity, barrier)

    def write_whole(self, part: str, identity: ViewIdentity, barrier: Barrier) -> UnitWork:
        """Replace all rows of the view by those that pass the query."""
        fresh = self._context.run(self._context.read_set(barrier, with_chunk=False))
        replace_view(self._context.view, fresh, part, identity, barrier)
        return UnitWork(technique=WHOLE)

    @contextmanager
    def _rewritten(self, barrier: Barrier) -> Iterator[tuple[DataFrame, DataFrame]]:
        """Return the rows to write beside the changes, and the view's key columns of those to replace."""
        spark, view = self._context.spark, self._context.view.table.read()
        rows = repair.rows_to_write(spark, self._rows, barrier)
        if self._rows.reader.loses_rows:
            # A row that the upstream removes after its key was chosen could not be written again.
            rows = rows.localCheckpoint(storageLevel=KEPT)
        of_filter = barrier.filter_change is not None
        if of_filter:
            # These are few, and to find them takes a pass over the upstream.
            rows = rows.persist(KEPT)
        touched = repair.keys_to_replace(spark, self._rows, barrier, rows, view, self._key_outputs())
        kept = rows if of_filter else touched.persist(KEPT)
        try:
            yield rows, touched
        finally:
            kept.unpersist()

    def _by_key(self, changes: Changes) -> DataFrame:
        """Return the net changes of the view per key, without those that leave nothing."""
        return net_by_key(self._rows, changes.net).filter(leaves_something(self._rows))

    def _key_outputs(self) -> tuple[str, ...]:
        return self._query.key_outputs(self._rows.key.names, self._rows.names)

    def _partitions_of(self, changes: DataFrame) -> Sequence[str]:
        """
        Return conditions on the partitions that have the view's rows of changed keys.

        Of a change only the key is known to be that of the row in the view: with another value it may have been in
        another partition.
        """
        names = self._rows.key.names
        decided = self._query.decided_by_key(self._context.job.partition_by, names, self._rows.names)
        values = (F.expr(text).alias(name) for name, text in decided.items())
        try:
            return touched_partitions(changes.select(*map(column, names)).select(*values), [*decided], "view.")
        except PySparkException as error:
            if not condition_of_a_row(error):
                raise
            # A key that the query filters out may have no value.
            return ()

    def _replace_known(self, changes: DataFrame, known: KnownTable, identity: ViewIdentity, barrier: Barrier) -> None:
        """
        Replace the rows of the changed keys by the new rows that pass the query's filter.

        Like the merge, it fails if a key appeared that the view already has.

        :param known: the view before the changes are written.
        """
        outputs, own = self._key_outputs(), self._rows.own
        new = self._context.run(changes.filter(F.col(own.is_upsert)))

        def keys(rows: DataFrame) -> DataFrame:
            return rows.select(*map(column, self._rows.key.names)).toDF(*outputs)

        def fresh(old: DataFrame) -> DataFrame:
            repeated = with_keys(old, keys(changes.filter(F.col(own.appeared))), outputs)
            repeated.select(F.raise_error(F.lit(DUPLICATE_KEY))).head(1)
            return new

        table = self._context.view.table
        replace_following(table, known, keys(changes), outputs, fresh, CHANGES, identity, barrier)

    def _merge(
        self,
        changes: DataFrame,
        measured: MeasuredChanges,
        identity: ViewIdentity,
        barrier: Barrier,
        within: Sequence[str],
    ) -> None:
        """Merge the changed keys: with the new row if it passes the query's filter, otherwise as a delete."""
        source_own, names = self._rows.own, self._rows.key.names
        outputs = self._key_outputs()
        passing = self._context.run(changes.filter(F.col(source_own.is_upsert)))
        columns = passing.columns
        own = own_columns(columns)
        changed = own.numbered("changed", len(names))
        keys = changes.select(
            *(column(key).alias(name) for key, name in zip(names, changed, strict=True)),
            F.col(source_own.appeared).alias(own.appeared),
        )
        key_columns = {output: F.col(name) for output, name in zip(outputs, changed, strict=True)}
        same = [name.eqNullSafe(column(output)) for output, name in key_columns.items()]
        joined = keys.join(passing.withColumn(own.is_upsert, F.lit(True)), same, "left")
        merged = joined.select(
            *(key_columns.get(name, column(name)).alias(name) for name in columns),
            F.coalesce(F.col(own.is_upsert), F.lit(False)).alias(own.is_upsert),
            own.appeared,
        )
        self._context.view.merge(merged, measured, outputs, columns, own, identity, barrier, within)

    def _rewrite(
        self,
        changes: DataFrame,
        measured: MeasuredChanges,
        identity: ViewIdentity,
        barrier: Barrier,
        within: Sequence[str],
    ) -> None:
        """Remove the changed keys, and append the new rows that pass the query's filter."""
        outputs = self._key_outputs()
        own = own_columns(outputs)
        keys = [column(name).alias(output) for name, output in zip(self._rows.key.names, outputs, strict=True)]
        written = self._context.run(changes.filter(F.col(self._rows.own.is_upsert)))
        changed = changes.select(*keys, F.col(self._rows.own.appeared).alias(own.appeared))
        _evaluate(written)
        self._context.view.rewrite(changed, measured, written, outputs, own, identity, barrier, within)


def _evaluate(rows: DataFrame) -> None:
    """
    Compute rows and discard them.

    A row that cannot be computed must fail before the old rows are removed.
    """
    rows.write.format("noop").mode("overwrite").save()
