"""
The conditions of sensors. A check reads a few small control tables and takes milliseconds.

All three modes of a sensor call :func:`observe`, so they have the same results.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import JobCancelledError, JobNotCreatedError, ViewDiffersError
from airflow_backfill_provider.core.scan.progress import Completed
from airflow_backfill_provider.core.scan.vnodes import format_vnodes, parse_vnodes
from airflow_backfill_provider.core.status import verification_text
from airflow_backfill_provider.core.status.verified_state import VerifiedState
from airflow_backfill_provider.jobs.progress import current_progress

if TYPE_CHECKING:
    from airflow_backfill_provider.state.backfill_reader import BackfillReader


@dataclass(frozen=True, slots=True)
class Observation:
    """
    The result of one check.

    :param value: the value that the sensor returns, or ``None`` if it has to wait.
    :param note: a text about the check, for the log.
    """

    value: dict[str, Any] | None
    note: str


class Condition(Protocol):
    """A state that a created job may have reached."""

    def look(self, reader: BackfillReader, settings: JobSettings) -> Observation:
        """Check once."""
        ...


def observe(reader: BackfillReader, condition: Condition) -> Observation:
    """
    Check a condition of a job that may not be created yet.

    :raises JobCancelledError: if the job was cancelled before it met the condition.
    :raises BackfillError: if the control tables cannot be used.
    """
    try:
        settings = reader.settings()
    except JobNotCreatedError:
        return Observation(None, f"no job is created at {reader.location} yet")
    observation = condition.look(reader, settings)
    if observation.value is None and settings.cancelled:
        raise JobCancelledError(f"job {settings.job['name']} was cancelled; {observation.note}")
    return observation


@dataclass(frozen=True, slots=True)
class Finished:
    """The materialized view is marked finished."""

    def look(self, reader: BackfillReader, settings: JobSettings) -> Observation:
        """Read the settings only."""
        del reader
        if settings.finished_epoch is None:
            return Observation(None, f"the view of job {settings.job['name']} is not finished")
        value = {"epoch": settings.finished_epoch}
        return Observation(value, f"the view is finished as of epoch {settings.finished_epoch}")


@dataclass(frozen=True, slots=True)
class EpochCommitted:
    """An epoch is committed."""

    epoch: int

    def look(self, reader: BackfillReader, settings: JobSettings) -> Observation:
        """Read the barrier log from the epoch on. If the epoch was given up, the next committed one counts."""
        name = settings.job["name"]
        if all(commit.given_up for commit in reader.commits(since_epoch=self.epoch)):
            return Observation(None, f"epoch {self.epoch} of job {name} is not committed")
        return Observation({"epoch": self.epoch}, f"epoch {self.epoch} of job {name} is committed")


@dataclass(frozen=True, slots=True)
class ProgressAtLeast:
    """A share of the upstream's rows is read."""

    share: float

    def look(self, reader: BackfillReader, settings: JobSettings) -> Observation:
        """Read the two newest epochs of the barrier log."""
        progress, epoch = current_progress(reader, settings.incarnation)
        note = f"the progress of job {settings.job['name']} is {progress:.1%}, at least {self.share:.1%} is needed"
        return Observation({"progress": progress, "epoch": epoch} if progress >= self.share else None, note)


@dataclass(frozen=True, slots=True)
class VnodesCompleted:
    """Some vnodes are Completed."""

    vnodes: tuple[int | str, ...]

    def look(self, reader: BackfillReader, settings: JobSettings) -> Observation:
        """Read the state of every vnode."""
        state = reader.state()
        wanted = parse_vnodes(self.vnodes, len(state.vnodes))
        left = [vnode for vnode in wanted if not isinstance(state.vnodes[vnode], Completed)]
        name = settings.job["name"]
        if left:
            return Observation(None, f"vnodes {format_vnodes(left)} of job {name} are not completed")
        return Observation(
            {"vnodes": format_vnodes(wanted), "epoch": state.epoch},
            f"vnodes {format_vnodes(wanted)} of job {name} are completed",
        )


@dataclass(frozen=True, slots=True)
class Verified:
    """
    The newest verification found that the view is right, not too long ago, and as of a late enough epoch.

    :param max_age: the most seconds since the end of the verification; ``None`` for any time.
    :param epoch: the earliest verified epoch that counts; ``None`` for any.
    """

    max_age: float | None
    epoch: int | None

    def look(self, reader: BackfillReader, settings: JobSettings) -> Observation:
        """
        Read the newest finished verification.

        :raises ViewDiffersError: if it meets ``max_age`` and ``epoch``, and found a difference.
        """
        name, now = settings.job["name"], dt.datetime.now(dt.UTC)
        newest = reader.verifications.newest_finished(settings.incarnation)
        found = None if newest is None else VerifiedState.of(newest)
        note = f"the view of job {name}: {verification_text.verified_line(found, now)}"
        if found is None or found.epoch < (self.epoch or 0):
            return Observation(None, note)
        if self.max_age is not None and (now - found.verified_at).total_seconds() > self.max_age:
            return Observation(None, note)
        if not found.equal:
            raise ViewDiffersError(f"{note}; repair the view, or rebuild the job")
        return Observation({"epoch": found.epoch, "verified_at": found.verified_at.isoformat()}, note)
