"""
An attempt of an epoch: what it knows, what others reported, and its commit.

State and log are derived from the pinned barrier and from what the engine counted, which is the same for every attempt.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace

from airflow_backfill_provider.core.barrier import Barrier
from airflow_backfill_provider.core.crash_points import CrashPoint, reached
from airflow_backfill_provider.core.engine import Engine, EpochWrites, PartWrites
from airflow_backfill_provider.core.epoch_record import EpochCommit, EpochReport
from airflow_backfill_provider.core.errors import StateError
from airflow_backfill_provider.core.progress import BackfillState
from airflow_backfill_provider.core.scan import rows_read
from airflow_backfill_provider.core.settings import JobSettings
from airflow_backfill_provider.core.stages import StageKind, stage_of
from airflow_backfill_provider.core.table_version import TableVersions, left_behind
from airflow_backfill_provider.protocol.clock import Clock
from airflow_backfill_provider.protocol.finish import clean_up_after_cancelling
from airflow_backfill_provider.state.store import BackfillStore


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRun:
    """
    An attempt of an epoch that nobody committed yet.

    :param since: the versions that the previous epoch left the tables at, ``None`` if none of the incarnation wrote.
    :param by: who runs it.
    """

    barrier: Barrier
    settings: JobSettings
    since: TableVersions | None
    store: BackfillStore
    engine: Engine
    clock: Clock
    by: str

    def reported(self) -> dict[int | None, EpochReport]:
        """Return what runs that share the epoch reported, by the part that each did."""
        return {found.part: found for found in self.store.reports(self.barrier)}

    def report(self, part: int | None, writes: PartWrites) -> EpochCommit | None:
        """Record what a run did, and commit the epoch if it is the last one to report."""
        self.record(part, writes)
        return self.commit_if_reported()

    def record(self, part: int | None, writes: PartWrites) -> None:
        """Record what a run did."""
        reached(CrashPoint.BEFORE_REPORT)
        self.store.record_report(self.barrier, reported_by(self.barrier, part, writes, self.clock()))
        reached(CrashPoint.AFTER_REPORT)

    def commit_if_reported(self) -> EpochCommit | None:
        """Commit the epoch if all runs that share it reported."""
        reports = self.reported()
        if set(reports) != {None, *range(len(self.barrier.parts))}:
            # Others may have committed the epoch whole, without reports.
            return self.store.commit_of(self.barrier.epoch)
        return self.commit(together(list(reports.values())))

    def commit(self, writes: EpochWrites) -> EpochCommit:
        """Commit state and log, both derived from the pinned barrier and the view's commits alone."""
        seconds = dict(writes.seconds)
        with stage_of(StageKind.ACCOUNT).taken(seconds):
            present = self.engine.account(self.settings, self.barrier, self.rows_present(self.barrier, writes))
        state, tables = self.commit_state(self.barrier, writes, seconds)
        tables = tables.model_copy(update={"rows_present": present})
        commit = self.committed(self.barrier, state, tables, replace(writes, seconds=seconds))
        with stage_of(StageKind.COMMIT_LOG).taken(seconds):
            recorded = self.store.record_commit(self.barrier, commit)
        clean_up_after_cancelling(self.store)
        return recorded

    def commit_state(
        self, done: Barrier, writes: EpochWrites, seconds: dict[str, float]
    ) -> tuple[BackfillState, TableVersions]:
        """
        Commit the state, and say on the view's table whether it is finished.

        :param done: the barrier, or what is left of it.
        :param seconds: where the time is added.
        :returns: the state, and the versions that the epoch left the tables at.
        """
        barrier, settings, store = self.barrier, self.settings, self.store
        # The next epoch looks at what is written after these versions, so nothing may be written unseen up to here.
        tables = self.engine.table_versions(settings, barrier, since=self.since)
        with stage_of(StageKind.COMMIT_STATE).taken(seconds):
            require_current(barrier, store.settings(), store)
            state, scan = store.state(), settings.scan
            if state.epoch < barrier.epoch:
                ranges = done.chunk(scan.order)
                state = scan.advanced(state, epoch=barrier.epoch, ranges=ranges, rows=writes.snapshot_rows)
                store.write_state(state, settings)
        with stage_of(StageKind.PUBLISH).taken(seconds):
            if state.completed:
                self.engine.mark_finished(settings, barrier)
            else:
                # An attempt of an earlier incarnation that slept may have marked this one's table.
                self.engine.take_back_finished(settings, barrier)
        return state, tables

    def rows_present(self, done: Barrier, writes: EpochWrites) -> int | None:
        """Return how many rows were read, and are there, after what was done of the epoch."""
        return done.rows_present(self.since, chunk=sum(writes.snapshot_rows.values()), added=writes.rows_added)

    def committed(self, done: Barrier, state: BackfillState, tables: TableVersions, writes: EpochWrites) -> EpochCommit:
        """Return the record of the epoch; see :meth:`commit_state`."""
        return EpochCommit(
            epoch=done.epoch,
            incarnation=done.incarnation,
            digest=done.digest,
            snapshot_read_row_count=sum(writes.snapshot_rows.values()),
            upstream_output_row_count=writes.change_rows,
            rows_read=rows_read(self.settings.scan, state),
            state_epoch=state.epoch,
            completed=state.completed,
            **left_behind(tables),
            watermark=done.upstream.watermark,
            seconds=writes.seconds,
            committed_at=self.clock(),
            given_up=done.given_up is not None,
        )


def reported_by(barrier: Barrier, part: int | None, writes: PartWrites, now: dt.datetime) -> EpochReport:
    """Return the record of what a run did."""
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


def together(reports: Sequence[EpochReport]) -> EpochWrites:
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


def require_current(barrier: Barrier, settings: JobSettings, store: BackfillStore) -> None:
    """
    Refuse a barrier of an earlier incarnation or another definition, or one that the state is ahead of.

    :raises StateError: saying which it is.
    """
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
