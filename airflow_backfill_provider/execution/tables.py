"""What one job's epochs read and write on Spark: upstream, strategy, query and view put together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from airflow_backfill_provider.core.barrier import Barrier
from airflow_backfill_provider.core.job import BackfillJob
from airflow_backfill_provider.core.offset import Offset
from airflow_backfill_provider.core.settings import JobSettings, ResolvedUpstream
from airflow_backfill_provider.engine.job_rows import JobRows
from airflow_backfill_provider.engine.row_account import RowAccount
from airflow_backfill_provider.engine.session import pin_settings
from airflow_backfill_provider.engine.view import MaterializedView
from airflow_backfill_provider.lake.view_identity import ViewIdentity
from airflow_backfill_provider.shapes import KINDS as SHAPES
from airflow_backfill_provider.shapes import query_of
from airflow_backfill_provider.shapes.base import JobQuery, ViewWriter, WriterContext
from airflow_backfill_provider.sources import Source, open_source
from airflow_backfill_provider.strategies import KINDS as STRATEGIES
from airflow_backfill_provider.strategies.reader import ReaderContext, SnapshotReader


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTables:
    """
    What one job's epochs read and write.

    :param job_rows: the upstream's rows that the job is about.
    :param account: knows how many rows there are.
    :param reader: the strategy's half on Spark.
    :param writer: the shape's half on Spark.
    """

    settings: JobSettings
    upstream: Source
    job_rows: JobRows
    account: RowAccount
    view: MaterializedView
    identity: ViewIdentity
    reader: SnapshotReader
    writer: ViewWriter


@dataclass(frozen=True, slots=True)
class _OpenedOffset:
    """The upstream's rows as of an offset as a frame."""

    job_rows: JobRows
    offset: Offset
    rows: DataFrame


class TableOpener:
    """
    Opens the tables of jobs in a session, and remembers what is dear to open.

    :param spark: the session.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, spark: SparkSession, storage_options: Mapping[str, str] | None) -> None:
        self._spark = spark
        self._storage_options = storage_options
        self._opened: _OpenedOffset | None = None
        self._accounted: RowAccount | None = None

    def open(self, settings: JobSettings) -> JobTables:
        """Return a job's tables, with the session's settings pinned."""
        # Others may have changed the session since this engine, or its last epoch, began.
        pin_settings(self._spark)
        job = settings.definition
        upstream = self.upstream(job)
        job_rows = self.job_rows(job, settings.upstream, settings)
        account = self._account(job_rows, upstream)
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
        )

    def open_own(self, settings: JobSettings, barrier: Barrier) -> JobTables:
        """Return a job's tables; the view must be the one of the incarnation."""
        tables = self.open(settings)
        tables.view.require_ours(tables.identity, barrier, None)
        return tables

    def upstream(self, job: BackfillJob) -> Source:
        """Return a job's upstream."""
        return open_source(job.upstream, self._storage_options)

    def job_rows(self, job: BackfillJob, upstream: ResolvedUpstream, settings: JobSettings | None = None) -> JobRows:
        """
        Return the upstream's rows that a job is about.

        :param settings: the job's, which say how positions are ordered; without them the key's order is taken.
        """
        reader = self.upstream(job).reader(self._spark)
        return JobRows.of(job, reader, upstream, settings.scan.order if settings else None)

    def view(self, job: BackfillJob) -> MaterializedView:
        """Return a job's view."""
        return MaterializedView(self._spark, job.materialized_view, self._storage_options)

    def writer(self, job: BackfillJob, shape: str, upstream: ResolvedUpstream, job_rows: JobRows) -> ViewWriter:
        """Return what writes a job's view."""
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

        Of the offset that was asked for last it is the same frame: which files a version has, Delta works out anew for
        each frame, and that takes longer than planning the rest. What there is at an offset never changes.
        """
        opened = self._opened
        if opened is None or (opened.job_rows, opened.offset) != (job_rows, offset):
            opened = _OpenedOffset(job_rows, offset, job_rows.at(offset))
            self._opened = opened
        return opened.rows

    def _account(self, job_rows: JobRows, upstream: Source) -> RowAccount:
        """Return the account of a job's rows; the same one for the same job, for it remembers what it counted."""
        if self._accounted is None or self._accounted.rows != job_rows:
            self._accounted = RowAccount(job_rows, upstream)
        return self._accounted
