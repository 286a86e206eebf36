"""The engine of the epoch protocol on Spark: puts source, query, arrangement and view together."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from airflow_backfill_provider.core.barrier import Barrier, decoded
from airflow_backfill_provider.core.columns import OF_DELETION_VECTORS, OF_DELTAS_WRITES, own_columns
from airflow_backfill_provider.core.compaction import CompactionPlan
from airflow_backfill_provider.core.crash_points import CrashPoint, reached
from airflow_backfill_provider.core.engine import EpochWrites, PartWrites
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job import BackfillJob
from airflow_backfill_provider.core.keys import KeyField, KeyOrder, KeyRange
from airflow_backfill_provider.core.location import is_local
from airflow_backfill_provider.core.query import check_query, quote
from airflow_backfill_provider.core.scan import VnodeRange
from airflow_backfill_provider.core.settings import JobSettings, ResolvedUpstream
from airflow_backfill_provider.core.table_version import TableVersions
from airflow_backfill_provider.core.verification import ComparedVnodes, PinnedVerification
from airflow_backfill_provider.engine.compaction import compact
from airflow_backfill_provider.engine.driver_lock import driver_lock
from airflow_backfill_provider.engine.lasting_values import require_lasting_values
from airflow_backfill_provider.engine.predicates import shielded
from airflow_backfill_provider.engine.query import run_query
from airflow_backfill_provider.engine.row_account import RowAccount
from airflow_backfill_provider.engine.session import pin_settings, prepare_session
from airflow_backfill_provider.engine.source import (
    NO_CHANGES,
    MeasuredChanges,
    Upstream,
    are_few,
    column,
)
from airflow_backfill_provider.engine.spark_errors import epoch_errors, view_errors
from airflow_backfill_provider.engine.view import MaterializedView
from airflow_backfill_provider.engine.view_columns import require_columns
from airflow_backfill_provider.execution import repair
from airflow_backfill_provider.execution.compared_sides import ComparedSides
from airflow_backfill_provider.execution.comparison import compare as compare_sides
from airflow_backfill_provider.execution.repeated_keys import settled
from airflow_backfill_provider.lake.upstream import UpstreamTable
from airflow_backfill_provider.lake.view_identity import ViewIdentity
from airflow_backfill_provider.strategies import KINDS
from airflow_backfill_provider.strategies.reader import Chunk, ReaderContext, SnapshotReader

_DELETION_VECTORS = "enableDeletionVectors"


class SparkEngine:
    """
    Executes epochs in a Spark session; see :class:`airflow_backfill_provider.protocol.Engine`.

    :param spark: the session; settings that results depend on are pinned in it.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, spark: SparkSession, storage_options: Mapping[str, str] | None = None) -> None:
        self._spark = prepare_session(spark, storage_options)
        self._storage_options = storage_options
        self._opened: _OpenedVersion | None = None
        self._accounts: RowAccount | None = None

    def check(
        self,
        job: BackfillJob,
        upstream: ResolvedUpstream,
        version: int,
        strategy: str,
        incarnations: frozenset[str],
    ) -> None:
        """
        Refuse a job that cannot work, before anything is written.

        :param upstream: the upstream's columns as resolved.
        :param version: the upstream's version to look at.
        :param strategy: the chosen one. Chunks that are read in place are looked at one by one, so the keys of a large
            upstream are left to the epochs, unless the strategy takes over all rows at once.
        :param incarnations: the job's incarnations so far, whose view may lie at the view's path.
        :raises InvalidJobError: if the query is wrong.
        :raises MaterializedViewError: if the view's path is taken.
        :raises DuplicateKeyError: if the key does not identify the upstream's rows.
        """
        pin_settings(self._spark)
        self._materialized_view(job).require_usable(job.name, incarnations)
        source = _upstream(job, upstream)
        with epoch_errors(f"checking job {job.name}"):
            rows = source.at(self._spark, version)
            result = self._query(job, source, rows.limit(0))
            query = check_query(job.query)
            hidden = query.hidden_keys(source.key.names, source.names).values()
            written = query.written_names(source.names) | {name.lower() for name in hidden}
            require_columns(result.schema, job.table_properties, written)
            self._require_writable(job, result.schema)
            require_lasting_values(self._spark, job, rows.select(*map(column, source.columns)), source.names)
            if result.limit(1).count():
                raise InvalidJobError("query: it gives a row where the upstream has none, so it is an aggregate")
            expected = UpstreamTable(source.path, self._storage_options).row_count(version)
            if KINDS.named(strategy).checks_all_keys or are_few(expected):
                source.measure_chunk(rows, expected=expected)

    def ensure_tables(self, settings: JobSettings, earlier_incarnations: Mapping[str, int]) -> None:
        """Make the view's empty table, and the strategy's own tables, exist; a no-op if they do."""
        tables = self._tables(settings)
        view, identity = tables.view, tables.identity
        if view.identity() != identity:
            empty = tables.source.empty(self._spark)
            rows = self._query(tables.job, tables.source, empty)
            with view_errors(view.path):
                view.ensure(rows.schema, identity, earlier_incarnations, tables.job.table_properties)
        tables.reader.prepare()

    def execute(self, settings: JobSettings, barrier: Barrier, *, since: TableVersions | None) -> EpochWrites:
        """
        Write the barrier's changes, then every part of its chunk, each exactly once.

        The changes go first: a row may leave the keys behind the position and come back inside the chunk in
        one window. Whatever can be refused is looked at before the view's first write.

        :param since: the versions that the previous epoch left, ``None`` if there was none.
        :raises BackfillError: see :mod:`airflow_backfill_provider.core.errors`.
        """
        seconds: dict[str, float] = {}
        tables = self._tables(settings)
        with (
            epoch_errors(f"epoch {barrier.epoch} of job {barrier.job}", tables=tables.reader.tables),
            ExitStack() as opened,
        ):
            opened.enter_context(self._same_upstream(barrier, tables))
            self._require_untouched(settings, barrier, since, seconds)
            changes = opened.enter_context(self._changes(tables, barrier, seconds))
            through, added = changes.measured.through, changes.measured.rows_added
            chunks: dict[int, Chunk] = {}
            if tables.reader.counts_before_changes:
                with _timed(seconds, "check"):
                    for part in range(len(barrier.parts)):
                        chunks[part] = opened.enter_context(self._chunk(tables, barrier, part))
                    rows_read = sum(sum(chunk.count().values()) for chunk in chunks.values())
                    tables.account.settle(barrier, barrier.rows_present(since, chunk=rows_read, added=added))
            self._apply(tables, barrier, changes, seconds)
            return EpochWrites(self._read_parts(tables, barrier, chunks, seconds), through, seconds, added)

    def apply_changes(self, settings: JobSettings, barrier: Barrier, *, since: TableVersions | None) -> PartWrites:
        """
        Write the barrier's changes, exactly once, for an epoch that several runs share.

        :raises BackfillError: as :meth:`execute`.
        """
        seconds: dict[str, float] = {}
        tables = self._tables(settings)
        with (
            epoch_errors(f"epoch {barrier.epoch} of job {barrier.job}", tables=tables.reader.tables),
            self._same_upstream(barrier, tables),
        ):
            self._require_untouched(settings, barrier, since, seconds)
            with self._changes(tables, barrier, seconds) as changes:
                self._apply(tables, barrier, changes, seconds)
        return PartWrites({0: changes.measured.through}, seconds, changes.measured.rows_added)

    def read_part(
        self, settings: JobSettings, barrier: Barrier, part: int, *, since: TableVersions | None
    ) -> PartWrites:
        """
        Write one part of the barrier's chunk, exactly once; the changes must have been applied.

        :raises BackfillError: as :meth:`execute`.
        """
        seconds: dict[str, float] = {}
        tables = self._tables(settings)
        with (
            epoch_errors(f"part {part} of epoch {barrier.epoch} of job {barrier.job}", tables=tables.reader.tables),
            self._same_upstream(barrier, tables),
        ):
            self._require_untouched(settings, barrier, since, seconds)
            return PartWrites(self._read_part(tables, barrier, part, seconds), seconds)

    def table_versions(self, settings: JobSettings, barrier: Barrier, *, since: TableVersions | None) -> TableVersions:
        """
        Return the newest versions of the view and of the strategy's tables, which only the job has written to since.

        :raises MaterializedViewError: if something else wrote to the view, unless it is repaired.
        :raises StateError: if something else wrote to a table of the strategy, which nothing repairs.
        """
        tables = self._tables(settings)
        view, before = tables.view, since.view if since else None
        # Before the looks at what was written: what is written from here on, the next epoch looks at.
        newest = view.require_ours(tables.identity, barrier, before)
        if not settings.repairs_view(barrier):
            view.table.require_untouched(tables.identity, barrier, before)
        return TableVersions(view=newest, strategy=tables.reader.require_untouched(barrier, since))

    def account(self, settings: JobSettings, barrier: Barrier, rows_present: int | None) -> int | None:
        """
        Hold how many rows were read against how many there are; see :mod:`.account`.

        :raises MissingRowsError: if these are others.
        """
        tables = self._tables(settings)
        with epoch_errors(f"epoch {barrier.epoch} of job {barrier.job}", tables=tables.reader.tables):
            return tables.account.settle(barrier, rows_present)

    def fence_chunk(self, settings: JobSettings, barrier: Barrier) -> frozenset[int]:
        """Give up every part of the barrier's chunk that is not written; return those that are."""
        tables = self._own_tables(settings, barrier)
        with epoch_errors(f"giving up epoch {barrier.epoch} of job {barrier.job}", tables=tables.reader.tables):
            return tables.view.fence_chunk(len(barrier.parts), tables.identity, barrier)

    def fence_changes(self, settings: JobSettings, barrier: Barrier) -> bool:
        """Give up the barrier's changes, unless some of them are written; return whether none is."""
        tables = self._own_tables(settings, barrier)
        with epoch_errors(f"giving up epoch {barrier.epoch} of job {barrier.job}", tables=tables.reader.tables):
            if not tables.view.fence_changes(tables.identity, barrier):
                return False
            return tables.reader.fence(barrier)

    def mark_finished(self, settings: JobSettings, barrier: Barrier) -> None:
        """Publish on the view's table that it is finished; a no-op if it says so already."""
        with epoch_errors(f"epoch {barrier.epoch} of job {barrier.job}"):
            self._materialized_view(settings.definition).mark_finished(ViewIdentity.of(settings), barrier.epoch)

    def take_back_finished(self, settings: JobSettings, barrier: Barrier) -> None:
        """Publish on the view's table that it is not finished; a no-op if it does not say that it is."""
        with epoch_errors(f"epoch {barrier.epoch} of job {barrier.job}"):
            view = self._materialized_view(settings.definition)
            view.take_back_finished(ViewIdentity.of(settings), barrier.epoch)

    def exclusive(self, settings: JobSettings) -> AbstractContextManager[None]:
        """Keep a second driver of this machine from committing to a local table at the same instant."""
        state = settings.job["state"]
        return driver_lock(Path(state)) if is_local(state) else nullcontext()

    def compact_view(self, settings: JobSettings, plan: CompactionPlan) -> None:
        """Do to the view's files what is planned; see :mod:`airflow_backfill_provider.maintenance.compaction`."""
        compact(self._materialized_view(settings.definition).table, plan, settings.incarnation)

    def compact_own_table(self, settings: JobSettings, name: str, plan: CompactionPlan) -> None:
        """Do to one of the strategy's own tables what is planned."""
        self._tables(settings).reader.compact(name, plan)

    def compare(
        self, settings: JobSettings, pinned: PinnedVerification, barrier: Barrier, vnodes: VnodeRange
    ) -> ComparedVnodes:
        """
        Compare some vnodes of the view with the query over the upstream; see :mod:`.verification`.

        :param barrier: the verified epoch's.
        :raises BackfillError: if a table cannot be read; then nothing is known of it.
        """
        pin_settings(self._spark)
        older = [read for read in barrier.view_after if read.version != pinned.upstream_version]
        return compare_sides(ComparedSides(spark=self._spark, settings=settings, pinned=pinned, older=older), vnodes)

    # ------------------------------------------------------------------------------------------------ one epoch

    @contextmanager
    def _changes(self, tables: _Tables, barrier: Barrier, seconds: dict[str, float]) -> Iterator[_Changes]:
        """Find the window's changes and count them, to be used inside the block."""
        source = tables.source
        visible = source.is_read(barrier.read_before)
        with ExitStack() as opened:
            with _timed(seconds, "check"):
                net = self._net_changes(tables, barrier, visible)
                if net is not None:
                    opened.callback(net.unpersist)
                measured = NO_CHANGES if net is None else source.measure_changes(net, visible)
                if net is not None and measured.some_doubtful:
                    net = settled(self._spark, source, net, barrier.upstream.to_version).persist()
                    opened.callback(net.unpersist)
                    measured = source.measure_changes(net, visible)
                must_be_single = tables.settings.repairs_view(barrier) or source.key_spans_vnodes
                if net is not None and measured.some_appeared and must_be_single:
                    source.require_single(self._spark, net, barrier.upstream.to_version)
                if barrier.repair:
                    _evaluate(self._repaired(tables, barrier))
            yield _Changes(net, visible, measured)

    def _apply(self, tables: _Tables, barrier: Barrier, changes: _Changes, seconds: dict[str, float]) -> None:
        """Write the window's changes where they belong."""
        source, net, measured = tables.source, changes.net, changes.measured
        with _timed(seconds, "changes"):
            reached(CrashPoint.BEFORE_CHANGES_COMMIT)
            if net is not None and measured.through:
                let_through = net.filter(changes.visible)
                by_key = source.net_by_key(let_through).filter(source.leaves_something())
                if tables.settings.repairs_view(barrier):
                    # The upstream was looked at itself: what the view has of these keys is not its own.
                    by_key = by_key.withColumn(source.own.appeared, F.lit(False))
                # Rows as of several versions make no view that anybody could read.
                apply = self._rewrite if barrier.read_as_of else self._merge
                apply(tables, by_key, measured, barrier)
            reached(CrashPoint.AFTER_CHANGES_COMMIT)
        if barrier.repair:
            with _timed(seconds, "repair"):
                self._repair(tables, barrier)
        # Behind all that a row can make fail, for what is written here cannot be given up any more.
        if net is not None and measured.held_back:
            with _timed(seconds, tables.settings.strategy):
                held_back = net.filter(~changes.visible & source.leaves_something())
                tables.reader.keep(held_back, barrier, measured.held_back)

    @contextmanager
    def _same_upstream(self, barrier: Barrier, tables: _Tables) -> Iterator[None]:
        """
        Refuse an upstream that is another table than the one that was pinned, before and after it is read.

        What was read of another one in between is written, but never committed.
        """
        tables.log.require_same_log(barrier.upstream.end)
        yield
        tables.log.require_same_log(barrier.upstream.end)

    def _require_untouched(
        self, settings: JobSettings, barrier: Barrier, since: TableVersions | None, seconds: dict[str, float]
    ) -> None:
        with _timed(seconds, "check"):
            self.table_versions(settings, barrier, since=since)

    def _repair(self, tables: _Tables, barrier: Barrier) -> None:
        """Write the chosen rows anew; after the changes, for it writes them as of the window's end."""
        source = tables.source
        outputs = check_query(tables.job.query).key_outputs(source.key.names, source.names)
        removed = repair.keys_to_remove(self._spark, source, barrier, tables.view.table.read(), outputs).persist()
        try:
            # Counted now: the view changes under the statement that removes them.
            removed.count()
            tables.view.repair(removed, self._repaired(tables, barrier), outputs, tables.identity, barrier)
        finally:
            removed.unpersist()

    def _repaired(self, tables: _Tables, barrier: Barrier) -> DataFrame:
        """Return the view's rows that a repair writes."""
        chosen = repair.rows_to_write(self._spark, tables.source, barrier)
        return self._query(tables.job, tables.source, shielded(chosen))

    def _net_changes(self, tables: _Tables, barrier: Barrier, visible: Column) -> DataFrame | None:
        """
        Return the net changes that the epoch writes somewhere.

        Those of rows that the view has, after the version that it has each row as of, unless they wait; and those that
        the strategy keeps.

        :param visible: the condition: the row was read before the epoch.
        """
        source, shown = tables.source, barrier.view_before if barrier.publishes else ()
        kept = tables.reader.wanted(visible, barrier)
        if not barrier.has_changes or not (shown or kept is not None):
            return None
        after, to_version = barrier.changes_after, barrier.upstream.to_version
        tables.log.require_used_columns(after, to_version, tables.settings.upstream)
        wanted = source.after(shown)
        if kept is not None:
            wanted |= kept
        return source.net_changes(self._spark, after, to_version, wanted).persist()

    def _merge(self, tables: _Tables, changes: DataFrame, measured: MeasuredChanges, barrier: Barrier) -> None:
        """Merge the changed keys: with their new row if it passes the query's filter, else as a delete."""
        job, source = tables.job, tables.source
        names = source.key.names
        outputs = check_query(job.query).key_outputs(names, source.names)
        upserts = changes.filter(F.col(source.own.is_upsert))
        passing = self._query(job, source, upserts)
        columns = passing.columns
        own = own_columns(columns)
        changed = own.numbered("changed", len(names))
        keys = changes.select(
            *(column(key).alias(name) for key, name in zip(names, changed, strict=True)),
            F.col(source.own.appeared).alias(own.appeared),
        )
        key_columns = {output: F.col(name) for output, name in zip(outputs, changed, strict=True)}
        same = [name.eqNullSafe(column(output)) for output, name in key_columns.items()]
        joined = keys.join(passing.withColumn(own.is_upsert, F.lit(True)), same, "left")
        source_rows = joined.select(
            *(key_columns.get(name, column(name)).alias(name) for name in columns),
            F.coalesce(F.col(own.is_upsert), F.lit(False)).alias(own.is_upsert),
            own.appeared,
        )
        tables.view.merge(source_rows, measured, outputs, columns, own, tables.identity, barrier)

    def _rewrite(self, tables: _Tables, changes: DataFrame, measured: MeasuredChanges, barrier: Barrier) -> None:
        """Remove the changed keys, and append the new rows that pass the query's filter."""
        job, source = tables.job, tables.source
        outputs = check_query(job.query).key_outputs(source.key.names, source.names)
        own = own_columns(outputs)
        keys = [column(name).alias(output) for name, output in zip(source.key.names, outputs, strict=True)]
        written = self._query(job, source, changes.filter(F.col(source.own.is_upsert)))
        changed = changes.select(*keys, F.col(source.own.appeared).alias(own.appeared))
        _evaluate(written)
        tables.view.rewrite(changed, measured, written, outputs, own, tables.identity, barrier)

    def _read_parts(
        self, tables: _Tables, barrier: Barrier, chunks: Mapping[int, Chunk], seconds: dict[str, float]
    ) -> dict[int, int]:
        """
        Read all parts of the chunk side by side, and return their rows by vnode.

        :param chunks: those that were counted already, by part.
        """
        parts = range(len(barrier.parts))
        timings: list[dict[str, float]] = [{} for _ in parts]
        with ThreadPoolExecutor(max_workers=max(len(parts), 1)) as runs:
            reading = [
                runs.submit(self._read_part, tables, barrier, part, timings[part], chunks.get(part)) for part in parts
            ]
        counts = [done.result() for done in reading]
        for spent in timings:
            for phase, took in spent.items():
                seconds[phase] = max(seconds.get(phase, 0.0), took)
        return _sum(counts)

    def _read_part(
        self,
        tables: _Tables,
        barrier: Barrier,
        part: int,
        seconds: dict[str, float],
        known: Chunk | None = None,
    ) -> dict[int, int]:
        """
        Read one part of the chunk.

        :param known: the chunk, if it was counted already.
        """
        with nullcontext(known) if known is not None else self._chunk(tables, barrier, part) as chunk:
            try:
                if tables.view.has_chunk(part, tables.identity, barrier):
                    chunk.require_sound()
                return self._count_and_append(tables, barrier, part, chunk, seconds)
            except (PySparkException, Py4JError) as error:
                other = tables.reader.chunk_after(error, barrier, _ranges(tables, barrier, part))
                if other is None:
                    raise
        return self._count_and_append(tables, barrier, part, other, seconds)

    def _count_and_append(
        self, tables: _Tables, barrier: Barrier, part: int, chunk: Chunk, seconds: dict[str, float]
    ) -> dict[int, int]:
        with _timed(seconds, "count"):
            rows = dict(chunk.count())
        self._append(tables, barrier, part, chunk, seconds)
        return rows

    def _append(
        self,
        tables: _Tables,
        barrier: Barrier,
        part: int,
        chunk: Chunk,
        seconds: dict[str, float],
    ) -> None:
        reached(CrashPoint.BEFORE_SNAPSHOT_COMMIT)
        with _timed(seconds, "snapshot"):
            # Also one without a row leaves its commit: where none is, the part was given up, or may still be.
            result = self._query(tables.job, tables.source, shielded(chunk.rows()))
            tables.view.append(result, part, tables.identity, barrier)
        reached(CrashPoint.AFTER_SNAPSHOT_COMMIT)

    def _chunk(self, tables: _Tables, barrier: Barrier, part: int) -> AbstractContextManager[Chunk]:
        return tables.reader.chunk(barrier, _ranges(tables, barrier, part))

    def _rows_at(self, source: Upstream, version: int) -> DataFrame:
        """
        Return the upstream's rows as of a version.

        Of the version that was asked for last it is the same frame: which files the version has, Delta works out anew
        for each, and that takes longer than planning the rest. A version never changes.
        """
        opened = self._opened
        if opened is None or (opened.source, opened.version) != (source, version):
            opened = _OpenedVersion(source, version, source.at(self._spark, version))
            self._opened = opened
        return opened.rows

    def _account(self, source: Upstream, log: UpstreamTable) -> RowAccount:
        """Return the account of a job's rows; the same one for the same job, for it remembers what it counted."""
        if self._accounts is None or self._accounts.source != source:
            self._accounts = RowAccount(self._spark, source, log)
        return self._accounts

    # --------------------------------------------------------------------------------------------------- tables

    def _tables(self, settings: JobSettings) -> _Tables:
        # Others may have changed the session since this engine, or its last epoch, began.
        pin_settings(self._spark)
        job = settings.definition
        source = _upstream(job, settings.upstream, settings.scan.order)
        log = UpstreamTable(source.path, self._storage_options)
        account = self._account(source, log)
        context = ReaderContext(
            spark=self._spark,
            settings=settings,
            source=source,
            log=log,
            rows_at=partial(self._rows_at, source),
            account=account,
            storage_options=self._storage_options,
        )
        return _Tables(
            settings=settings,
            job=job,
            source=source,
            log=log,
            account=account,
            view=self._materialized_view(job),
            identity=ViewIdentity.of(settings),
            reader=KINDS.named(settings.strategy).reader(context),
        )

    def _own_tables(self, settings: JobSettings, barrier: Barrier) -> _Tables:
        """Return the job's tables, of which the view must be the incarnation's."""
        tables = self._tables(settings)
        tables.view.require_ours(tables.identity, barrier, None)
        return tables

    def _query(self, job: BackfillJob, source: Upstream, rows: DataFrame) -> DataFrame:
        """Return the job's query over some upstream rows."""
        return run_query(self._spark, job, rows.select(*map(column, source.columns)), source.names)

    def _require_writable(self, job: BackfillJob, schema: StructType) -> None:
        """Refuse output columns that Delta could not merge changes into."""
        default = self._spark.conf.get(f"spark.databricks.delta.properties.defaults.{_DELETION_VECTORS}", None)
        has_vectors = job.table_properties.get(f"delta.{_DELETION_VECTORS}", default or "false").lower() == "true"
        refused = OF_DELTAS_WRITES | OF_DELETION_VECTORS if has_vectors else OF_DELTAS_WRITES
        for name in schema.names:
            if name.lower() in refused:
                raise InvalidJobError(
                    f"query: the column {quote(name)} has a name that Delta uses itself when it merges changes"
                    f"{' into a table with deletion vectors' if has_vectors else ''}; give it another alias"
                )

    def _materialized_view(self, job: BackfillJob) -> MaterializedView:
        return MaterializedView(self._spark, job.materialized_view, self._storage_options)


@dataclass(frozen=True, slots=True)
class _OpenedVersion:
    """A version of the upstream as a frame."""

    source: Upstream
    version: int
    rows: DataFrame


@dataclass(frozen=True, slots=True)
class _Changes:
    """
    What the window changed, looked at and not yet written.

    :param net: the net changes; ``None`` if there are none that the epoch writes.
    :param visible: the condition that a change is let through to the view.
    """

    net: DataFrame | None
    visible: Column
    measured: MeasuredChanges


@dataclass(frozen=True, slots=True)
class _Tables:
    """What one job's epochs read and write."""

    settings: JobSettings
    job: BackfillJob
    source: Upstream
    log: UpstreamTable
    account: RowAccount
    view: MaterializedView
    identity: ViewIdentity
    reader: SnapshotReader


def _ranges(tables: _Tables, barrier: Barrier, part: int) -> tuple[KeyRange, ...]:
    """Return what a part of the chunk reads."""
    return decoded(barrier.parts[part].ranges, tables.source.scan)


def _upstream(job: BackfillJob, resolved: ResolvedUpstream, scan: KeyOrder | None = None) -> Upstream:
    types = {found.name: found.type for found in resolved.columns}
    key = KeyOrder(
        tuple(
            KeyField(name=column.column, type=types[column.column], descending=column.descending)
            for column in job.upstream.key
        )
    )
    bounds = job.restrict_to.keys
    return Upstream(
        path=job.upstream.path,
        types=types,
        key=key,
        scan=scan or key,
        distribution_key=job.upstream.distribution_key,
        vnode_count=job.vnode_count,
        vnodes=job.vnodes,
        keys=KeyRange(key.decode(bounds.after), key.decode(bounds.up_to)),
    )


def _sum(counts: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """Add rows by vnode."""
    total: Counter[int] = Counter()
    for count in counts:
        total.update(count)
    return dict(total)


def _evaluate(rows: DataFrame) -> None:
    """
    Work rows out and throw them away.

    What a row makes fail has to fail before others are removed to make room for it.
    """
    rows.write.format("noop").mode("overwrite").save()


@contextmanager
def _timed(seconds: dict[str, float], phase: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    seconds[phase] = seconds.get(phase, 0.0) + time.monotonic() - started
