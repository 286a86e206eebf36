"""
A job's control tables together: what was asked for, what was pinned, what is done.

:class:`BackfillReader` only reads and is what sensors and status use; :class:`BackfillStore` adds the writes of
the epoch protocol. Every write decides on the rows that it replaces (see
:mod:`~airflow_backfill_provider.state.control_table`), so none needs a lock.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from airflow_backfill_provider.core.barrier import Barrier
from airflow_backfill_provider.core.epoch_record import EpochCommit, EpochReport, GivenUpEpoch
from airflow_backfill_provider.core.errors import StateError, StateLayoutError
from airflow_backfill_provider.core.failures import EpochFailure, is_news
from airflow_backfill_provider.core.progress import BackfillState
from airflow_backfill_provider.core.settings import JobSettings
from airflow_backfill_provider.state import records
from airflow_backfill_provider.state.reader import BackfillReader
from airflow_backfill_provider.state.table_reading import Since, Write


class BackfillStore(BackfillReader):
    """Reads and writes a job's control tables."""

    def create(self, settings: JobSettings) -> JobSettings:
        """
        Create the control tables and write the first settings, unless they are there.

        :returns: the settings in force: the given ones, or those of a creator that was faster.
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
        Return the per-vnode state, and make it exist before; a crash of its creation is repaired so.

        :param settings: the settings in force, if they were read already.
        :raises StateLayoutError: if it is gone although epochs were committed; to begin again would read rows twice.
        """
        settings = settings or self.settings()
        table = self._state_table(settings)
        rows = table.read() if table.exists() else None
        if rows:
            return self._parse_state(rows, settings)
        if self.newest_barrier(settings) is not None:
            raise StateLayoutError(
                f"{table.location} is empty or missing, but epochs of the job were pinned; restore it from a copy, or "
                "rebuild the job"
            )
        table.create()
        initial = settings.scan.initial(settings.base_epoch)

        def decide(rows: pa.Table) -> Write | None:
            if rows.num_rows:
                return None
            return Write(records.state_rows(initial, settings.incarnation, settings.key_order), "overwrite")

        table.update(decide)
        return self.state_of(settings)

    def change_settings(self, change: Callable[[JobSettings], JobSettings | None]) -> JobSettings:
        """
        Write the next settings record.

        :param change: returns the next record for the one in force, or ``None`` if nothing is to change; may be
            called several times.
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

        :returns: the barrier that the log holds for the epoch: of two injectors, the first in log order wins and the
            other adopts its barrier.
        :raises StateError: if the epoch before was not pinned; somebody cut the log.
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
                    f"epoch {barrier.epoch} cannot follow epoch {newest} in {self.location}/barrier_log; the log "
                    "and the state disagree: rebuild the job"
                )
            pinned = barrier
            return Write(records.barrier_row(barrier))

        self._barrier_log.update(decide, reading=Since("epoch", barrier.prev_epoch))
        return pinned

    def write_state(self, state: BackfillState, settings: JobSettings) -> None:
        """
        Commit the progress of an epoch; a no-op if it, or a later one, is there already.

        :param settings: the settings that the epoch belongs to; the state of another incarnation is left alone.
        :raises StateError: if the state would go back (I3).
        """

        def decide(rows: pa.Table) -> Write | None:
            if rows.column("incarnation").unique().to_pylist() != [settings.incarnation]:
                return None
            committed = self._parse_state(rows, settings)
            if committed.epoch >= state.epoch:
                return None
            committed.require_successor(state, settings.key_order)
            return Write(records.state_rows(state, settings.incarnation, settings.key_order), "overwrite")

        self._state_table(settings).update(decide)

    def record_commit(self, barrier: Barrier, commit: EpochCommit) -> EpochCommit:
        """
        Write into the barrier log that an epoch is done.

        :returns: the commit that the log holds: the first one wins.
        """
        return self._record_end(commit, records.commit_row(barrier, commit))

    def record_given_up(self, given_up: GivenUpEpoch) -> EpochCommit:
        """
        Write into the barrier log that an epoch is given up, and what is left of it is done.

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

        self._barrier_log.update(decide, reading=Since("epoch", commit.epoch))
        return recorded

    def record_failure(self, barrier: Barrier, failure: EpochFailure) -> None:
        """Write into the barrier log that an attempt failed, unless that is said often enough, or the epoch is done."""

        def decide(rows: pa.Table) -> Write | None:
            earlier = [
                found
                for found in self._parse_log(rows, records.FAILED, EpochFailure)
                if (found.epoch, found.incarnation) == (failure.epoch, failure.incarnation)
            ]
            done = any(commit.epoch == failure.epoch for commit in self._commits(rows))
            return None if done or not is_news(earlier, failure) else Write(records.failure_row(barrier, failure))

        self._barrier_log.update(decide, reading=Since("epoch", failure.epoch))

    def record_report(self, barrier: Barrier, report: EpochReport) -> None:
        """Write into the barrier log what one of several runs did; a no-op if the run reported before."""

        def decide(rows: pa.Table) -> Write | None:
            if any(found.part == report.part for found in self._reports(rows, barrier.epoch)):
                return None
            return Write(records.report_row(barrier, report))

        self._barrier_log.update(decide, reading=Since("epoch", barrier.epoch))
