"""
Records of Spark applications that outlive the task run that started them.

A supervisor, a small separate process, watches each application and records its progress. Triggers, retries and pages
read only this record, on whichever machine they run.
"""

from __future__ import annotations

import datetime as dt
import signal
from typing import Self

from airflow_backfill_provider.core.frozen import Frozen

DONE = 0
FAILED = 1
FAILED_FOR_GOOD = 3
"""The exit code of an application that would fail again if it were retried."""

MESSAGE_PREFIX = "airflow-backfill: "
"""Prefix of the output lines that an application addresses to its submitter."""

ERROR_PREFIX = f"{MESSAGE_PREFIX}error: "
SPARK_PREFIX = f"{MESSAGE_PREFIX}spark: "
"""Prefix of the line with Spark's id of the application, and the address of its web UI or its server."""

LOG_VARIABLE = "AIRFLOW_BACKFILL_APPLICATION_LOG"
"""The variable in which a supervised application finds where its output goes, to name it in errors."""


def epoch_application(epoch: int, *, step: str | None = None, part: int | None = None) -> str:
    """
    Return the name of the application that runs an epoch, or one step of it.

    :param step: ``apply_changes`` or ``read_chunk_part``; ``None`` for the whole epoch.
    :param part: the part of the chunk that the step ``read_chunk_part`` reads.
    """
    return "-".join(
        ["epoch", str(epoch), *([step.replace("_", "-")] if step else []), *([] if part is None else [str(part)])]
    )


def epoch_of_application(name: str) -> int | None:
    """Return the first epoch of an application that runs whole epochs; ``None`` for any other application."""
    kind, _, epoch = name.partition("-")
    return int(epoch) if kind == "epoch" and epoch.isdecimal() else None


def signal_note(exit_code: int | None) -> str:
    """
    Return what a message adds about an application that a signal ended; empty if none did.

    :param exit_code: the exit code; negative for a signal, as Python reports it, or 128 and more, as a shell does.
    """
    number = 0 if exit_code is None else -exit_code if exit_code < 0 else exit_code - _SHELL
    if number == signal.SIGKILL:
        return (
            f"; it was killed ({signal.SIGKILL.name}), most likely because its host or container ran out of memory: "
            "give Spark more memory, or lower the job's rate_limit, so that an epoch reads fewer rows"
        )
    return f"; a signal ended it ({signal.Signals(number).name})" if number in signal.valid_signals() else ""


_SHELL = 128
"""A shell adds this to the number of the signal that ended a program."""


class ApplicationRecord(Frozen):
    """
    One attempt to run an application.

    :param name: what the application does for its job, such as ``epoch-3``; all attempts at it share the name.
    :param attempt: identifies this attempt.
    :param host: the host of the supervisor.
    :param pid: the supervisor's process id on that host.
    :param heartbeat: a counter that grows while the supervisor lives; it does not depend on synchronized clocks.
    :param log: the file with the application's output, on that host.
    :param application_id: Spark's id of the application, once known.
    :param web_url: address of the application's Spark UI, or of the server that runs it, once known.
    :param said: the newest messages to the submitter, oldest first.
    :param started_by: the task run that started this attempt, if known.
    :param exit_code: the exit code; ``None`` while the application runs.
    :param error: why it failed.
    :param stopped_by: who asked for its end, if that is why it failed.
    """

    name: str
    attempt: str
    host: str
    pid: int
    started_at: dt.datetime
    heartbeat: int = 0
    log: str
    application_id: str | None = None
    web_url: str | None = None
    said: tuple[str, ...] = ()
    started_by: str = ""
    exit_code: int | None = None
    error: str = ""
    stopped_by: str = ""
    ended_at: dt.datetime | None = None

    @property
    def ended(self) -> bool:
        """Whether the application ended, successfully or not."""
        return self.exit_code is not None

    @property
    def succeeded(self) -> bool:
        """Whether the application ended successfully."""
        return self.exit_code == DONE

    @property
    def failure(self) -> str:
        """Why it failed, and who asked for that."""
        return f"{self.error} of {self.stopped_by}; trying again is safe" if self.stopped_by else self.error

    @property
    def retryable(self) -> bool:
        """Whether another attempt may succeed."""
        return self.exit_code != FAILED_FOR_GOOD

    def with_next_heartbeat(self) -> Self:
        """Return the record with the next heartbeat."""
        return self.model_copy(update={"heartbeat": self.heartbeat + 1})


class ServerSession(Frozen):
    """
    A session on a Spark Connect server, where operations continue after their client has died.

    :param server: host and port of the server.
    :param user_id: the user that the session belongs to; with ``session_id`` it identifies the session.
    :param session_id: the session's id.
    :param host: the machine on which its client runs.
    :param pid: the client's process id there.
    :param started: when that process started, in seconds since 1970; 0 if it is not known.
    """

    server: str
    user_id: str
    session_id: str
    host: str = ""
    pid: int = 0
    started: float = 0.0
