"""The engine of the epoch protocol on Spark: puts source, query and view together."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from airflow_backfill_provider.core.barrier import Barrier
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job import BackfillJob
from airflow_backfill_provider.core.keys import KeyField, KeyOrder
from airflow_backfill_provider.core.location import is_local
from airflow_backfill_provider.core.query import check_query, quote
from airflow_backfill_provider.core.settings import JobSettings, ResolvedUpstream
from airflow_backfill_provider.crash_points import CrashPoint, reached
from airflow_backfill_provider.engine.driver_lock import driver_lock
from airflow_backfill_provider.engine.session import prepare_session
from airflow_backfill_provider.engine.source import APPEARED, IS_UPSERT, Upstream, column
from airflow_backfill_provider.engine.spark_errors import epoch_errors, query_errors, view_errors
from airflow_backfill_provider.engine.verification import Verification, compare
from airflow_backfill_provider.engine.view import MaterializedView
from airflow_backfill_provider.lake.upstream import UpstreamTable
from airflow_backfill_provider.lake.view_identity import ViewIdentity
from airflow_backfill_provider.protocol import EpochWrites, keys_read_after, pinned_range


class SparkEngine:
    """
    Executes epochs in a Spark session; see :class:`airflow_backfill_provider.protocol.Engine`.

    :param spark: the session; settings that results depend on are pinned in it.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, spark: SparkSession, storage_options: Mapping[str, str] | None = None) -> None:
        self._spark = prepare_session(spark)
        self._storage_options = storage_options

    def check(self, job: BackfillJob, upstream: ResolvedUpstream, version: int, incarnations: frozenset[str]) -> None:
        """
        Refuse a job that cannot work, before anything is written.

        :param upstream: the upstream's columns as resolved.
        :param version: the upstream's version to look at.
        :param incarnations: the job's incarnations so far, whose view may lie at the view's path.
        :raises InvalidJobError: if the query is wrong.
        :raises MaterializedViewError: if the view's path is taken.
        :raises DuplicateKeyError: if the key does not identify the upstream's rows.
        """
        self._materialized_view(job).require_usable(job.name, incarnations)
        source = _upstream(job, upstream)
        with epoch_errors(f"checking job {job.name}"):
            rows = source.at(self._spark, version)
            with self._query(job, rows.limit(0)) as result:
                _require_columns(result.schema)
                if result.limit(1).count():
                    raise InvalidJobError("query: it gives a row where the upstream has none, so it is an aggregate")
            source.measure_chunk(rows)

    def ensure_view(self, settings: JobSettings, earlier_incarnations: frozenset[str]) -> None:
        """Make the view's empty table exist for the settings' incarnation; a no-op if it does."""
        job = BackfillJob(**settings.job)
        view, identity = self._materialized_view(job), _identity(settings)
        if view.identity() == identity:
            return
        source = _upstream(job, settings.upstream)
        empty = self._spark.read.format("delta").load(source.path).select(*map(column, source.columns)).limit(0)
        with self._query(job, empty) as rows, view_errors(view.path):
            view.ensure(rows, identity, earlier_incarnations, job.table_properties)

    def execute(self, settings: JobSettings, barrier: Barrier, *, view_version: int | None) -> EpochWrites:
        """
        Write the barrier's changes, then its chunk, each exactly once.

        The changes go first: a row may leave the keys behind the position and come back inside the chunk in
        one window. Whatever can be refused is looked at before the first write.

        :param view_version: the view's version that the previous epoch left, ``None`` if there was none.
        :raises BackfillError: see :mod:`airflow_backfill_provider.core.errors`.
        """
        with epoch_errors(f"epoch {barrier.epoch} of job {barrier.job}"):
            return self._execute(settings, barrier, view_version)

    def mark_finished(self, settings: JobSettings, barrier: Barrier) -> None:
        """Publish on the view's table that it is finished; a no-op if it says so already."""
        with epoch_errors(f"epoch {barrier.epoch} of job {barrier.job}"):
            self._materialized_view(BackfillJob(**settings.job)).mark_finished(_identity(settings), barrier.epoch)

    def exclusive(self, settings: JobSettings) -> AbstractContextManager[None]:
        """Keep a second driver of this machine from committing to a local table at the same instant."""
        state = settings.job["state"]
        return driver_lock(Path(state)) if is_local(state) else nullcontext()

    def verify(self, settings: JobSettings, barrier: Barrier) -> Verification:
        """
        Compare the view row by row with the query over the upstream as of a committed epoch.

        :param barrier: the newest committed epoch's barrier.
        """
        job = BackfillJob(**settings.job)
        source = _upstream(job, settings.upstream)
        with epoch_errors(f"verifying epoch {barrier.epoch} of job {barrier.job}"):
            read = keys_read_after(barrier, source.order)
            rows = (
                source.at(self._spark, barrier.upstream.to_version).limit(0)
                if read is None
                else source.chunk(self._spark, barrier.upstream.to_version, read)
            )
            with self._query(job, rows) as expected:
                return compare(expected, self._spark.read.format("delta").load(job.materialized_view))

    # ------------------------------------------------------------------------------------------------ one epoch

    def _execute(self, settings: JobSettings, barrier: Barrier, view_version: int | None) -> EpochWrites:
        job = BackfillJob(**settings.job)
        source = _upstream(job, settings.upstream)
        view, identity = self._materialized_view(job), _identity(settings)
        seconds: dict[str, float] = {}

        with _timed(seconds, "check"):
            view.require_untouched(identity, barrier, view_version)
            bounds = pinned_range(barrier, source.order)
            chunk = None if bounds is None else source.chunk(self._spark, barrier.upstream.to_version, bounds)
            snapshot_rows = 0 if chunk is None else source.measure_chunk(chunk)
            changes = self._net_changes(source, barrier)
            change_rows = 0 if changes is None else source.measure_changes(changes)
        try:
            reached(CrashPoint.BEFORE_CHANGES_COMMIT)
            with _timed(seconds, "changes"):
                if changes is not None and change_rows:
                    self._merge(job, source, changes, view, identity, barrier)
            reached(CrashPoint.AFTER_CHANGES_COMMIT)
        finally:
            if changes is not None:
                changes.unpersist()
        reached(CrashPoint.BEFORE_SNAPSHOT_COMMIT)
        with _timed(seconds, "snapshot"):
            if chunk is not None and snapshot_rows:
                with self._query(job, chunk) as rows:
                    view.append(rows, identity, barrier)
        reached(CrashPoint.AFTER_SNAPSHOT_COMMIT)
        return EpochWrites(
            snapshot_rows=snapshot_rows,
            change_rows=change_rows,
            view_version=view.version(),
            seconds=seconds,
        )

    def _net_changes(self, source: Upstream, barrier: Barrier) -> DataFrame | None:
        if not barrier.applies_changes:
            return None
        up_to = source.order.decode(barrier.changes.position)
        log = UpstreamTable(source.path, self._storage_options)
        versions = log.schema_runs(barrier.upstream.from_version, barrier.upstream.to_version)
        return source.net_changes(self._spark, versions, up_to).persist()

    def _merge(
        self,
        job: BackfillJob,
        source: Upstream,
        changes: DataFrame,
        view: MaterializedView,
        identity: ViewIdentity,
        barrier: Barrier,
    ) -> None:
        """Merge the changed keys: with their new row if it passes the query's filter, else as a delete."""
        names = source.order.names
        outputs = check_query(job.query).key_outputs(names)
        upserts = changes.filter(F.col(IS_UPSERT)).select(*map(column, source.columns))
        with self._query(job, upserts) as passing:
            keys = changes.select(*(column(name).alias(f"__changed_{i}") for i, name in enumerate(names)), APPEARED)
            same = [F.col(f"__changed_{i}").eqNullSafe(column(output)) for i, output in enumerate(outputs)]
            joined = keys.join(passing.withColumn(IS_UPSERT, F.lit(True)), same, "left")
            key_columns = {output: F.col(f"__changed_{i}") for i, output in enumerate(outputs)}
            columns = passing.columns
            source_rows = joined.select(
                *(key_columns.get(name, column(name)).alias(name) for name in columns),
                F.coalesce(F.col(IS_UPSERT), F.lit(False)).alias(IS_UPSERT),
                APPEARED,
            )
            view.merge(source_rows, outputs, columns, identity, barrier)

    @contextmanager
    def _query(self, job: BackfillJob, rows: DataFrame) -> Iterator[DataFrame]:
        """Run the job's query over some upstream rows; its temporary view lives as long as the block."""
        relation = f"backfill_upstream_{uuid.uuid4().hex}"
        rows.createOrReplaceTempView(relation)
        try:
            with query_errors():
                names = [key.column for key in job.upstream.key]
                result = self._spark.sql(check_query(job.query).render(relation, names))
                result.schema  # noqa: B018 - analyses the query now, also through Spark Connect
            yield result
        finally:
            self._spark.catalog.dropTempView(relation)

    def _materialized_view(self, job: BackfillJob) -> MaterializedView:
        return MaterializedView(self._spark, job.materialized_view, self._storage_options)


def _upstream(job: BackfillJob, resolved: ResolvedUpstream) -> Upstream:
    types = {found.name: found.type for found in resolved.columns}
    order = KeyOrder(
        tuple(KeyField(name=key.column, type=types[key.column], descending=key.descending) for key in job.upstream.key)
    )
    return Upstream(job.upstream.path, [found.name for found in resolved.columns], order)


def _identity(settings: JobSettings) -> ViewIdentity:
    return ViewIdentity(settings.job["name"], settings.incarnation)


def _require_columns(schema: StructType) -> None:
    """Refuse output columns that no Delta table can have, in the query's terms."""
    names = [field.name.lower() for field in schema.fields]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InvalidJobError(f"query: it names {', '.join(repeated)} more than once; give each column its own alias")
    for field in schema.fields:
        if any(character in field.name for character in " ,;{}()\n\t="):
            raise InvalidJobError(
                f"query: the column {quote(field.name)} has characters that Delta does not allow in names; give it "
                "an alias"
            )
        if field.dataType.typeName() == "void":
            raise InvalidJobError(f"query: the column {quote(field.name)} has no type; cast it")


@contextmanager
def _timed(seconds: dict[str, float], phase: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    seconds[phase] = time.monotonic() - started
