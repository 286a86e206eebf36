"""The engine of the epoch protocol on Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.engine import EpochWrites, PartWrites
from airflow_backfill_provider.core.epoch.settings import JobSettings, ResolvedUpstream, ViewColumn
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.keep import require_free_names
from airflow_backfill_provider.core.kinds import shape_of_job
from airflow_backfill_provider.core.location import is_local
from airflow_backfill_provider.core.scan.keys import EVERYTHING, EncodedPosition
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.scan.scan import VnodeRange
from airflow_backfill_provider.core.scan.table_version import TableVersions
from airflow_backfill_provider.core.status.compaction import CompactionPlan
from airflow_backfill_provider.core.status.verification import ComparedVnodes, PinnedVerification
from airflow_backfill_provider.engine.adopted_table import compare_adopted
from airflow_backfill_provider.engine.comparison import compare as compare_sides
from airflow_backfill_provider.engine.epoch import EpochEvaluator, table_versions
from airflow_backfill_provider.engine.forgetting import erase_former_rows
from airflow_backfill_provider.engine.named_tables import place, register_view, require_same_upstream
from airflow_backfill_provider.engine.opened_sides import sides_of
from airflow_backfill_provider.engine.row_finder import SparkRowFinder
from airflow_backfill_provider.engine.tables import TableOpener
from airflow_backfill_provider.engine.view_difference import SparkViewComparer
from airflow_backfill_provider.lake.log.schemas import TableSchema
from airflow_backfill_provider.lake.tables.view_identity import (
    KEEP_PROPERTY,
    OWNER_PROPERTY,
    STATE_PROPERTY,
    ViewIdentity,
)
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.spark.adoption import adopt_table
from airflow_backfill_provider.spark.commit_safety import require_exclusive_places
from airflow_backfill_provider.spark.compaction import compact
from airflow_backfill_provider.spark.driver_lock import driver_lock
from airflow_backfill_provider.spark.former_rows import with_columns_of
from airflow_backfill_provider.spark.job_rows import JobRows
from airflow_backfill_provider.spark.load_meter import LoadMeter
from airflow_backfill_provider.spark.log_preloader import LogPreloader
from airflow_backfill_provider.spark.session import pin_settings, prepare_session
from airflow_backfill_provider.spark.spark_errors import epoch_errors, view_errors
from airflow_backfill_provider.spark.view_layout import require_layout
from airflow_backfill_provider.strategies import KINDS

CHECKED_AT_CREATION = 10_000_000
"""The most rows whose keys are checked when a job is created; of more, that would take a good part of the backfill."""


class SparkEngine:
    """
    Executes epochs in a Spark session; see :class:`airflow_backfill_provider.protocol.Engine`.

    :param spark: the session; settings that results depend on are pinned in it.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, spark: SparkSession, storage_options: Mapping[str, str] | None = None) -> None:
        self._spark = prepare_session(spark, storage_options)
        self._storage_options = storage_options
        self._tables = TableOpener(self._spark, storage_options)
        self._ahead = LogPreloader(self._spark)

    # ------------------------------------------------------------------------------------------------ creation

    def place(self, job: BackfillJob) -> BackfillJob:
        """
        Return a job with the locations of the tables that it names in a catalog; see :mod:`.named_tables`.

        :raises BackfillError: if a name cannot be used.
        """
        pin_settings(self._spark)
        with epoch_errors(f"looking up the tables of job {job.name}"):
            return place(job, self._tables.catalogs)

    def check(
        self,
        job: BackfillJob,
        upstream: ResolvedUpstream,
        offset: Offset,
        strategy: str,
        incarnations: frozenset[str],
    ) -> None:
        """
        Refuse a job that cannot work, before anything is written.

        :param upstream: the upstream's columns as resolved.
        :param offset: the upstream's offset to check.
        :param strategy: the chosen strategy. Epochs check the keys of each chunk, so the keys of a large upstream are
            checked here only if the strategy copies all rows at once.
        :param incarnations: the job's incarnations so far; a view of one of them may lie at the view's path.
        :raises InvalidJobError: if the query is wrong.
        :raises MaterializedViewError: if the view's path is taken.
        :raises DuplicateKeyError: if the key does not identify the upstream's rows.
        :raises UnsafeCommitsError: if a new job's tables would lie where commits may be lost.
        """
        pin_settings(self._spark)
        view = self._tables.view(job)
        exists = job.adopts_in_place or view.require_usable(job.name, incarnations) is not None
        if not incarnations:
            require_exclusive_places(self._spark, job.view_location, job.state, self._storage_options)
        table, job_rows = self._read_by(job, upstream)
        with epoch_errors(f"checking job {job.name}"):
            is_checked = job_rows.reader.keys_are_unique
            if table.present is not None:
                rows = job_rows.present_rows([EVERYTHING])
            elif is_checked and job_rows.reader.appends_only:
                # Only the columns matter, and to read records with a registry of schemas takes a pass over all of them.
                # (Other readers refuse a history that does not begin with its rows when they read it.)
                rows = job_rows.empty()
            else:
                rows = job_rows.at(offset)
            writer = self._tables.writer(job, shape_of_job(job).name, upstream, job_rows)
            writer.check(rows, job.table_properties)
            schema = writer.schema()
            require_free_names(job.keep, schema.names)
            columns = with_columns_of(schema, job.keep, job.valid_by)
            require_layout(job, columns, self._storage_options, exists=exists)
            expected = table.row_count(offset)
            if not is_checked and (KINDS.named(strategy).checks_all_keys or expected <= CHECKED_AT_CREATION):
                job_rows.measure_chunk(rows, expected=expected)
            beside = {**self._tables.others(job, upstream), **self._tables.leads(job, upstream)}
            for name, other in beside.items():
                begin = upstream.others[name].point.offset if name in upstream.others else offset
                expected = other.source.row_count(begin)
                if not other.rows.reader.keys_are_unique and expected <= CHECKED_AT_CREATION:
                    other.rows.measure(begin, expected=expected)

    def view_columns(self, job: BackfillJob, upstream: ResolvedUpstream) -> tuple[ViewColumn, ...]:
        """
        Return the view's columns.

        :raises InvalidJobError: if Spark cannot analyse the query.
        """
        pin_settings(self._spark)
        _, job_rows = self._read_by(job, upstream)
        shape = shape_of_job(job).name
        with epoch_errors(f"choosing how the view of job {job.name} is kept"):
            # The state of a unit that has ended would be in the way, so units that change are computed anew.
            kept = job.keep.keeps_former_rows
            state = {} if kept else self._tables.writer(job, shape, upstream, job_rows).state()
        schema = self._tables.writer(job, shape, upstream, job_rows, state).schema()
        types = TableSchema.of(schema.json()).types
        return tuple(ViewColumn(name=name, type=kind, of_rows=state.get(name)) for name, kind in types.items())

    def _read_by(self, job: BackfillJob, upstream: ResolvedUpstream) -> tuple[Source, JobRows]:
        """Return the upstream of a job that is not created yet, and its rows in the key's order."""
        table = self._tables.upstream(job).as_created(upstream)
        return table, JobRows.of(job, self._tables.reader(job, table), upstream)

    def ensure_tables(self, settings: JobSettings, earlier_incarnations: Mapping[str, int]) -> None:
        """
        Create the view's table and the strategy's tables; a no-op if they exist.

        A view that begins with rows has read its history, so its strategy needs no tables.
        """
        tables = self._tables.open(settings)
        view, identity = tables.view, tables.identity
        job = settings.definition
        ours = {OWNER_PROPERTY: settings.requested_by, STATE_PROPERTY: job.state}
        if job.keep.keeps_former_rows:
            ours[KEEP_PROPERTY] = job.keep
        properties = {**job.table_properties, **ours}
        with view_errors(view.path):
            if settings.adopted is not None:
                adopt_table(settings, view, tables.writer.schema, earlier_incarnations, properties)
            elif view.identity() != identity:
                view.ensure(
                    with_columns_of(tables.writer.schema(), job.keep, job.valid_by),
                    identity,
                    earlier_incarnations,
                    properties,
                    settings.first_rows,
                    job,
                )
        with view_errors(view.path):
            register_view(settings, self._tables.catalogs)
        if settings.first_rows is None:
            tables.reader.prepare()

    # -------------------------------------------------------------------------------------------------- epochs

    @contextmanager
    def reading_ahead(self, settings: JobSettings) -> Iterator[None]:
        """
        Let Spark read the view's log in the background; see :mod:`~airflow_backfill_provider.spark.log_preloader`.

        After an error nothing waits for it: a store that does not answer is asked again for minutes.
        """
        self._ahead.before_epoch(settings.definition.view_location)
        yield
        self._ahead.wait()

    def run_epoch(self, settings: JobSettings, barrier: Barrier, *, since: TableVersions | None) -> EpochWrites:
        """
        Write the barrier's changes, then every part of its chunk, each exactly once.

        :param since: the tables' versions after the previous epoch; ``None`` if there was none.
        :raises BackfillError: see :mod:`airflow_backfill_provider.core.errors`.
        """
        meter = LoadMeter(self._spark)
        with self._evaluator(settings, barrier, since) as evaluator:
            writes = evaluator.run_epoch()
        self._ahead.after_epoch(settings.definition.view_location)
        return replace(writes, load=meter.load())

    def apply_changes(self, settings: JobSettings, barrier: Barrier, *, since: TableVersions | None) -> PartWrites:
        """
        Write the barrier's changes, exactly once, for an epoch that several task runs share.

        :raises BackfillError: as :meth:`execute`.
        """
        meter = LoadMeter(self._spark)
        with self._evaluator(settings, barrier, since) as evaluator:
            writes = evaluator.apply_changes()
        return replace(writes, load=meter.load())

    def read_chunk_part(
        self, settings: JobSettings, barrier: Barrier, part: int, *, since: TableVersions | None
    ) -> PartWrites:
        """
        Write one part of the barrier's chunk, exactly once; the changes must have been applied.

        :raises BackfillError: as :meth:`execute`.
        """
        meter = LoadMeter(self._spark)
        with self._evaluator(settings, barrier, since) as evaluator:
            writes = evaluator.read_chunk_part(part)
        return replace(writes, load=meter.load())

    @contextmanager
    def _evaluator(
        self, settings: JobSettings, barrier: Barrier, since: TableVersions | None
    ) -> Iterator[EpochEvaluator]:
        try:
            yield EpochEvaluator(self._tables.open(settings), barrier, since)
        except BaseException:
            self._tables.forget()
            raise

    def table_versions(self, settings: JobSettings, barrier: Barrier, *, since: TableVersions | None) -> TableVersions:
        """
        Return the newest versions of the view and the strategy's tables; refuse them if a foreign writer changed them.

        :raises MaterializedViewError: if a foreign writer changed the view, unless the epoch repairs it.
        :raises StateError: if a foreign writer changed a table of the strategy.
        """
        return table_versions(self._tables.open(settings), barrier, since)

    def account(self, settings: JobSettings, barrier: Barrier, rows_present: int | None) -> int | None:
        """
        Check the number of rows read against the upstream.

        See :mod:`airflow_backfill_provider.spark.row_account`.

        :raises MissingRowsError: if they differ.
        """
        tables = self._tables.open(settings)
        with epoch_errors(f"epoch {barrier.epoch} of job {barrier.job}", tables=tables.reader.tables):
            return tables.account.settle(barrier, rows_present)

    def fence_chunk(self, settings: JobSettings, barrier: Barrier) -> frozenset[int]:
        """Give up the unwritten parts of the barrier's chunk; return the written ones."""
        tables = self._tables.open_own(settings, barrier)
        with epoch_errors(f"giving up epoch {barrier.epoch} of job {barrier.job}", tables=tables.reader.tables):
            return tables.view.fence_chunk(len(barrier.parts), tables.identity, barrier)

    def fence_changes(self, settings: JobSettings, barrier: Barrier) -> bool:
        """Give up the barrier's changes, unless some of them are written; return whether they are given up."""
        tables = self._tables.open_own(settings, barrier)
        with epoch_errors(f"giving up epoch {barrier.epoch} of job {barrier.job}", tables=tables.reader.tables):
            if not tables.view.fence_changes(tables.identity, barrier):
                return False
            return tables.reader.fence(barrier)

    def mark_finished(self, settings: JobSettings, barrier: Barrier) -> None:
        """Mark the view's table as finished; a no-op if it is already."""
        with epoch_errors(f"epoch {barrier.epoch} of job {barrier.job}"):
            job = settings.definition
            self._tables.view(job).mark_finished(ViewIdentity.of(settings), barrier.epoch, job.table_properties)

    def unmark_finished(self, settings: JobSettings, barrier: Barrier) -> None:
        """Mark the view's table as not finished; a no-op unless it is marked as finished."""
        with epoch_errors(f"epoch {barrier.epoch} of job {barrier.job}"):
            self._tables.view(settings.definition).unmark_finished(ViewIdentity.of(settings), barrier.epoch)

    def exclusive(self, state: str) -> AbstractContextManager[None]:
        """Prevent two drivers on this machine from committing to a local table at the same time."""
        return driver_lock(Path(state)) if is_local(state) else nullcontext()

    # ----------------------------------------------------------------------------- maintenance and verification

    def compact_view(self, settings: JobSettings, plan: CompactionPlan) -> None:
        """Run a planned compaction of the view; see :mod:`airflow_backfill_provider.jobs.maintenance.compaction`."""
        compact(self._tables.view(settings.definition).table, plan, settings.incarnation)

    def compact_own_table(self, settings: JobSettings, name: str, plan: CompactionPlan) -> None:
        """Run a planned compaction of one of the strategy's tables."""
        self._tables.open(settings).reader.compact(name, plan)

    def forget(self, settings: JobSettings, keys: Sequence[EncodedPosition]) -> int:
        """
        Erase the former rows of some keys from the view, in one commit.

        :returns: how many rows these were.
        :raises MaterializedViewError: if the view is missing or replaced.
        """
        pin_settings(self._spark)
        with epoch_errors(f"erasing former rows of job {settings.job['name']}"):
            return erase_former_rows(self._spark, settings, self._tables.view(settings.definition), keys)

    def compare_adopted(self, settings: JobSettings, pinned: PinnedVerification) -> Sequence[ComparedVnodes]:
        """
        Compare a table that shall become the view with the query; see :mod:`.adopted_table`.

        :raises MaterializedViewError: if it has other columns than the query, or several rows with one key.
        :raises BackfillError: if a table cannot be read.
        """
        pin_settings(self._spark)
        with epoch_errors(f"comparing the table that job {settings.job['name']} adopts"):
            return compare_adopted(self._spark, self._tables, settings, pinned)

    def compare(
        self, settings: JobSettings, pinned: PinnedVerification, barrier: Barrier, vnodes: VnodeRange
    ) -> ComparedVnodes:
        """
        Compare some vnodes of the view with the query over the upstream; see :mod:`.comparison`.

        :param barrier: the barrier of the verified epoch.
        :raises BackfillError: if a table cannot be read.
        """
        pin_settings(self._spark)
        # Without new commits no epoch runs, so nothing else would find that the name means another table by now.
        with epoch_errors(f"looking up the tables of job {settings.job['name']}"):
            require_same_upstream(settings, self._tables.catalogs)
        return compare_sides(sides_of(self._spark, self._tables, settings, pinned, barrier), vnodes)

    def row_finder(self) -> SparkRowFinder:
        """Return what finds rows for a question; see :mod:`airflow_backfill_provider.jobs.row_questions`."""
        return SparkRowFinder(self._spark, self._tables)

    def view_comparer(self) -> SparkViewComparer:
        """Return what compares a view that waits for an approval; see :mod:`.view_difference`."""
        return SparkViewComparer(self._spark, self._tables)
