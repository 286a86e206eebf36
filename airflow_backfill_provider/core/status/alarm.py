"""An alarm: a problem of a job that needs attention, and what to do about it."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class AlarmKind(StrEnum):
    """The kinds of alarms."""

    STALLED = "stalled"
    HEADROOM = "headroom"
    REPLACED = "replaced"
    VIEW_LOST = "view_lost"


class Alarm(BaseModel):
    """
    A problem of a job that needs attention.

    :param kind: ``stalled``, ``headroom``, ``replaced`` or ``view_lost``.
    :param message: what is wrong.
    :param remedy: what to do.
    """

    model_config = ConfigDict(frozen=True)

    kind: AlarmKind
    message: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.message}; {self.remedy}"
