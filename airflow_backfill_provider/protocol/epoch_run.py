"""
An attempt of an epoch: run it, record its report, and commit the epoch.

State and log follow from the pinned barrier and the engine's counts, which are the same for every attempt.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_backfill_provider.core.clock import Clock
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint, reached
from airflow_backfill_provider.core.epoch.engine import Engine, EpochWrites, PartWrites
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit, EpochReport
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.epoch.spark_load import load_of_all
from airflow_backfill_provider.core.epoch.stages import StageKind, stage_of
from airflow_backfill_provider.core.epoch.unit_work import UnitWork
from airflow_backfill_provider.core.errors import StateError
from airflow_backfill_provider.core.scan.progress import BackfillState
from airflow_backfill_provider.core.scan.scan import rows_read
from airflow_backfill_provider.core.scan.table_version import TableVersions, commit_fields
from airflow_backfill_provider.jobs.strategy_tables import clean_up_after_cancelling
from airflow_backfill_provider.lake.store.one_listing import one_listing
from airflow_backfill_provider.state.store import BackfillStore


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRun:
    """
    An attempt of an epoch that is not committed yet.

    :param since: the tables' versions after the previous epoch; ``None`` if the incarnation has no earlier epoch.
    :param by: who runs it.
    :param prepared: seconds that it took to write the rows that the view begins with, if it begins with any.
    """

    barrier: Barrier
    settings: JobSettings
    since: TableVersions | None
    store: BackfillStore
    engine: Engine
    clock: Clock
    by: str
    prepared: Mapping[str, float] = field(default_factory=dict)

    def reported(self) -> dict[int | None, EpochReport]:
        """Return the reports of the task runs that share the epoch, by part; ``None`` is the part of the changes."""
        return {found.part: found for found in self.store.reports(self.barrier)}

    def report(self, part: int | None, writes: PartWrites) -> EpochCommit | None:
        """Record a report, and commit the epoch if it is the last one."""
        self.record(part, writes)
        return self.commit_if_reported()

    def record(self, part: int | None, writes: PartWrites) -> None:
        """Record a report."""
        reached(CrashPoint.BEFORE_REPORT)
        self.store.record_report(self.barrier, reported_by(self.barrier, part, writes, self.clock()))
        reached(CrashPoint.AFTER_REPORT)

    def commit_if_reported(self) -> EpochCommit | None:
        """Commit the epoch if all parts are reported."""
        reports = self.reported()
        if set(reports) != {None, *range(len(self.barrier.parts))}:
            # Another process may have committed the whole epoch without reports.
            return self.store.commit_of(self.barrier.epoch)
        return self.commit(merge_reports(list(reports.values())))

    def commit(self, writes: EpochWrites) -> EpochCommit:
        """Commit state and log; both follow from the pinned barrier and the view's commits."""
        seconds = {**self.prepared, **writes.seconds}
        counted = self.rows_present(self.barrier, writes)
        with stage_of(StageKind.ACCOUNT).entered(seconds):
            present = self.engine.account(self.settings, self.barrier, counted)
        read = _with_found(writes, counted=counted, present=present)
        state, tables = self.commit_state(self.barrier, read, seconds)
        tables = tables.model_copy(update={"rows_present": present})
        work = _with_rows_read(writes.work, present)
        commit = self.committed(self.barrier, state, tables, replace(writes, seconds=seconds, work=work))
        with stage_of(StageKind.COMMIT_LOG).entered(seconds):
            recorded = self.store.record_commit(self.barrier, commit)
        clean_up_after_cancelling(self.store)
        return recorded

    def commit_state(
        self, done: Barrier, writes: EpochWrites, seconds: dict[str, float]
    ) -> tuple[BackfillState, TableVersions]:
        """
        Commit the state, and mark the view's table as finished or not.

        :param done: the barrier; for an epoch that was given up, the part of it that was done.
        :param seconds: the mapping to which the durations are added.
        :returns: the state, and the tables' versions after the epoch.
        """
        barrier, settings = self.barrier, self.settings
        with one_listing():
            # The next epoch checks the commits after these versions, so all commits up to them must be checked here.
            tables = self.engine.table_versions(settings, barrier, since=self.since)
            state = self._advanced(done, writes, seconds)
            with stage_of(StageKind.PUBLISH).entered(seconds):
                if state.completed:
                    # A delayed attempt of a withheld epoch must not take back the mark of one after the approval.
                    if not barrier.withheld:
                        self.engine.mark_finished(settings, barrier)
                else:
                    # A delayed attempt of an earlier incarnation may have marked this incarnation's table.
                    self.engine.unmark_finished(settings, barrier)
        return state, tables

    def _advanced(self, done: Barrier, writes: EpochWrites, seconds: dict[str, float]) -> BackfillState:
        """Commit the state, unless an earlier attempt did; return it."""
        barrier, settings, store = self.barrier, self.settings, self.store
        with stage_of(StageKind.COMMIT_STATE).entered(seconds):
            current = store.settings_for(barrier)
            require_current(barrier, current, store)
            state, scan = store.state_of(current), settings.scan
            if state.epoch < barrier.epoch:
                ranges = done.chunk(scan.order)
                state = scan.advanced(state, epoch=barrier.epoch, ranges=ranges, rows=writes.snapshot_rows)
                store.write_state(state, settings)
        return state

    def rows_present(self, done: Barrier, writes: EpochWrites) -> int | None:
        """Return the number of read rows that still exist after what was done of the epoch."""
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
            withheld=done.withheld,
            **commit_fields(tables),
            watermark=done.upstream.watermark,
            seconds=writes.seconds,
            load=writes.load,
            work=writes.work,
            committed_at=self.clock(),
            given_up=done.given_up is not None,
        )


def _with_found(writes: EpochWrites, *, counted: int | None, present: int | None) -> EpochWrites:
    """
    Return an epoch's writes, with the rows that no chunk has read among those of its chunk.

    Only a repair of everything finds such rows: it reads all rows, and their number takes the place of earlier counts.

    :param counted: the rows present by the epochs' own counts.
    :param present: the rows present.
    """
    if counted is None or present is None or present <= counted:
        return writes
    rows = dict(writes.snapshot_rows)
    rows[0] = rows.get(0, 0) + present - counted
    return replace(writes, snapshot_rows=rows)


def _with_rows_read(work: UnitWork | None, present: int | None) -> UnitWork | None:
    """Return what an epoch did; if it does not say what it read again, that was all rows of the upstream."""
    if work is None or work.rows_read is not None:
        return work
    return work.model_copy(update={"rows_read": present})


def reported_by(barrier: Barrier, part: int | None, writes: PartWrites, now: dt.datetime) -> EpochReport:
    """Return the report of a part."""
    return EpochReport(
        epoch=barrier.epoch,
        incarnation=barrier.incarnation,
        digest=barrier.digest,
        part=part,
        rows=dict(writes.rows),
        rows_added=writes.rows_added,
        seconds=writes.seconds,
        load=writes.load,
        reported_at=now,
    )


def merge_reports(reports: Sequence[EpochReport]) -> EpochWrites:
    """Return the sum of an epoch's reports; for parallel parts, the seconds of the slowest and their load together."""
    rows: dict[int, int] = {}
    seconds: dict[str, float] = {}
    for report in reports:
        for stage, spent in report.seconds.items():
            seconds[stage] = max(seconds.get(stage, 0.0), spent)
        if report.part is not None:
            for vnode, count in report.rows.items():
                rows[vnode] = rows.get(vnode, 0) + count
    changes = next(report for report in reports if report.part is None)
    load = load_of_all([report.load for report in reports if report.part is not None] or [changes.load])
    return EpochWrites(rows, sum(changes.rows.values()), seconds, changes.rows_added, load)


def require_current(barrier: Barrier, settings: JobSettings, store: BackfillStore) -> None:
    """
    Refuse a barrier of an earlier incarnation or another definition, or one older than the state.

    :raises StateError: saying which.
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
    state = store.state_of(settings)
    if state.epoch > barrier.epoch:
        raise StateError(
            f"the state of job {settings.job['name']} is of epoch {state.epoch}, but epoch {barrier.epoch} "
            "is not committed; the control tables were changed by something else: rebuild the job"
        )
