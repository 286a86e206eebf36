"""The responses of the API, built from the observer's readings."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict

from airflow_backfill_provider.core.epoch.barrier import Barrier, PinnedMutation
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.epoch.settings import JobSettings, SettingsChange
from airflow_backfill_provider.core.epoch.unit_work import UnitWork
from airflow_backfill_provider.core.job.named_key import key_from_text
from airflow_backfill_provider.core.job.rate_limit import RateLimit
from airflow_backfill_provider.core.status.difference_text import difference_lines, key_line, left_out
from airflow_backfill_provider.core.status.job_condition import JobCondition
from airflow_backfill_provider.core.status.job_status import JobSummary
from airflow_backfill_provider.core.status.row_answer_text import describe
from airflow_backfill_provider.core.status.split_status import SplitStatus
from airflow_backfill_provider.core.status.view_difference import ViewDifference
from airflow_backfill_provider.core.status.vnode_cells import VnodeCell
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.jobs.row_questions import why
from airflow_backfill_provider.plugin.observer import Observation
from airflow_backfill_provider.plugin.registry import RegisteredJob


class JobState(StrEnum):
    """The state of a job, by which a list can be filtered."""

    RUNNING = "running"
    WAITING = "waiting"
    PAUSED = "paused"
    """Paused by a user, or by a rate limit of 0."""
    FINISHED = "finished"
    READY = "ready"
    """Complete, and waits for an approval."""
    CANCELLED = "cancelled"
    NOT_CREATED = "not_created"
    UNREADABLE = "unreadable"
    UNREAD = "unread"
    """Not read yet; a later request will have it."""


_STATES = {
    JobCondition.RUNNING: JobState.RUNNING,
    JobCondition.WAITING: JobState.WAITING,
    JobCondition.PAUSED: JobState.PAUSED,
    JobCondition.RATE_LIMIT_ZERO: JobState.PAUSED,
    JobCondition.FINISHED: JobState.FINISHED,
    JobCondition.READY: JobState.READY,
    JobCondition.CANCELLED: JobState.CANCELLED,
}


class _Response(BaseModel):
    model_config = ConfigDict(frozen=True)


class JobRow(_Response):
    """
    A job in a list.

    :param dag_ids: the job's DAGs that the user may read.
    :param problem: why the job's tables cannot be read.
    :param summary: the job's progress as of the last reading.
    :param waits_for: if the job is not created, which job has to finish its view: ``waits for paid_orders, 43 %``.
    """

    name: str
    dag_ids: tuple[str, ...]
    state: JobState
    problem: str | None
    summary: JobSummary | None
    waits_for: str = ""

    @classmethod
    def of(cls, job: RegisteredJob, observation: Observation) -> JobRow:
        """Return the row of an observed job."""
        summary = observation.reading.summary if observation.reading else None
        return cls(
            name=job.name,
            dag_ids=job.dag_ids,
            state=_state(observation),
            problem=observation.problem,
            summary=summary,
            waits_for=observation.reading.waits_for if observation.reading else "",
        )

    @property
    def warns(self) -> bool:
        """Whether the planner or the watchdog has a warning."""
        return bool(self.summary and self.summary.warnings)


class JobList(_Response):
    """
    A page of the matching jobs.

    :param total: the number of matching jobs on all pages.
    :param unread: the number of jobs that were not read yet, so it is unknown whether they match.
    """

    jobs: tuple[JobRow, ...]
    total: int
    unread: int = 0


class DagJobs(_Response):
    """
    The jobs of a DAG, a DAG run or a task run.

    :param narrowed: whether these are the jobs of the DAG run; if it has committed no epoch yet, they are the jobs of
        its DAG.
    """

    jobs: tuple[JobRow, ...]
    narrowed: bool


class EpochPoint(_Response):
    """
    An epoch in the chart.

    :param seconds: from the injection to the commit; ``work_seconds`` covers only the work.
    """

    epoch: int
    rows: int
    changes: int
    work_seconds: float
    seconds: float
    committed_at: dt.datetime


class Change(_Response):
    """A change of a job's settings; ``value`` is the new rate limit or parallelism."""

    sequence: int
    change: SettingsChange
    value: RateLimit
    requested_by: str
    requested_at: dt.datetime

    @classmethod
    def of(cls, settings: JobSettings) -> Change:
        """Return the change of one record of the settings."""
        return cls(**settings.model_dump(include=set(cls.model_fields)))


class JobDetail(JobRow):
    """
    A job with everything on its page, except the barrier log.

    :param may_act: whether the user may mutate the job.
    :param definition: the definition as the DAG gave it.
    :param shared_position: whether all vnodes share one position, so that the rows of a cell are those of all vnodes.
    :param epochs: the newest committed epochs, ascending.
    :param changes: the changes of the settings, newest first.
    """

    may_act: bool
    definition: Mapping[str, Any]
    state_location: str | None
    cells: tuple[VnodeCell, ...]
    splits: tuple[SplitStatus, ...]
    shared_position: bool
    epochs: tuple[EpochPoint, ...]
    changes: tuple[Change, ...]


class LoggedEpoch(_Response):
    """
    An epoch in the barrier log.

    :param committed_at: ``None`` while the epoch is not committed.
    :param work: what it did with the view's units; ``None`` if units are rows.
    :param reason: why it computed what it did; empty if it had no choice.
    """

    epoch: int
    from_version: int | None
    to_version: int | None
    from_offset: str
    to_offset: str
    rate_limit: int | None
    rate_limit_reason: str
    paused: bool
    parallelism: int
    mutations: tuple[PinnedMutation, ...]
    warnings: tuple[str, ...]
    requested_by: str
    dag_id: str | None
    run_id: str | None
    injected_at: dt.datetime
    committed_at: dt.datetime | None
    rows: int | None
    changes: int | None
    seconds: Mapping[str, float]
    work: UnitWork | None
    reason: str

    @classmethod
    def of(cls, barrier: Barrier, commit: EpochCommit | None) -> LoggedEpoch:
        """Return the epoch of a barrier and its commit."""
        return cls(
            epoch=barrier.epoch,
            from_version=barrier.upstream.from_offset.number,
            to_version=barrier.upstream.to_offset.number,
            from_offset=str(barrier.upstream.from_offset),
            to_offset=str(barrier.upstream.to_offset),
            rate_limit=barrier.rate_limit,
            rate_limit_reason=barrier.rate.reason if barrier.rate else "",
            paused=barrier.paused,
            parallelism=barrier.parallelism,
            mutations=barrier.mutations,
            warnings=barrier.warnings
            if barrier.given_up is None
            else (*barrier.warnings, f"given up: {barrier.given_up.message}"),
            requested_by=str(barrier.injected_by),
            dag_id=barrier.injected_by.dag_id,
            run_id=barrier.injected_by.run_id,
            injected_at=barrier.injected_at,
            committed_at=commit.committed_at if commit else None,
            rows=commit.snapshot_read_row_count if commit else None,
            changes=commit.upstream_output_row_count if commit else None,
            seconds=commit.seconds if commit else {},
            work=commit.work if commit else None,
            reason=barrier.refresh.reason if barrier.refresh else "",
        )


class ExplainedRow(_Response):
    """
    Why a view has a row, or has not.

    :param lines: the answer, the most important line first.
    """

    lines: tuple[str, ...]

    @classmethod
    def of(cls, backfill: Backfill, key: str) -> ExplainedRow:
        """
        Answer for a key as people type it, without Spark.

        :raises RowNotTraceableError: if the answer takes Spark.
        :raises BackfillError: if the key is none of the view's, or a table cannot be read.
        """
        return cls(lines=tuple(describe(why(backfill, key_from_text(key)))))


class ShownDifference(_Response):
    """
    The newest recorded difference of what waits for an approval. Values of rows are not part of it.

    :param number: its number; ``None`` if nobody has compared yet, or nothing waits.
    :param lines: the difference in words.
    :param keys: a sample of the keys, each with the columns that differ.
    :param left: how many more keys differ.
    """

    number: int | None = None
    lines: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    left: int = 0
    compared_at: dt.datetime | None = None

    @classmethod
    def of(cls, found: ViewDifference | None) -> ShownDifference:
        """Describe a difference."""
        if found is None:
            return cls()
        return cls(
            number=found.number,
            lines=difference_lines(found),
            keys=tuple(map(key_line, found.rows.sample)),
            left=left_out(found.rows),
            compared_at=found.compared_at,
        )


class BarrierLog(_Response):
    """
    A page of the barrier log, newest first.

    :param older: the ``before_epoch`` of the next page; ``None`` if this is the last one.
    """

    epochs: tuple[LoggedEpoch, ...]
    older: int | None


class Problem(_Response):
    """The reason why a request was refused, as a sentence or field by field."""

    detail: str | tuple[dict[str, Any], ...]


def epoch_points(barriers: Iterable[Barrier], commits: Iterable[EpochCommit]) -> tuple[EpochPoint, ...]:
    """Return the points of the chart."""
    injected = {barrier.epoch: barrier.injected_at for barrier in barriers}
    return tuple(
        EpochPoint(
            epoch=commit.epoch,
            rows=commit.snapshot_read_row_count,
            changes=commit.upstream_output_row_count,
            work_seconds=sum(commit.seconds.values()),
            seconds=max((commit.committed_at - injected.get(commit.epoch, commit.committed_at)).total_seconds(), 0.0),
            committed_at=commit.committed_at,
        )
        for commit in commits
    )


def logged_epochs(barriers: Iterable[Barrier], commits: Iterable[EpochCommit]) -> tuple[LoggedEpoch, ...]:
    """Return epochs of the log, newest first. A barrier that was pinned before a rebuild may have no commit."""
    done = {(commit.epoch, commit.digest): commit for commit in commits}
    found = [LoggedEpoch.of(barrier, done.get((barrier.epoch, barrier.digest))) for barrier in barriers]
    return tuple(sorted(found, key=lambda epoch: epoch.epoch, reverse=True))


def _state(observation: Observation) -> JobState:
    if observation.problem is not None:
        return JobState.UNREADABLE
    if observation.reading is None:
        return JobState.UNREAD
    if observation.reading.summary is None:
        return JobState.NOT_CREATED
    return _STATES[observation.reading.summary.condition]
