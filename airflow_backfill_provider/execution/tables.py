"""The tables of a job's epochs on Spark: upstream, strategy, query and view combined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from airflow_backfill_provider.core.barrier import Barrier
from airflow_backfill_provider.core.job import BackfillJob
from airflow_backfill_provider.core.offset import Offset
from airflow_backfill_provider.core.settings import JobSettings, ResolvedUpstream
from airflow_backfill_provider.engine.catalog import Catalogs
from airflow_backfill_provider.engine.commit_safety import require_safe_commits
from airflow_backfill_provider.engine.job_rows import JobRows, PlacedRows
from airflow_backfill_provider.engine.row_account import RowAccount
from airflow_backfill_provider.engine.session import pin_settings, write_no_checksums
from airflow_backfill_provider.engine.view import MaterializedView
from airflow_backfill_provider.lake.view_identity import ViewIdentity
from airflow_backfill_provider.shapes import KINDS as SHAPES
from airflow_backfill_provider.shapes import query_of
from airflow_backfill_provider.shapes.base import JobQuery, ViewWriter, WriterContext
from airflow_backfill_provider.sources import Source, open_source
from airflow_backfill_provider.strategies import KINDS as STRATEGIES
from airflow_backfill_provider.strategies.reader import ReaderContext, SnapshotReader

_Incarnation = tuple[str, str]
"""The folder of a job's control tables, and the incarnation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTables:
    """
    The tables that a job's epochs read and write.

    :param job_rows: the upstream's rows that belong to the job.
    :param account: checks the counted rows.
    :param reader: the strategy's half on Spark.
    :param writer: the shape's half on Spark.
    :param catalogs: the session's catalogs, for the tables that the job names.
    """

    settings: JobSettings
    upstream: Source
    job_rows: JobRows
    account: RowAccount
    view: MaterializedView
    identity: ViewIdentity
    reader: SnapshotReader
    writer: ViewWriter
    catalogs: Catalogs


@dataclass(frozen=True, slots=True)
class _OpenedOffset:
    """The data frame of the upstream's rows as of an offset."""

    job_rows: JobRows
    offset: Offset
    rows: DataFrame


@dataclass(frozen=True, slots=True)
class _OpenedPlaces:
    """The data frame of the rows that an incarnation starts with, with their places."""

    incarnation: _Incarnation
    rows: DataFrame


@dataclass(frozen=True, slots=True)
class _Accounted:
    """The account of an incarnation's rows."""

    incarnation: _Incarnation
    account: RowAccount


class TableOpener:
    """
    Opens the tables of jobs in a session, and caches what is slow to open.

    :param spark: the session.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, spark: SparkSession, storage_options: Mapping[str, str] | None) -> None:
        self._spark = spark
        self._storage_options = storage_options
        self.catalogs = Catalogs(spark)
        self._opened: _OpenedOffset | None = None
        self._places: _OpenedPlaces | None = None
        self._accounted: _Accounted | None = None

    def open(self, settings: JobSettings) -> JobTables:
        """Return a job's tables, with the session's settings pinned."""
        # Other code may have changed the session since this engine or its last epoch started.
        pin_settings(self._spark)
        job = settings.definition
        upstream = self.upstream(job).as_created(settings.upstream)
        job_rows = self.job_rows(job, settings.upstream, settings)
        account = self._account(_incarnation(settings), job_rows, upstream)
        context = ReaderContext(
            spark=self._spark,
            settings=settings,
            job_rows=job_rows,
            upstream=upstream,
            rows_at=partial(self._rows_at, job_rows),
            account=account,
            storage_options=self._storage_options,
        )
        return JobTables(
            settings=settings,
            upstream=upstream,
            job_rows=job_rows,
            account=account,
            view=self.view(job),
            identity=ViewIdentity.of(settings),
            reader=STRATEGIES.named(settings.strategy).reader(context),
            writer=self.writer(job, settings.shape, settings.upstream, job_rows),
            catalogs=self.catalogs,
        )

    def open_own(self, settings: JobSettings, barrier: Barrier) -> JobTables:
        """Return a job's tables; the view must belong to the incarnation."""
        tables = self.open(settings)
        tables.view.require_ours(tables.identity, barrier, None)
        return tables

    def upstream(self, job: BackfillJob) -> Source:
        """Return a job's upstream."""
        return open_source(job.upstream, self._storage_options)

    def job_rows(self, job: BackfillJob, upstream: ResolvedUpstream, settings: JobSettings | None = None) -> JobRows:
        """
        Return the upstream's rows that belong to a job.

        :param settings: the job's settings, for the order of positions; by default that is the key's order.
        """
        source = self.upstream(job).as_created(upstream)
        reader = source.reader(self._spark)
        if settings is None:
            return JobRows.of(job, reader, upstream)
        return JobRows.of(job, reader, upstream, settings.scan.order, self.placed(settings, source))

    def placed(self, settings: JobSettings, upstream: Source) -> PlacedRows | None:
        """Return how to read the rows as of the job's start with the columns of positions, if the upstream has none."""
        read = STRATEGIES.named(settings.strategy).placed(self._spark, settings, upstream, self._storage_options)
        return None if read is None else partial(self._placed_rows, _incarnation(settings), read)

    def forget(self) -> None:
        """Forget data frames: the tables that they read may be gone, and are found or made again by new ones."""
        self._opened = self._places = None

    def view(self, job: BackfillJob) -> MaterializedView:
        """
        Return a job's view, to write to it.

        :raises UnsafeCommitsError: if commits to it, or to the strategy's tables in the job's folder, may be lost.
        """
        written = [job.view_location, job.state]
        require_safe_commits(self._spark, written)
        write_no_checksums(self._spark, written)
        return MaterializedView(self._spark, job.view_location, self._storage_options)

    def writer(self, job: BackfillJob, shape: str, upstream: ResolvedUpstream, job_rows: JobRows) -> ViewWriter:
        """Return the writer of a job's view."""
        return SHAPES.named(shape).writer(
            WriterContext(
                spark=self._spark,
                job=job,
                query=JobQuery.of(job, query_of(job), upstream),
                job_rows=job_rows,
                view=self.view(job),
            )
        )

    def _rows_at(self, job_rows: JobRows, offset: Offset) -> DataFrame:
        """
        Return the rows as of an offset.

        The last offset's data frame is cached, because the rows at an offset never change, and Delta lists the files
        again for each data frame, which takes longer than the rest of planning.
        """
        opened = self._opened
        if opened is None or (opened.job_rows, opened.offset) != (job_rows, offset):
            opened = _OpenedOffset(job_rows, offset, job_rows.at(offset))
            self._opened = opened
        return opened.rows

    def _placed_rows(self, incarnation: _Incarnation, read: PlacedRows) -> DataFrame:
        """Return the rows with their places; the last incarnation's data frame is cached, as in :meth:`_rows_at`."""
        opened = self._places
        if opened is None or opened.incarnation != incarnation:
            opened = self._places = _OpenedPlaces(incarnation, read())
        return opened.rows

    def _account(self, incarnation: _Incarnation, job_rows: JobRows, upstream: Source) -> RowAccount:
        """Return the account of a job's rows; the last one is cached with its counts, and keeps its upstream open."""
        accounted = self._accounted
        if accounted is None or (accounted.incarnation, accounted.account.rows) != (incarnation, job_rows):
            accounted = self._accounted = _Accounted(incarnation, RowAccount(job_rows, upstream))
        return accounted.account


def _incarnation(settings: JobSettings) -> _Incarnation:
    return settings.job["state"], settings.incarnation
