"""
Reads and writes all control tables of a job.

:class:`.BackfillReader` only reads; sensors and status use it. :class:`BackfillStore` adds the writes of the epoch
protocol. Each write is a compare-and-swap (see :mod:`~airflow_backfill_provider.state.control_table`), so no lock is
needed.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit, EpochReport, GivenUpEpoch
from airflow_backfill_provider.core.epoch.failures import EpochFailure, is_worth_recording
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import StateError, StateLayoutError
from airflow_backfill_provider.core.scan.progress import BackfillState
from airflow_backfill_provider.state import records
from airflow_backfill_provider.state.backfill_reader import BackfillReader
from airflow_backfill_provider.state.conditions import AtLeast
from airflow_backfill_provider.state.control_table import Write
from airflow_backfill_provider.state.recovery import what_to_do


class BackfillStore(BackfillReader):
    """Reads and writes a job's control tables."""

    def create(self, settings: JobSettings) -> JobSettings:
        """
        Create the control tables and write the first settings, unless they exist.

        :returns: the settings in force: the given ones, or those of another creator that was faster.
        """
        for table in (self._settings, self._barrier_log):
            table.create()

        def decide(rows: pa.Table) -> Write | None:
            return None if rows.num_rows else Write(records.settings_row(settings))

        self._settings.update(decide)
        self.repair_state()
        return self.settings()

    def repair_state(self, settings: JobSettings | None = None) -> BackfillState:
        """
        Return the per-vnode state, and create it if a crash interrupted its creation.

        :param settings: the settings in force, if they were read already.
        :raises StateLayoutError: if it is missing although epochs were pinned; a new state would read rows twice.
        """
        settings = settings or self.settings()
        table = self._state_table(settings)
        rows = table.read_if_there()
        if rows:
            return self._parse_state(rows, settings)
        if self.newest_barrier(settings) is not None:
            raise StateLayoutError(
                f"control table {table.location} is empty or missing, but epochs of the job were pinned; "
                f"{what_to_do(table.location)}"
            )
        self.begin_state(settings, settings.initial_state)
        return self.state_of(settings)

    def begin_state(self, settings: JobSettings, state: BackfillState) -> None:
        """
        Write the state that an incarnation begins with, unless it has one.

        :param settings: the incarnation's settings; they need not be in force yet.
        """
        table = self._state_table(settings)
        table.create()

        def decide(rows: pa.Table) -> Write | None:
            if rows.num_rows:
                return None
            return Write(records.state_rows(state, settings.incarnation, settings.position_order), "overwrite")

        table.update(decide)

    def change_settings(self, change: Callable[[JobSettings], JobSettings | None]) -> JobSettings:
        """
        Write the next settings record.

        :param change: gets the record in force and returns the next one, or ``None`` for no change; may be called
            several times.
        :returns: the settings in force afterwards.
        """
        self.settings()

        def decide(rows: pa.Table) -> Write | None:
            changed = change(self._parse_settings(rows)[-1])
            return None if changed is None else Write(records.settings_row(changed))

        self._settings.update(decide)
        return self.settings()

    def pin(self, barrier: Barrier) -> Barrier:
        """
        Pin a barrier, unless its epoch is pinned already.

        :returns: the barrier that is pinned for the epoch: of two injectors, the first in log order wins, and the other
            adopts its barrier.
        :raises StateError: if the previous epoch is not the newest in the log, because rows of the log were removed.
        """
        pinned = barrier

        def decide(rows: pa.Table) -> Write | None:
            nonlocal pinned
            known = {found.epoch: found for found in self._barriers(rows)}
            if barrier.epoch in known:
                pinned = known[barrier.epoch]
                return None
            newest = max(known, default=0)
            if newest != barrier.prev_epoch:
                raise StateError(
                    f"epoch {barrier.epoch} cannot follow epoch {newest} in {self.location}/barrier_log, so log and "
                    "state disagree; rebuild the job"
                )
            pinned = barrier
            return Write(records.barrier_row(barrier))

        self._barrier_log.update(decide, reading=AtLeast("epoch", barrier.prev_epoch))
        return pinned

    def write_state(self, state: BackfillState, settings: JobSettings) -> None:
        """
        Commit the progress of an epoch; a no-op if this epoch or a later one is committed.

        :param settings: the epoch's settings; the state of another incarnation is not changed.
        :raises StateError: if the state would go back (I3).
        """

        def decide(rows: pa.Table) -> Write | None:
            if rows.column("incarnation").unique().to_pylist() != [settings.incarnation]:
                return None
            committed = self._parse_state(rows, settings)
            if committed.epoch >= state.epoch:
                return None
            committed.require_successor(state, settings.position_order)
            return Write(records.state_rows(state, settings.incarnation, settings.position_order), "overwrite")

        self._state_table(settings).update(decide)

    def record_commit(self, barrier: Barrier, commit: EpochCommit) -> EpochCommit:
        """
        Write an epoch's commit to the barrier log.

        :returns: the commit in the log: the first one wins.
        """
        return self._record_end(commit, records.commit_row(barrier, commit))

    def record_given_up(self, given_up: GivenUpEpoch) -> EpochCommit:
        """
        Write to the barrier log that an epoch is given up.

        :returns: as :meth:`record_commit`.
        """
        return self._record_end(given_up.commit, records.given_up_row(given_up))

    def _record_end(self, commit: EpochCommit, row: pa.Table) -> EpochCommit:
        recorded = commit

        def decide(rows: pa.Table) -> Write | None:
            nonlocal recorded
            earlier = [found for found in self._commits(rows) if found.epoch == commit.epoch]
            recorded = earlier[0] if earlier else commit
            return None if earlier else Write(row)

        self._barrier_log.update(decide, reading=AtLeast("epoch", commit.epoch))
        return recorded

    def record_failure(self, barrier: Barrier, failure: EpochFailure) -> None:
        """Write a failed attempt to the barrier log, unless it is a repetition or the epoch is committed."""

        def decide(rows: pa.Table) -> Write | None:
            earlier = [
                found
                for found in self._parse_log(rows, records.FAILED, EpochFailure)
                if (found.epoch, found.incarnation) == (failure.epoch, failure.incarnation)
            ]
            done = any(commit.epoch == failure.epoch for commit in self._commits(rows))
            return (
                None
                if done or not is_worth_recording(earlier, failure)
                else Write(records.failure_row(barrier, failure))
            )

        self._barrier_log.update(decide, reading=AtLeast("epoch", failure.epoch))

    def record_report(self, barrier: Barrier, report: EpochReport) -> None:
        """Write a part's report to the barrier log; a no-op if the part is already reported."""

        def decide(rows: pa.Table) -> Write | None:
            if any(found.part == report.part for found in self._reports(rows, barrier.epoch)):
                return None
            return Write(records.report_row(barrier, report))

        self._barrier_log.update(decide, reading=AtLeast("epoch", barrier.epoch))
