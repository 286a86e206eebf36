"""What went wrong with an epoch, and which epochs were given up because of it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from airflow_backfill_provider.core.frozen import Frozen
from airflow_backfill_provider.core.offset import Offset

FIRST_FAILURES = 3
"""How many failures of an epoch are recorded, however soon they follow each other."""

MOST_FAILURES = 30
"""How many failures of an epoch are recorded at most; with ever longer pauses between them, so many last for years."""


class EpochFailure(Frozen):
    """
    A failed attempt of an epoch.

    :param error: the class of the error.
    :param message: what it says; empty for an error that this package did not raise, which may quote anything.
    :param by: who ran the attempt.
    :param at: when it failed.
    :param retryable: whether the same attempt may succeed later.
    """

    epoch: int
    incarnation: str
    error: str
    message: str
    by: str
    at: dt.datetime
    retryable: bool


class LastFailure(BaseModel):
    """
    What went wrong last, as long as no epoch was committed since.

    :param error: the class of the error.
    :param message: what it says.
    :param by: who ran the attempt.
    :param at: when it failed.
    :param given_up: whether the epoch was given up because of it.
    :param remedy: what to do.
    """

    model_config = ConfigDict(frozen=True)

    epoch: int
    error: str
    message: str
    by: str
    at: dt.datetime
    given_up: bool
    remedy: str

    def __str__(self) -> str:
        outcome = "was given up" if self.given_up else "failed and is still pinned"
        what = f"{self.error}: {self.message}" if self.message else self.error
        return f"epoch {self.epoch} {outcome}, run by {self.by} at {self.at:%Y-%m-%d %H:%M:%S %Z} ({what})"

    @classmethod
    def of_given_up(cls, epoch: int, why: GivenUp) -> LastFailure:
        """Describe an epoch that was given up."""
        return cls(
            epoch=epoch,
            error=why.error,
            message=why.message,
            by=why.by,
            at=why.at,
            given_up=True,
            remedy="correct what it names, then run an epoch: it is pinned anew, and no rebuild is needed",
        )

    @classmethod
    def of_attempt(cls, failure: EpochFailure) -> LastFailure:
        """Describe an attempt of an epoch that is still pinned."""
        remedy = (
            "run an epoch again: it goes on with the same one, and the failure may have passed"
            if failure.retryable
            else "do what it says, then run an epoch again: it goes on with the same one"
        )
        known = {name: getattr(failure, name) for name in ("epoch", "error", "message", "by", "at")}
        return cls(**known, given_up=False, remedy=remedy)


class GivenUp(Frozen):
    """
    Why an epoch was given up, or a part of it.

    :param error: the class of the error.
    :param message: what it says.
    :param by: who ran the attempt that failed.
    :param at: when it was given up.
    :param to_offset: the offset that the epoch's window was pinned up to.
    :param settings_sequence: the settings that it was pinned with.
    """

    error: str
    message: str
    by: str
    at: dt.datetime
    to_offset: Offset
    settings_sequence: int


def is_news(earlier: Sequence[EpochFailure], failure: EpochFailure) -> bool:
    """
    Tell whether a failure is to be recorded beside the earlier ones of its epoch.

    A schedule may fail for months. What it says first is recorded, and anything that it did not say before. The same
    again is recorded once it has gone on for twice as long, so that the records stay few, and the last one is never
    older than half of the whole time.

    :param earlier: those that are recorded, in the order of their records.
    """
    if len(earlier) < FIRST_FAILURES:
        return True
    if len(earlier) >= MOST_FAILURES:
        return False
    first, last = earlier[0], earlier[-1]
    if (last.error, last.message) != (failure.error, failure.message):
        return True
    return failure.at - last.at >= last.at - first.at
