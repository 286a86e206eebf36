"""
Running a pinned barrier, whole or by several runs, and committing its epoch.

State and log are derived from the pinned barrier and from what the engine counted, which is the same for every attempt.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from airflow_backfill_provider.core.barrier import Barrier, EpochCommit, EpochReport, TableVersions, left_behind
from airflow_backfill_provider.core.errors import BackfillError, EpochFailedError, StateError
from airflow_backfill_provider.core.settings import JobSettings
from airflow_backfill_provider.crash_points import CrashPoint, reached
from airflow_backfill_provider.protocol.clock import Clock, utc_now
from airflow_backfill_provider.protocol.engine import Engine, EpochWrites, PartWrites
from airflow_backfill_provider.state.store import BackfillStore

Step = TypeVar("Step")


def run_barrier(barrier: Barrier, *, store: BackfillStore, engine: Engine, clock: Clock = utc_now) -> EpochCommit:
    """
    Execute a pinned barrier and commit its epoch; a no-op if it is committed.

    :returns: the epoch's commit as the barrier log holds it.
    :raises StateError: if the barrier belongs to an incarnation that was rebuilt meanwhile.
    :raises BackfillError: if the epoch cannot be done right; then nothing of it was written.
    """

    def execute(run: _EpochRun) -> EpochCommit:
        return run.commit(engine.execute(run.settings, barrier, since=run.since))

    return _uncommitted(barrier, execute, store=store, engine=engine, clock=clock)


def run_changes(
    barrier: Barrier, *, store: BackfillStore, engine: Engine, clock: Clock = utc_now
) -> EpochCommit | None:
    """
    Apply the changes of an epoch that several runs share; the first step of it.

    :returns: the epoch's commit, if nothing else is left to do for it, or somebody did it.
    :raises BackfillError: as :func:`run_barrier`.
    """

    def apply(run: _EpochRun) -> EpochCommit | None:
        if None in run.reported():
            return run.commit_if_reported()
        return run.report(None, engine.apply_changes(run.settings, barrier, since=run.since))

    return _uncommitted(barrier, apply, store=store, engine=engine, clock=clock)


def skip_changes(barrier: Barrier, *, store: BackfillStore, clock: Clock = utc_now) -> bool:
    """
    Do without an engine what :func:`run_changes` would, if there is nothing to apply: no version, and no repair.

    :returns: whether that step is done.
    """
    if barrier.has_changes or barrier.repair or not barrier.parts:
        return False
    store.record_report(barrier, _reported(barrier, None, PartWrites({}), clock()))
    return True


def run_part(
    barrier: Barrier, part: int, *, store: BackfillStore, engine: Engine, clock: Clock = utc_now
) -> EpochCommit | None:
    """
    Read one part of the chunk of an epoch that several runs share; the one that reports last commits the epoch.

    :param part: index of the part in the barrier.
    :returns: the epoch's commit, if this was the last part, or somebody committed it.
    :raises EpochFailedError: if the changes were not applied yet.
    :raises BackfillError: as :func:`run_barrier`.
    """
    if not 0 <= part < len(barrier.parts):
        raise StateError(f"epoch {barrier.epoch} has {len(barrier.parts)} parts, so there is no part {part}")

    def read(run: _EpochRun) -> EpochCommit | None:
        reported = run.reported()
        if part in reported:
            return run.commit_if_reported()
        if None not in reported:
            raise EpochFailedError(
                f"the changes of epoch {barrier.epoch} of job {barrier.job} are not applied yet; run that step first"
            )
        return run.report(part, engine.read_part(run.settings, barrier, part, since=run.since))

    return _uncommitted(barrier, read, store=store, engine=engine, clock=clock)


@dataclass(frozen=True, slots=True, kw_only=True)
class _EpochRun:
    """
    An attempt of an epoch that nobody committed yet.

    :param since: the versions that the previous epoch left the tables at, ``None`` if none of the incarnation wrote.
    """

    barrier: Barrier
    settings: JobSettings
    since: TableVersions | None
    store: BackfillStore
    engine: Engine
    clock: Clock

    def reported(self) -> dict[int | None, EpochReport]:
        """Return what runs that share the epoch reported, by the part that each did."""
        return {found.part: found for found in self.store.reports(self.barrier)}

    def report(self, part: int | None, writes: PartWrites) -> EpochCommit | None:
        """Record what a run did, and commit the epoch if it is the last one to report."""
        reached(CrashPoint.BEFORE_REPORT)
        self.store.record_report(self.barrier, _reported(self.barrier, part, writes, self.clock()))
        reached(CrashPoint.AFTER_REPORT)
        return self.commit_if_reported()

    def commit_if_reported(self) -> EpochCommit | None:
        """Commit the epoch if all runs that share it reported."""
        reports = self.reported()
        if set(reports) != {None, *range(len(self.barrier.parts))}:
            # Others may have committed the epoch whole, without reports.
            return self.store.commit_of(self.barrier.epoch)
        return self.commit(_together(list(reports.values())))

    def commit(self, writes: EpochWrites) -> EpochCommit:
        """Commit state and log, both derived from the pinned barrier and the view's commits alone."""
        barrier, settings, store = self.barrier, self.settings, self.store
        started = time.monotonic()
        # The next epoch looks at what is written behind these versions, so nothing may be written unseen up to here.
        tables = self.engine.table_versions(settings, barrier, since=self.since)
        present = self.engine.account(settings, barrier, self._rows_present(writes))
        reached(CrashPoint.BEFORE_STATE_COMMIT)
        _require_current(barrier, store.settings(), store)
        state, scan = store.state(), settings.scan
        if state.epoch < barrier.epoch:
            ranges = barrier.chunk(scan.order)
            state = scan.advanced(state, epoch=barrier.epoch, ranges=ranges, rows=writes.snapshot_rows)
            store.write_state(state, settings)
        reached(CrashPoint.AFTER_STATE_COMMIT)
        if state.completed:
            self.engine.mark_finished(settings, barrier)
        else:
            # An attempt of an earlier incarnation that slept may have marked this one's table.
            self.engine.take_back_finished(settings, barrier)
        reached(CrashPoint.BEFORE_LOG_COMMIT)
        commit = EpochCommit(
            epoch=barrier.epoch,
            incarnation=barrier.incarnation,
            digest=barrier.digest,
            snapshot_read_row_count=sum(writes.snapshot_rows.values()),
            upstream_output_row_count=writes.change_rows,
            rows_read=scan.rows_read(state),
            state_epoch=state.epoch,
            completed=state.completed,
            **left_behind(tables.model_copy(update={"rows_present": present})),
            watermark=barrier.upstream.watermark,
            seconds={**writes.seconds, "commit": time.monotonic() - started},
            committed_at=self.clock(),
        )
        return store.record_commit(barrier, commit)

    def _rows_present(self, writes: EpochWrites) -> int | None:
        chunk = sum(writes.snapshot_rows.values())
        return self.barrier.rows_present(self.since, chunk=chunk, added=writes.rows_added)


def _uncommitted(
    barrier: Barrier, step: Callable[[_EpochRun], Step], *, store: BackfillStore, engine: Engine, clock: Clock
) -> Step | EpochCommit:
    """Take a step of an epoch unless it is committed."""
    with engine.exclusive(store.settings()):
        committed = store.commit_of(barrier.epoch)
        if committed is not None:
            return committed
        settings = store.settings()
        _require_current(barrier, settings, store)
        previous = store.commit_of(barrier.prev_epoch)
        continues = previous is not None and previous.incarnation == settings.incarnation
        since = previous.tables if previous and continues else None
        if since is None:
            engine.ensure_tables(settings, store.earlier_incarnations(settings))
        try:
            return step(
                _EpochRun(barrier=barrier, settings=settings, since=since, store=store, engine=engine, clock=clock)
            )
        except BackfillError:
            # Another attempt may have committed this epoch and later ones, which is what this one ran into.
            committed = store.commit_of(barrier.epoch)
            if committed is None:
                raise
            return committed


def _reported(barrier: Barrier, part: int | None, writes: PartWrites, now: dt.datetime) -> EpochReport:
    return EpochReport(
        epoch=barrier.epoch,
        incarnation=barrier.incarnation,
        digest=barrier.digest,
        part=part,
        rows=dict(writes.rows),
        rows_added=writes.rows_added,
        seconds=writes.seconds,
        reported_at=now,
    )


def _together(reports: Sequence[EpochReport]) -> EpochWrites:
    """Return what all runs of an epoch did; of those side by side, the slowest one's seconds."""
    rows: dict[int, int] = {}
    seconds: dict[str, float] = {}
    for report in reports:
        for phase, spent in report.seconds.items():
            seconds[phase] = max(seconds.get(phase, 0.0), spent)
        if report.part is not None:
            for vnode, count in report.rows.items():
                rows[vnode] = rows.get(vnode, 0) + count
    changes = next(report for report in reports if report.part is None)
    return EpochWrites(rows, sum(changes.rows.values()), seconds, changes.rows_added)


def _require_current(barrier: Barrier, settings: JobSettings, store: BackfillStore) -> None:
    if barrier.incarnation != settings.incarnation:
        raise StateError(
            f"epoch {barrier.epoch} belongs to an earlier incarnation of job {settings.job['name']}, which was "
            "rebuilt meanwhile; inject a new barrier"
        )
    if barrier.definition != settings.definition_digest:
        raise StateError(
            f"epoch {barrier.epoch} was pinned for another definition of job {settings.job['name']}; rebuild the job"
        )
    if store.state().epoch > barrier.epoch:
        raise StateError(
            f"the state of job {settings.job['name']} is of epoch {store.state().epoch}, but epoch {barrier.epoch} "
            "is not committed; the control tables were changed by something else: rebuild the job"
        )
