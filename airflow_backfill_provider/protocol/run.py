"""
Running a pinned barrier, whole or by several runs, and committing its epoch.

State and log are derived from the pinned barrier and from what the engine counted, which is the same for every attempt.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from airflow_backfill_provider.core.barrier import Barrier, EpochCommit, EpochReport
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

    def execute(settings: JobSettings, view_version: int | None) -> EpochCommit:
        writes = engine.execute(settings, barrier, view_version=view_version)
        return _commit(barrier, settings, writes, view_version, store=store, engine=engine, clock=clock)

    return _uncommitted(barrier, execute, store=store, engine=engine)


def run_changes(
    barrier: Barrier, *, store: BackfillStore, engine: Engine, clock: Clock = utc_now
) -> EpochCommit | None:
    """
    Apply the changes of an epoch that several runs share; the first step of it.

    :returns: the epoch's commit, if nothing else is left to do for it, or somebody did it.
    :raises BackfillError: as :func:`run_barrier`.
    """

    def apply(settings: JobSettings, view_version: int | None) -> EpochCommit | None:
        if None in {report.part for report in store.reports(barrier)}:
            return _commit_if_reported(barrier, settings, view_version, store=store, engine=engine, clock=clock)
        writes = engine.apply_changes(settings, barrier, view_version=view_version)
        return _report(barrier, settings, None, writes, view_version, store=store, engine=engine, clock=clock)

    return _uncommitted(barrier, apply, store=store, engine=engine)


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

    def read(settings: JobSettings, view_version: int | None) -> EpochCommit | None:
        reported = {report.part for report in store.reports(barrier)}
        if part in reported:
            return _commit_if_reported(barrier, settings, view_version, store=store, engine=engine, clock=clock)
        if None not in reported:
            raise EpochFailedError(
                f"the changes of epoch {barrier.epoch} of job {barrier.job} are not applied yet; run that step first"
            )
        writes = engine.read_part(settings, barrier, part, view_version=view_version)
        return _report(barrier, settings, part, writes, view_version, store=store, engine=engine, clock=clock)

    return _uncommitted(barrier, read, store=store, engine=engine)


def _uncommitted(
    barrier: Barrier,
    step: Callable[[JobSettings, int | None], Step],
    *,
    store: BackfillStore,
    engine: Engine,
) -> Step | EpochCommit:
    """Take a step of an epoch unless it is committed, with the settings and the view's version that it starts from."""
    settings = store.settings()
    with engine.exclusive(settings):
        committed = store.commit_of(barrier.epoch)
        if committed is not None:
            return committed
        settings = store.settings()
        _require_current(barrier, settings, store)
        previous = store.commit_of(barrier.prev_epoch)
        continues = previous is not None and previous.incarnation == settings.incarnation
        view_version = previous.view_version if previous and continues else None
        if view_version is None:
            engine.ensure_tables(settings, store.earlier_incarnations(settings))
        try:
            return step(settings, view_version)
        except BackfillError:
            # Another attempt may have committed this epoch and later ones, which is what this one ran into.
            committed = store.commit_of(barrier.epoch)
            if committed is None:
                raise
            return committed


def _report(
    barrier: Barrier,
    settings: JobSettings,
    part: int | None,
    writes: PartWrites,
    view_version: int | None,
    *,
    store: BackfillStore,
    engine: Engine,
    clock: Clock,
) -> EpochCommit | None:
    """Record what a run did, and commit the epoch if it is the last one to report."""
    reached(CrashPoint.BEFORE_REPORT)
    store.record_report(barrier, _reported(barrier, part, writes, clock()))
    reached(CrashPoint.AFTER_REPORT)
    return _commit_if_reported(barrier, settings, view_version, store=store, engine=engine, clock=clock)


def _reported(barrier: Barrier, part: int | None, writes: PartWrites, now: dt.datetime) -> EpochReport:
    return EpochReport(
        epoch=barrier.epoch,
        incarnation=barrier.incarnation,
        digest=barrier.digest,
        part=part,
        rows=dict(writes.rows),
        seconds=writes.seconds,
        reported_at=now,
    )


def _commit_if_reported(
    barrier: Barrier,
    settings: JobSettings,
    view_version: int | None,
    *,
    store: BackfillStore,
    engine: Engine,
    clock: Clock,
) -> EpochCommit | None:
    reports = {found.part: found for found in store.reports(barrier)}
    if set(reports) != {None, *range(len(barrier.parts))}:
        # Others may have committed the epoch whole, without reports.
        return store.commit_of(barrier.epoch)
    writes = _together(list(reports.values()))
    return _commit(barrier, settings, writes, view_version, store=store, engine=engine, clock=clock)


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
    return EpochWrites(rows, sum(changes.rows.values()), seconds)


def _commit(
    barrier: Barrier,
    settings: JobSettings,
    writes: EpochWrites,
    view_version: int | None,
    *,
    store: BackfillStore,
    engine: Engine,
    clock: Clock,
) -> EpochCommit:
    """Commit state and log, both derived from the pinned barrier and the view's commits alone."""
    started = time.monotonic()
    # The next epoch looks at what is written behind this version, so nothing may be written unseen up to here.
    version = engine.view_version(settings, barrier, since=view_version)
    reached(CrashPoint.BEFORE_STATE_COMMIT)
    _require_current(barrier, store.settings(), store)
    state, scan = store.state(), settings.scan
    if state.epoch < barrier.epoch:
        state = scan.advanced(state, epoch=barrier.epoch, ranges=barrier.chunk(scan.order), rows=writes.snapshot_rows)
        store.write_state(state, settings)
    reached(CrashPoint.AFTER_STATE_COMMIT)
    # What a repair rights may have been restored to a version before its end.
    if state.completed and (settings.finished_epoch is None or barrier.repair):
        engine.mark_finished(settings, barrier)
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
        view_version=version,
        watermark=barrier.upstream.watermark,
        seconds={**writes.seconds, "commit": time.monotonic() - started},
        committed_at=clock(),
    )
    return store.record_commit(barrier, commit)


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
