"""What is ready to go live, and waits for an approval, in a job's status."""

from __future__ import annotations

import datetime as dt

from pydantic import BaseModel, ConfigDict

from airflow_backfill_provider.core.job.cut_over import CutOverKind

REMEDY = "see airflow-backfill diff, and approve it with airflow-backfill approve"
"""What to do about what waits."""


class CutOverStatus(BaseModel):
    """
    What is ready to go live, and waits for an approval.

    :param kind: ``backfill``, ``rebuild`` or ``change``.
    :param ready_since: since when it is ready.
    :param given_up_at: when it is given up, if nobody approves it; ``None`` if never.
    """

    model_config = ConfigDict(frozen=True)

    kind: CutOverKind
    ready_since: dt.datetime
    given_up_at: dt.datetime | None = None

    def __str__(self) -> str:
        return f"{self.line}; {REMEDY}"

    @property
    def line(self) -> str:
        """What waits, and what to do, in a sentence."""
        until = "" if self.given_up_at is None else f" until {self.given_up_at:%Y-%m-%d %H:%M} UTC"
        return (
            f"{self.kind.words} is ready since {self.ready_since:%Y-%m-%d %H:%M} UTC, and waits for an approval{until}"
        )
