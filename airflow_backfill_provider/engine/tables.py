"""The tables of a job's epochs on Spark: upstream, strategy, query and view combined."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Generic, TypeVar

from pyspark.sql import DataFrame, SparkSession

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.settings import JobSettings, ResolvedUpstream
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.kinds import further_leads
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity
from airflow_backfill_provider.shapes import KINDS as SHAPES
from airflow_backfill_provider.shapes import query_of, row_units_of
from airflow_backfill_provider.shapes.base import Shape, ViewWriter, WriterContext
from airflow_backfill_provider.shapes.job_query import JobQuery
from airflow_backfill_provider.sources import Source, open_source, reader_of
from airflow_backfill_provider.sources.reader import SourceReader
from airflow_backfill_provider.spark.catalog import Catalogs
from airflow_backfill_provider.spark.commit_safety import require_safe_commits
from airflow_backfill_provider.spark.former_units_view import FormerUnitsView
from airflow_backfill_provider.spark.further_lead import FurtherLead
from airflow_backfill_provider.spark.job_rows import JobRows, PlacedRows
from airflow_backfill_provider.spark.row_account import RowAccount
from airflow_backfill_provider.spark.session import pin_settings, write_no_checksums
from airflow_backfill_provider.spark.table_rows import rows_at
from airflow_backfill_provider.spark.view import MaterializedView
from airflow_backfill_provider.strategies import KINDS as STRATEGIES
from airflow_backfill_provider.strategies.reader import HistoryReader, ReaderContext

Key = TypeVar("Key")
Value = TypeVar("Value")

_Incarnation = tuple[str, str, str]
"""The folder of a job's control tables, the incarnation, and the digest of the definition, which may change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherTable:
    """
    An upstream that is read whole.

    :param created_on: the upstream as of the job's creation.
    :param rows: its rows, all of them.
    """

    source: Source
    created_on: ResolvedUpstream
    rows: JobRows


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTables:
    """
    The tables that a job's epochs read and write.

    :param job_rows: the upstream's rows that belong to the job, in the order of positions.
    :param lead_rows: the same, each once; other ones than ``job_rows`` only if these are placed by units of joins.
    :param account: checks the counted rows.
    :param reader: the strategy's Spark side.
    :param writer: the shape's Spark side.
    :param catalogs: the session's catalogs, for the tables that the job names.
    :param further: the upstreams that lead further branches, by their names; none for most jobs.
    :param others: the upstreams that are read whole, by their names; none for most jobs. See
        :attr:`~airflow_backfill_provider.shapes.several.QueryOverSeveral.read_whole`.
    """

    settings: JobSettings
    upstream: Source
    job_rows: JobRows
    lead_rows: JobRows
    others: Mapping[str, OtherTable]
    further: Mapping[str, FurtherLead]
    account: RowAccount
    view: MaterializedView
    identity: ViewIdentity
    reader: HistoryReader
    writer: ViewWriter
    catalogs: Catalogs

    @property
    def are_placed_beside_others(self) -> bool:
        """Whether a row's position depends on other upstreams, because history is read by the units of joins."""
        return bool(self.job_rows.others)


class _Last(Generic[Key, Value]):
    """The value that was made last, kept as long as the same is asked for."""

    def __init__(self) -> None:
        self._kept: tuple[Key, Value] | None = None

    def of(self, key: Key, make: Callable[[], Value]) -> Value:
        """
        Return the value of a key.

        :param key: compared, and not hashed.
        :param make: makes the value, if the last one is of another key.
        """
        # Parts of a chunk are read by threads, so another one may forget or replace what is kept.
        kept = self._kept
        if kept is None or kept[0] != key:
            kept = self._kept = key, make()
        return kept[1]

    def forget(self) -> None:
        """Forget the value."""
        self._kept = None


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
        self._rows: _Last[tuple[JobRows, Offset], DataFrame] = _Last()
        self._places: defaultdict[str, _Last[_Incarnation, DataFrame]] = defaultdict(_Last)
        self._accounts: _Last[tuple[_Incarnation, JobRows], RowAccount] = _Last()
        self._upstreams: _Last[_Incarnation, Source] = _Last()

    def open(self, settings: JobSettings) -> JobTables:
        """Return a job's tables, with the session's settings pinned."""
        # Other code may have changed the session since this engine or its last epoch started.
        pin_settings(self._spark)
        job = settings.definition
        upstream = self._upstream_of(settings)
        others = self.others(job, settings.upstream)
        lead_rows, further = self._rows_of(settings, upstream), self.further(settings, upstream)
        job_rows = self._placed_beside(settings, lead_rows, others)
        # The last account is cached with its counts, and keeps its upstream open.
        account = self._accounts.of(
            (_incarnation(settings), job_rows), lambda: RowAccount(settings, job_rows, upstream, further)
        )
        context = ReaderContext(
            spark=self._spark,
            settings=settings,
            job_rows=job_rows,
            upstream=upstream,
            further=further,
            rows_at=partial(self._rows_at, job_rows),
            account=account,
            storage_options=self._storage_options,
        )
        return JobTables(
            settings=settings,
            upstream=upstream,
            job_rows=job_rows,
            lead_rows=lead_rows,
            others=others,
            further=further,
            account=account,
            view=self.view(job),
            identity=ViewIdentity.of(settings),
            reader=STRATEGIES.named(settings.strategy).reader(context),
            writer=self.writer(
                job,
                settings.shape,
                settings.upstream,
                lead_rows,
                settings.state_columns,
                {name: lead.rows for name, lead in further.items()},
                job_rows if job_rows.others else None,
            ),
            catalogs=self.catalogs,
        )

    def open_own(self, settings: JobSettings, barrier: Barrier) -> JobTables:
        """Return a job's tables; the view must belong to the incarnation."""
        tables = self.open(settings)
        tables.view.require_ours(tables.identity, barrier, None)
        return tables

    def table_rows(self, location: str, version: int) -> DataFrame:
        """Return the rows of a version of a view's table."""
        return rows_at(self._spark, location, version, self._storage_options)

    def upstream(self, job: BackfillJob) -> Source:
        """Return a job's upstream."""
        return open_source(job.upstream, self._storage_options)

    def _upstream_of(self, settings: JobSettings) -> Source:
        """Return the upstream of a created job, as the last epoch left it open if it serves several epochs."""

        def opened() -> Source:
            return self.upstream(settings.definition).as_created(settings.upstream)

        last = self._upstreams.of(_incarnation(settings), opened)
        return last if last.serves_several_epochs else opened()

    def others(self, job: BackfillJob, upstream: ResolvedUpstream) -> Mapping[str, OtherTable]:
        """Return the upstreams of a job that are read whole, by their names."""
        pinned: Mapping[str, ResolvedUpstream] = {job.lead_name: upstream, **upstream.others}
        found = {}
        for name in JobQuery.of(job, query_of(job), upstream).read_whole:
            found[name] = self._other(job, name, pinned[name])
        return found

    def leads(self, job: BackfillJob, upstream: ResolvedUpstream) -> Mapping[str, OtherTable]:
        """Return the upstreams that lead further branches, by their names, without positions."""
        return {name: self._other(job, name, upstream.others[name]) for name in further_leads(job)}

    def further(self, settings: JobSettings, upstream: Source) -> Mapping[str, FurtherLead]:
        """
        Return the upstreams that lead further branches, by their names, with the positions of the job's strategy.

        :param upstream: the upstream that leads the job.
        """
        strategy, spark = STRATEGIES.named(settings.strategy), self._spark
        opened = self.leads(settings.definition, settings.upstream)
        sources, found = {name: lead.source for name, lead in opened.items()}, {}
        for name, lead in opened.items():
            scan, placed = strategy.placed_lead(spark, settings, name, lead.rows.own, upstream, sources)
            # Kept for the reason that :meth:`_rows_at` gives.
            kept = partial(self._places[name].of, _incarnation(settings), placed)
            rows = replace(lead.rows, scan=scan, placed=kept)
            found[name] = FurtherLead(source=lead.source, created_on=settings.others[name], rows=rows)
        return found

    def _other(self, job: BackfillJob, name: str, created_on: ResolvedUpstream) -> OtherTable:
        definition = job.all_upstreams[name]
        source = open_source(definition, self._storage_options).as_created(created_on)
        rows = JobRows.of_other(job, name, reader_of(definition, source, self._spark), created_on)
        return OtherTable(source=source, created_on=created_on, rows=rows)

    def reader(self, job: BackfillJob, upstream: Source) -> SourceReader:
        """Return the reader of a job's opened upstream."""
        return reader_of(job.upstream, upstream, self._spark)

    def _rows_of(self, settings: JobSettings, upstream: Source) -> JobRows:
        """
        Return the upstream's rows that belong to a job; in the order of positions, unless that depends on others.

        :param upstream: the job's upstream, which keeps open what it has read of a log.
        """
        job, units = settings.definition, row_units_of(settings)
        reader, placed = self.reader(job, upstream), self.placed(settings, upstream)
        if not SHAPES.named(settings.shape).has_keys:
            # Groups of the rows that are left would be computed without those that are gone.
            reader = reader.whole_since(settings.first_offset)
        if units is not None and units.others:
            return JobRows.of(job, reader, settings.upstream)
        return JobRows.of(job, reader, settings.upstream, settings.scan.order, placed, units)

    def _placed_beside(self, settings: JobSettings, rows: JobRows, others: Mapping[str, OtherTable]) -> JobRows:
        """
        Return the rows of the upstream that leads by the units of joined rows, if the job's strategy reads these.

        They have the units that they had when the job was created; see :meth:`JobRows.beside`.
        """
        units = row_units_of(settings)
        if units is None or not units.others:
            return rows
        begins = {settings.definition.lead_name: settings.first_offset}
        begins |= {name: other.point.offset for name, other in settings.others.items()}
        beside = {name: others[name].rows for name in units.others}
        return replace(rows, scan=settings.scan.order, units=units, others=beside).beside(begins)

    def placed(self, settings: JobSettings, upstream: Source) -> PlacedRows | None:
        """Return how to read the rows as of the job's start with the columns of positions, if the upstream has none."""
        read = STRATEGIES.named(settings.strategy).placed(self._spark, settings, upstream, self._storage_options)
        # Kept for the reason that :meth:`_rows_at` gives.
        return None if read is None else partial(self._places[""].of, _incarnation(settings), read)

    def forget(self) -> None:
        """Forget what reads tables: these may be gone, and are found or made again when they are opened anew."""
        self._rows.forget()
        self._places.clear()
        self._upstreams.forget()
        self._accounts.forget()

    def view(self, job: BackfillJob) -> MaterializedView:
        """
        Return a job's view, to write to it.

        :raises UnsafeCommitsError: if commits to it, or to the strategy's tables in the job's folder, may be lost.
        """
        written = [job.view_location, job.state]
        require_safe_commits(self._spark, written)
        write_no_checksums(self._spark, written)
        return MaterializedView(self._spark, job.view_location, self._storage_options, job.partition_by)

    def writer(
        self,
        job: BackfillJob,
        shape: str,
        upstream: ResolvedUpstream,
        job_rows: JobRows,
        state_columns: Mapping[str, str] = MappingProxyType({}),
        further: Mapping[str, JobRows] | None = None,
        placed: JobRows | None = None,
    ) -> ViewWriter:
        """
        Return the writer of a job's view.

        :param state_columns: the hidden columns that keep the state of units; none before they are chosen.
        :param further: the rows of the upstreams that lead further branches; by default without positions.
        :param placed: the rows by the units of joined rows, if history is read by these.
        """
        if further is None:
            further = {name: lead.rows for name, lead in self.leads(job, upstream).items()}
        return SHAPES.named(shape).writer(
            WriterContext(
                spark=self._spark,
                job=job,
                query=JobQuery.of(job, query_of(job), upstream, state_columns),
                job_rows=job_rows,
                view=self._written(job, SHAPES.named(shape)),
                others={name: other.rows for name, other in self.others(job, upstream).items()},
                further=further,
                others_begin={name: other.point.offset for name, other in upstream.others.items()},
                placed=placed,
            )
        )

    def _written(self, job: BackfillJob, shape: Shape) -> MaterializedView:
        """Return a job's view as its writer writes it."""
        if job.keep.keeps_former_rows and not shape.former_rows_by_version:
            return FormerUnitsView(self._spark, job, self._storage_options)
        return self.view(job)

    def _rows_at(self, job_rows: JobRows, offset: Offset) -> DataFrame:
        """
        Return the rows as of an offset.

        The last offset's data frame is cached, because the rows at an offset never change, and Delta lists the files
        again for each data frame, which takes longer than to decide the rest of the epoch.
        """
        return self._rows.of((job_rows, offset), partial(job_rows.at, offset))


def _incarnation(settings: JobSettings) -> _Incarnation:
    return settings.job["state"], settings.incarnation, settings.definition_digest
