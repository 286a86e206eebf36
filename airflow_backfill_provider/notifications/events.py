"""The events of a job that notifiers send: its view is finished or ready, something failed, or there is an alarm."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict

from airflow_backfill_provider.core.status.alarm import Alarm
from airflow_backfill_provider.core.status.cut_over import REMEDY
from airflow_backfill_provider.core.status.job_status import JobStatus

_LEFT_OUT: dict[str, Any] = {"vnode_map": True, "verified": {"sample"}}
"""Fields of a status that a message leaves out: they are long, and hold positions and keys, which are row values."""


class EventKind(StrEnum):
    """The kinds of events; all but ``finished``, ``failed`` and ``ready`` are the watchdog's alarms."""

    FINISHED = "finished"
    FAILED = "failed"
    STALLED = "stalled"
    HEADROOM = "headroom"
    REPLACED = "replaced"
    VIEW_LOST = "view_lost"
    READY = "ready"


class BackfillEvent(BaseModel):
    """
    An event of a job that users want to know about.

    :param kind: ``finished``, ``failed``, ``ready``, ``stalled``, ``headroom``, ``replaced`` or ``view_lost``.
    :param job: the job's name.
    :param message: what happened.
    :param remedy: what to do; empty if nothing.
    :param status: the job's status, without its map of vnodes; ``None`` if it could not be read.
    """

    model_config = ConfigDict(frozen=True)

    kind: EventKind
    job: str
    message: str
    remedy: str = ""
    status: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        """The event in one sentence."""
        return f"{self.job} {self.kind}: {self.message}" + (f"; {self.remedy}" if self.remedy else "")

    def as_template(self) -> dict[str, Any]:
        """Return the value of ``backfill`` in templates."""
        return {**self.model_dump(mode="json"), "text": self.text}


def alarm_event(status: JobStatus, alarm: Alarm) -> BackfillEvent:
    """Return the event of one of a job's alarms."""
    return BackfillEvent(
        kind=EventKind(alarm.kind),
        job=status.name,
        message=alarm.message,
        remedy=alarm.remedy,
        status=status_fields(status),
    )


def ready_event(status: JobStatus) -> BackfillEvent | None:
    """Return the event of what is ready and waits for an approval; ``None`` if nothing does."""
    if status.cut_over is None:
        return None
    return BackfillEvent(
        kind=EventKind.READY,
        job=status.name,
        message=status.cut_over.line,
        remedy=REMEDY,
        status=status_fields(status),
    )


def finished_event(status: JobStatus, view: str, epoch: int | None = None) -> BackfillEvent:
    """
    Return the event of a view that is finished.

    :param epoch: the epoch that completed the last vnode; by default the status's newest. Others may have followed it.
    """
    return BackfillEvent(
        kind=EventKind.FINISHED,
        job=status.name,
        message=f"the view {view} is finished as of epoch {epoch or status.epoch}, {status.rows_read:,} rows were read",
        status=status_fields(status),
    )


def failed_event(job: str, what: str, reason: str, status: JobStatus | None) -> BackfillEvent:
    """
    Return the event of something that failed.

    :param what: the task run or the DAG run.
    :param reason: why it failed; empty if that is not known.
    :param status: the job's status; ``None`` if it cannot be read.
    """
    return BackfillEvent(
        kind=EventKind.FAILED,
        job=job,
        message=f"{what} failed" + (f" ({reason})" if reason else ""),
        remedy="see its log; committed epochs stay, and running it again is safe",
        status=None if status is None else status_fields(status),
    )


def status_fields(status: JobStatus) -> dict[str, Any]:
    """Return a status as plain values, without the fields that a message leaves out."""
    return status.model_dump(mode="json", exclude=_LEFT_OUT)
