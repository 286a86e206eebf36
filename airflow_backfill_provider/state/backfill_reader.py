"""Reads all control tables of a job: what is requested, what is pinned, and what is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile, zip_longest

import pyarrow as pa
import pyarrow.compute as pc

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.changed_query import is_changed, settings_for
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit, EpochReport, GivenUpEpoch
from airflow_backfill_provider.core.epoch.failures import EpochFailure
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.epoch.task_run_epochs import TaskRunEpochs
from airflow_backfill_provider.core.errors import JobNotCreatedError, StateError, StateLayoutError
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.scan.keys import KeyOrder
from airflow_backfill_provider.core.scan.progress import BackfillState
from airflow_backfill_provider.lake.files.rows import text_literal
from airflow_backfill_provider.state import records
from airflow_backfill_provider.state.announcements import Announcements
from airflow_backfill_provider.state.applications import ApplicationRecords
from airflow_backfill_provider.state.control_table import ControlTable
from airflow_backfill_provider.state.differences import Differences
from airflow_backfill_provider.state.recovery import what_to_do
from airflow_backfill_provider.state.verifications import Verifications


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """
    The end of a job's barrier log at one moment.

    :param last_epoch: the newest epoch of all incarnations, 0 before the first.
    :param barrier: the barrier of this epoch.
    :param commit: the commit of this epoch, if there is one.
    """

    last_epoch: int
    barrier: Barrier | None = None
    commit: EpochCommit | None = None


@dataclass(frozen=True, slots=True)
class _ParsedState:
    """A parsed state, and the rows that it was parsed from."""

    rows: pa.Table
    incarnation: str
    state: BackfillState


class BackfillReader:
    """
    Reads a job's control tables, in milliseconds.

    :param location: folder of the control tables, ``BackfillJob.state``.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    def __init__(self, location: str, storage_options: Mapping[str, str] | None = None) -> None:
        self.location = location
        self.storage_options = dict(storage_options or {})
        self.verifications = Verifications(location, storage_options)
        """The job's verifications."""
        self.differences = Differences(location, storage_options)
        """The differences that were computed before a cut-over."""
        self._settings = self._table("settings", records.SETTINGS_SCHEMA)
        self._barrier_log = self._table("barrier_log", records.BARRIER_LOG_SCHEMA)
        self._state_tables: dict[tuple[str, KeyOrder], ControlTable] = {}
        self._parsed: _ParsedState | None = None

    @property
    def watched_tables(self) -> tuple[str, ...]:
        """Locations of the settings, the barrier log and the verifications; a job's news are commits of these."""
        return self._settings.location, self._barrier_log.location, self.verifications.table.location

    @property
    def applications(self) -> ApplicationRecords:
        """The records of the job's applications."""
        return ApplicationRecords(self.location, self.storage_options)

    @property
    def announcements(self) -> Announcements:
        """The records of what DAGs have announced of the job."""
        return Announcements(self.location, self.storage_options)

    def created(self) -> bool:
        """Return whether the job has settings."""
        return bool(self._settings.read_if_there())

    def settings(self) -> JobSettings:
        """
        Return the settings in force.

        :raises JobNotCreatedError: if there are none.
        """
        return self.settings_history()[-1]

    def settings_history(self) -> list[JobSettings]:
        """
        Return every settings record, oldest first.

        :raises JobNotCreatedError: if there are none.
        """
        rows = self._settings.read_if_there()
        if not rows:
            raise JobNotCreatedError(f"no job was created at {self.location}; create it first")
        return self._parse_settings(rows)

    def settings_for(self, barrier: Barrier) -> JobSettings:
        """Return the settings in force, with the definition that a barrier was pinned with."""
        return settings_for(self.settings_history(), barrier)

    def settings_of_view(self) -> JobSettings:
        """Return the settings in force, with the definition that the view has, or has once its epoch is committed."""
        history = self.settings_history()
        barrier = self.newest_barrier(history[-1]) if is_changed(history) else None
        return history[-1] if barrier is None else settings_for(history, barrier)

    def require_settings_of(self, barrier: Barrier, settings: JobSettings) -> None:
        """
        Refuse settings that are older than those of a barrier, because later changes would be lost.

        The loss of a record that no barrier was pinned with cannot be detected.

        :raises StateError: naming both records.
        """
        if settings.sequence < barrier.settings_sequence:
            raise StateError(
                f"the settings in {self.location} end with record {settings.sequence}, but epoch {barrier.epoch} was "
                f"pinned with record {barrier.settings_sequence}, so they were restored or changed; rebuild the job"
            )

    def incarnations(self) -> frozenset[str]:
        """Return all incarnations of the job; none before it is created."""
        return frozenset(record.incarnation for record in self.settings_history()) if self.created() else frozenset()

    def earlier_incarnations(self, settings: JobSettings) -> dict[str, int]:
        """Return the incarnations before the settings' one, each with its highest parallelism."""
        most: dict[str, int] = {}
        # Later incarnations are excluded: a process with old settings must not mistake the new view for an old one.
        for record in takewhile(lambda record: record.incarnation != settings.incarnation, self.settings_history()):
            most[record.incarnation] = max(most.get(record.incarnation, 1), record.parallelism)
        return most

    def state(self) -> BackfillState:
        """Return the committed progress of every vnode, checked against the job's settings."""
        return self.state_of(self.settings())

    def state_of(self, settings: JobSettings) -> BackfillState:
        """Return the committed progress of every vnode, for settings that were read already."""
        return self._parse_state(self._state_table(settings).read(), settings)

    def barriers(self, *, since_epoch: int = 0) -> list[Barrier]:
        """Return the barriers from an epoch on, ascending."""
        return self._consecutive(self._log_rows(since_epoch), max(since_epoch, 1))

    def commits(self, *, since_epoch: int = 0) -> list[EpochCommit]:
        """Return the commits from an epoch on, ascending."""
        return self._commits(self._log_rows(since_epoch))

    def pinned(self, epoch: int) -> Barrier:
        """
        Return the barrier of an epoch.

        :raises StateError: if no such epoch is pinned.
        """
        barrier = next((found for found in self.barriers(since_epoch=epoch) if found.epoch == epoch), None)
        if barrier is None:
            raise StateError(f"epoch {epoch} is not pinned in {self.location}; inject its barrier first")
        return barrier

    def commit_of(self, epoch: int) -> EpochCommit | None:
        """Return the commit of an epoch, ``None`` if it is not committed."""
        return next((commit for commit in self.commits(since_epoch=epoch) if commit.epoch == epoch), None)

    def reports(self, barrier: Barrier) -> list[EpochReport]:
        """Return the reports so far of the task runs that share a barrier's epoch."""
        return self._reports(self._barrier_log.read_since("epoch", barrier.epoch), barrier.epoch)

    def failures(self, *, since_epoch: int = 0) -> list[EpochFailure]:
        """Return the recorded failures from an epoch on, in order of epoch and time."""
        failures = self._parse_log(self._log_rows(since_epoch), records.FAILED, EpochFailure)
        return sorted(failures, key=lambda failure: (failure.epoch, failure.at))

    def log(self, *, since_epoch: int = 0, before_epoch: int | None = None) -> tuple[list[Barrier], list[EpochCommit]]:
        """Return barriers and commits from an epoch on, and before another one, with one read."""
        rows = self._log_rows(since_epoch, before_epoch)
        return self._consecutive(rows, max(since_epoch, 1)), self._commits(rows)

    def last_epoch(self) -> int:
        """Return the newest epoch of all incarnations, 0 before the first."""
        return self._barrier_log.greatest("epoch")

    def newest_barrier(self, settings: JobSettings) -> Barrier | None:
        """Return the newest barrier of the settings' incarnation."""
        return self._newest_up_to(self.last_epoch(), settings)

    def barrier_before(self, barrier: Barrier, settings: JobSettings) -> Barrier | None:
        """Return the previous barrier in the settings' incarnation; ``None`` for the first one."""
        return self._newest_up_to(barrier.epoch - 1, settings)

    def _newest_up_to(self, newest: int, settings: JobSettings) -> Barrier | None:
        reach = 1
        while newest > settings.base_epoch:
            since = max(newest - reach, settings.base_epoch) + 1
            ours = [
                found
                for found in self.barriers(since_epoch=since)
                if found.incarnation == settings.incarnation and found.epoch <= newest
            ]
            if ours or since == settings.base_epoch + 1:
                return ours[-1] if ours else None
            # A delayed injector of an earlier incarnation pinned the newest barriers.
            reach *= 8
        return None

    def log_end(self) -> LogEnd:
        """
        Return the end of the log.

        :raises JobNotCreatedError: if there is no job.
        """
        try:
            last_epoch, rows = self._barrier_log.read_last("epoch", 1)
        except StateLayoutError:
            # If the job was never created, this raises a clearer error.
            self.settings()
            raise
        return LogEnd(
            last_epoch=last_epoch,
            barrier=next(iter(self._consecutive(rows, last_epoch)), None),
            commit=next(iter(self._commits(rows)), None),
        )

    def epochs_of(self, requester: Requester) -> TaskRunEpochs:
        """
        Return the epochs that a task run pinned, in the incarnation of its last one.

        Epochs that were given up are left out.
        """
        rows = self._barrier_log.read(f"requested_by = {text_literal(str(requester))}")
        mine = [
            barrier for barrier in self._barriers(rows) if barrier.injected_by == requester and barrier.given_up is None
        ]
        barriers = tuple(barrier for barrier in mine if barrier.incarnation == mine[-1].incarnation)
        epochs = {barrier.epoch for barrier in barriers}
        commits = tuple(commit for commit in self._commits(rows) if commit.epoch in epochs)
        return TaskRunEpochs(barriers=barriers, commits=commits)

    def _table(self, name: str, schema: pa.Schema) -> ControlTable:
        return ControlTable(f"{self.location}/{name}", schema, self.storage_options)

    def _state_table(self, settings: JobSettings) -> ControlTable:
        # The same instance each time, because it caches what it read.
        order = settings.position_order
        known = settings.state_table, order
        if known not in self._state_tables:
            self._state_tables = {known: self._table(settings.state_table, records.state_schema(order))}
        return self._state_tables[known]

    def _parse_settings(self, rows: pa.Table) -> list[JobSettings]:
        parsed = [
            records.parse(JobSettings, record, self._settings.location) for record in rows.column("record").to_pylist()
        ]
        history = sorted(parsed, key=lambda settings: settings.sequence)
        sequences = [record.sequence for record in history]
        _require_consecutive(sequences, sequences, first=1, table=self._settings.location)
        return history

    def _parse_state(self, rows: pa.Table, settings: JobSettings) -> BackfillState:
        known = self._parsed
        # An epoch reads the state several times. For the same version, the table returns the same object.
        if known is None or known.rows is not rows or known.incarnation != settings.incarnation:
            state = records.parse_state(
                rows,
                vnode_count=settings.job["vnode_count"],
                incarnation=settings.incarnation,
                order=settings.position_order,
                table=f"{self.location}/{settings.state_table}",
            )
            self._parsed = known = _ParsedState(rows, settings.incarnation, state)
        return known.state

    def _log_rows(self, since_epoch: int, before_epoch: int | None = None) -> pa.Table:
        if before_epoch is not None:
            return self._barrier_log.read(f"epoch >= {since_epoch} AND epoch < {before_epoch}")
        return self._barrier_log.read_since("epoch", since_epoch) if since_epoch else self._barrier_log.read()

    def _barriers(self, rows: pa.Table) -> list[Barrier]:
        # The reduced barrier of an epoch that was given up replaces the pinned one.
        reduced = {given_up.barrier.epoch: given_up.barrier for given_up in self._given_up(rows)}
        pinned = self._parse_log(rows, records.INJECTED, Barrier)
        return sorted((reduced.get(barrier.epoch, barrier) for barrier in pinned), key=lambda barrier: barrier.epoch)

    def _consecutive(self, rows: pa.Table, first_epoch: int) -> list[Barrier]:
        """Return the barriers from an epoch on, and check that every epoch has one."""
        barriers = self._barriers(rows)
        epochs = sorted({*(barrier.epoch for barrier in barriers), *rows.column("epoch").to_pylist()})
        _require_consecutive(
            [barrier.epoch for barrier in barriers], epochs, first=first_epoch, table=self._barrier_log.location
        )
        return barriers

    def _commits(self, rows: pa.Table) -> list[EpochCommit]:
        commits = [*self._parse_log(rows, records.COMMITTED, EpochCommit), *(g.commit for g in self._given_up(rows))]
        return sorted(commits, key=lambda commit: commit.epoch)

    def _given_up(self, rows: pa.Table) -> list[GivenUpEpoch]:
        return self._parse_log(rows, records.GIVEN_UP, GivenUpEpoch)

    def _reports(self, rows: pa.Table, epoch: int) -> list[EpochReport]:
        reports = self._parse_log(rows, records.REPORTED, EpochReport)
        return [report for report in reports if report.epoch == epoch]

    def _parse_log(self, rows: pa.Table, event: str, model: type[records.Model]) -> list[records.Model]:
        matching = rows.filter(pc.equal(rows.column("event"), event))
        return [
            records.parse(model, record, self._barrier_log.location) for record in matching.column("record").to_pylist()
        ]


def _require_consecutive(numbers: Sequence[int], up_to: Sequence[int], *, first: int, table: str) -> None:
    """
    Refuse missing or repeated records.

    :param numbers: the records' numbers, ascending.
    :param up_to: ascending numbers that end with the last expected one.
    :param first: the first expected number.
    :raises StateError: naming the first wrong record.
    """
    for expected, found in zip_longest(range(first, up_to[-1] + 1 if up_to else first), numbers):
        if expected != found:
            repeated = expected is None or (found is not None and found < expected)
            wrong = f"record {found} is repeated" if repeated else f"record {expected} is missing"
            raise StateError(f"control table {table}: {wrong}, so something else wrote to it; {what_to_do(table)}")
