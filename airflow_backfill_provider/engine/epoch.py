"""
One epoch on Spark: the evaluator of its stages.

:mod:`airflow_backfill_provider.core.epoch.stages` lists the stages in order. The changes are written before the chunk,
because within one window a row may move from a key at or before the position into the chunk. Everything that can be
refused is checked before the first write to the view.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from airflow_backfill_provider.core.epoch.barrier import Barrier, decoded
from airflow_backfill_provider.core.epoch.engine import EpochWrites, PartWrites
from airflow_backfill_provider.core.epoch.stages import Stage, StageKind, changes_stages, part_stages, stage_of, timed
from airflow_backfill_provider.core.epoch.unit_work import UnitWork
from airflow_backfill_provider.core.errors import MissingRowsError
from airflow_backfill_provider.core.scan.keys import KeyRange
from airflow_backfill_provider.core.scan.table_version import TableVersions
from airflow_backfill_provider.engine.named_tables import register_view, require_same_upstream
from airflow_backfill_provider.engine.placed_changes import PlacedWindowChanges
from airflow_backfill_provider.engine.tables import JobTables
from airflow_backfill_provider.engine.window_changes import WindowChanges
from airflow_backfill_provider.jobs.lost_rows import require_computed_again
from airflow_backfill_provider.lake.store.one_listing import one_listing
from airflow_backfill_provider.spark.spark_errors import epoch_errors
from airflow_backfill_provider.spark.stamps import CHANGES, REPAIR
from airflow_backfill_provider.strategies.reader import Chunk


class EpochEvaluator:
    """
    Runs the stages of one epoch on Spark; each write happens once, however often the epoch is attempted.

    :param tables: the job's tables.
    :param since: the tables' versions after the previous epoch; ``None`` if there was none.
    """

    def __init__(self, tables: JobTables, barrier: Barrier, since: TableVersions | None) -> None:
        self._tables = tables
        self._barrier = barrier
        self._since = since
        self._rows = tables.job_rows
        self._work: UnitWork | None = None
        self._chunks: dict[int, Chunk] = {}
        self._opened = ExitStack()
        kind = PlacedWindowChanges if tables.are_placed_beside_others else WindowChanges
        self._changes = kind(tables, barrier, since, self._opened)
        self._rows_added_whole = 0
        self.seconds: dict[str, float] = {}

    def run_epoch(self) -> EpochWrites:
        """
        Write the barrier's changes, then every part of its chunk.

        :raises BackfillError: see :mod:`airflow_backfill_provider.core.errors`.
        """
        with self._guarded("epoch"):
            self._take(changes_stages(self._barrier, counts_chunk=self._tables.reader.counts_before_changes))
            rows = self._write_parts()
            self._take((stage_of(StageKind.READ_AHEAD),))
        return EpochWrites(rows, self._changes.through, self.seconds, self._rows_added, work=self._work)

    def apply_changes(self) -> PartWrites:
        """
        Write the barrier's changes, for an epoch that several task runs share.

        :raises BackfillError: as :meth:`run_epoch`.
        """
        with self._guarded("epoch"):
            self._take(changes_stages(self._barrier, counts_chunk=False))
        return PartWrites({0: self._changes.through}, self.seconds, self._rows_added)

    def read_chunk_part(self, part: int) -> PartWrites:
        """
        Write one part of the barrier's chunk; the changes must have been written.

        :raises BackfillError: as :meth:`run_epoch`.
        """
        with self._guarded(f"part {part} of epoch"):
            self._take((stage_of(StageKind.CHECK_TABLES),))
            rows = self._write_part(part, self.seconds)
        return PartWrites(rows, self.seconds)

    @contextmanager
    def _guarded(self, what: str) -> Iterator[None]:
        """
        Refuse an upstream other than the pinned one, before and after reading it; and names of other tables.

        If the upstream is replaced in between, wrong rows may be written, but the epoch is not committed.
        """
        barrier = self._barrier
        with (
            epoch_errors(f"{what} {barrier.epoch} of job {barrier.job}", tables=self._tables.reader.tables),
            self._opened,
        ):
            require_same_upstream(self._tables.settings, self._tables.catalogs)
            register_view(self._tables.settings, self._tables.catalogs)
            self._require_same_histories()
            yield
            self._require_same_histories()

    def _require_same_histories(self) -> None:
        self._tables.upstream.require_same_history(self._barrier.upstream.end)
        for name, other in self._tables.others.items():
            other.source.require_same_history(self._barrier.window(name).end)
        for name, lead in self._tables.further.items():
            lead.source.require_same_history(self._barrier.window(name).end)

    @property
    def _rows_added(self) -> int:
        """The rows that the changes add to those read before."""
        return self._changes.rows_added + self._rows_added_whole

    # --------------------------------------------------------------------------------------------- the stages

    def _take(self, stages: Iterable[Stage]) -> None:
        visits = {
            StageKind.CHECK_TABLES: self._check_tables,
            StageKind.FIND_CHANGES: self._find_changes,
            StageKind.COUNT_CHUNK: self._count_chunk,
            StageKind.WRITE_CHANGES: self._write_changes,
            StageKind.REPAIR: self._repair,
            StageKind.KEEP_CHANGES: self._keep_changes,
            StageKind.READ_AHEAD: self._read_ahead,
        }
        for stage in stages:
            with stage.entered(self.seconds):
                visits[stage.kind]()

    def _check_tables(self) -> None:
        table_versions(self._tables, self._barrier, self._since)

    def _find_changes(self) -> None:
        """Find the window's changes and count them; meanwhile, the strategy checks what it reads."""
        # Either leaves a core idle at times, and the check of a large upstream's keys takes as long as the changes.
        with ThreadPoolExecutor(max_workers=1) as checker:
            checked = checker.submit(self._tables.reader.check, self._barrier)
            self._changes.find()
            checked.result()

    def _count_chunk(self) -> None:
        """Count the chunk's rows, and check the total against the upstream."""
        parts = range(len(self._barrier.parts))
        for part in parts:
            self._chunks[part] = self._opened.enter_context(self._chunk(part))
        try:
            self._settle()
        except MissingRowsError as error:
            others = {part: self._other_chunk(error, part) for part in parts}
            if None in others.values() or not others:
                raise
            self._chunks = {part: other for part, other in others.items() if other is not None}
            # If this chunk misses no row, an earlier one did, and the error stays.
            self._settle()

    def _settle(self) -> None:
        rows_read = sum(sum(chunk.count().values()) for chunk in self._chunks.values())
        present = self._barrier.rows_present(self._since, chunk=rows_read, added=self._rows_added)
        self._tables.account.settle(self._barrier, present)

    def _write_changes(self) -> None:
        if self._barrier.computes_whole:
            self._compute_whole(CHANGES)
            return
        changes, tables, barrier = self._changes.of_view(), self._tables, self._barrier
        if changes is not None:
            repairs = tables.settings.may_differ(barrier)
            self._work = tables.writer.write_changes(
                changes, tables.identity, barrier, repairs=repairs, since=self._since
            )

    def _repair(self) -> None:
        # The commit has the changes, too, so their stage announces it.
        with stage_of(StageKind.WRITE_CHANGES).entered({}):
            if self._barrier.computes_whole:
                self._compute_whole(REPAIR)
                return
            tables, barrier = self._tables, self._barrier
            require_computed_again(tables.settings, tables.upstream, barrier.upstream.to_offset)
            self._work = tables.writer.repair(self._changes.of_view(), tables.identity, barrier, since=self._since)

    def _compute_whole(self, part: str) -> None:
        """Compute the whole view; what the changes add follows from the number of rows, because they are not read."""
        tables, barrier = self._tables, self._barrier
        self._work = tables.writer.write_whole(part, tables.identity, barrier)
        before = None if self._since is None else self._since.rows_present
        if before is not None:
            self._rows_added_whole = tables.account.with_changes(barrier) - before

    def _keep_changes(self) -> None:
        """Pass the strategy what the view does not get; this comes after every stage that a bad row can fail."""
        held_back = self._changes.held_back()
        if held_back is not None:
            with timed(self.seconds, self._tables.settings.strategy):
                self._tables.reader.keep(held_back.net, self._barrier, held_back.number)
        self._tables.reader.set_aside(self._barrier)

    def _read_ahead(self) -> None:
        self._tables.reader.read_ahead(self._barrier)

    # ---------------------------------------------------------------------------------------------- the chunk

    def _write_parts(self) -> dict[int, int]:
        """Write all parts of the chunk in parallel, and return their rows by vnode."""
        parts = range(len(self._barrier.parts))
        timings: list[dict[str, float]] = [{} for _ in parts]
        with ThreadPoolExecutor(max_workers=max(len(parts), 1)) as writers:
            writing = [writers.submit(self._write_part, part, timings[part]) for part in parts]
        counts = [done.result() for done in writing]
        for spent in timings:
            for stage, took in spent.items():
                self.seconds[stage] = max(self.seconds.get(stage, 0.0), took)
        return _sum(counts)

    def _write_part(self, part: int, seconds: dict[str, float]) -> dict[int, int]:
        """Write one part of the chunk; return its rows by vnode."""
        tables, barrier = self._tables, self._barrier
        known = self._chunks.get(part)
        with nullcontext(known) if known is not None else self._chunk(part) as chunk:
            try:
                if tables.view.has_chunk(part, tables.identity, barrier):
                    chunk.require_sound()
                return self._count_and_write(part, chunk, seconds)
            except (PySparkException, Py4JError) as error:
                other = self._other_chunk(error, part)
                if other is None:
                    raise
        return self._count_and_write(part, other, seconds)

    def _count_and_write(self, part: int, chunk: Chunk, seconds: dict[str, float]) -> dict[int, int]:
        count, write = part_stages()
        rows: dict[int, int] = {}

        def counted() -> None:
            with count.entered(seconds):
                rows.update(chunk.count())

        def written() -> None:
            with write.entered(seconds):
                # Commit a part without rows, too: a part without a commit may be given up.
                self._write(chunk, part)

        for step in (written, counted) if self._tables.reader.counts_while_writing else (counted, written):
            step()
        return rows

    def _write(self, chunk: Chunk, part: int) -> None:
        tables, barrier, since = self._tables, self._barrier, self._since
        rows, further = chunk.rows(), tables.reader.further(chunk)
        if further:
            tables.writer.write_part_of_leads(rows, further, part, tables.identity, barrier, since=since)
        else:
            tables.writer.write_part(rows, part, tables.identity, barrier, since=since)

    def _chunk(self, part: int) -> AbstractContextManager[Chunk]:
        return self._tables.reader.chunk(self._barrier, self._ranges(part))

    def _other_chunk(self, error: Exception, part: int) -> Chunk | None:
        return self._tables.reader.chunk_after(error, self._barrier, self._ranges(part))

    def _ranges(self, part: int) -> tuple[KeyRange, ...]:
        """Return the ranges of a part of the chunk."""
        return decoded(self._barrier.parts[part].ranges, self._rows.scan)


def table_versions(tables: JobTables, barrier: Barrier, since: TableVersions | None) -> TableVersions:
    """
    Return the newest versions of the view and of the strategy's tables; refuse them if a foreign writer changed them.

    :raises MaterializedViewError: if a foreign writer changed the view, unless the epoch repairs it.
    :raises StateError: if a foreign writer changed a table of the strategy.
    """
    view, before = tables.view, since.view if since else None
    with one_listing():
        # Read the versions before the check: the next epoch checks all commits after them.
        newest = view.require_ours(tables.identity, barrier, before)
        if not tables.settings.repairs_view(barrier):
            view.table.require_untouched(tables.identity, barrier, before)
        return TableVersions(view=newest, strategy=tables.reader.require_untouched(barrier, since))


def _sum(counts: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """Add rows by vnode."""
    total: Counter[int] = Counter()
    for count in counts:
        total.update(count)
    return dict(total)
