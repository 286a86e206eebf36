"""
A run of a Spark application that outlives the task run which started it.

Whoever starts one leaves it to a supervisor, a small process of its own that writes down how the application does. The
record is all that triggers, retries and pages know of it, whichever machine they run on.
"""

from __future__ import annotations

import datetime as dt
from typing import Self

from airflow_backfill_provider.core.frozen import Frozen

DONE = 0
FAILED = 1
FAILED_FOR_GOOD = 3
"""The exit code of an application that would fail again."""

SAYS = "airflow-backfill: "
"""Begins the lines that an application addresses to its submitter, among all that Spark prints."""

SAYS_ERROR = f"{SAYS}error: "
SAYS_SPARK = f"{SAYS}spark: "
"""Begins the line with Spark's name for the application, and the address of its web pages or its server."""


def epoch_application(epoch: int, *, step: str | None = None, part: int | None = None) -> str:
    """
    Return what the run of an epoch, or of one step of it, is called among a job's applications.

    :param step: ``changes`` or ``snapshot``; ``None`` for the whole epoch.
    :param part: which part of the chunk the step ``snapshot`` reads.
    """
    return "-".join(["epoch", str(epoch), *([step] if step else []), *([] if part is None else [str(part)])])


class ApplicationRecord(Frozen):
    """
    What is known of one attempt to run an application.

    :param name: what it does for its job; the attempts at one thing share the name.
    :param attempt: identifies this attempt.
    :param host: where its supervisor runs.
    :param pid: the supervisor's process there.
    :param heartbeat: goes up as long as the supervisor lives; clocks of different machines need not agree.
    :param log: file with all that the application said, on that host.
    :param application_id: Spark's name for it, once it told.
    :param web_url: where Spark's own pages of it are, or the server that runs it, once it told, if there is any.
    :param said: the newest lines that it addressed to its submitter, oldest first.
    :param exit_code: how it ended; ``None`` while it runs.
    :param error: why it failed.
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
    exit_code: int | None = None
    error: str = ""
    ended_at: dt.datetime | None = None

    @property
    def ended(self) -> bool:
        """Whether the application ended, well or not."""
        return self.exit_code is not None

    @property
    def succeeded(self) -> bool:
        """Whether it did what it was started for."""
        return self.exit_code == DONE

    @property
    def retryable(self) -> bool:
        """Whether another attempt may do better."""
        return self.exit_code != FAILED_FOR_GOOD

    def beaten(self) -> Self:
        """Return the record one heartbeat later."""
        return self.model_copy(update={"heartbeat": self.heartbeat + 1})


class ServerSession(Frozen):
    """
    A session on a Spark Connect server, where what a client started goes on without it.

    :param server: host and port of the server.
    :param user_id: whose session it is; part of its name.
    :param session_id: the session.
    """

    server: str
    user_id: str
    session_id: str
