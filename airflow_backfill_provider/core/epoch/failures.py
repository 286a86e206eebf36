"""Failed attempts of epochs, and why epochs were given up."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from airflow_backfill_provider.core.frozen import Frozen
from airflow_backfill_provider.core.scan.offset import Offset

FIRST_FAILURES = 3
"""The first failures of an epoch are all recorded, however quickly they follow each other."""

MOST_FAILURES = 30
"""The most failures that are recorded of one epoch; because the intervals double, they cover years."""


class EpochFailure(Frozen):
    """
    A failed attempt of an epoch.

    :param error: the class of the error.
    :param message: its message; empty for an error that this package did not raise, because it may quote rows.
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
    The job's last failure, if no epoch was committed since.

    :param error: the class of the error.
    :param message: its message.
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
            remedy="correct the cause, then run an epoch: a new barrier is pinned, and no rebuild is needed",
        )

    @classmethod
    def of_attempt(cls, failure: EpochFailure) -> LastFailure:
        """Describe an attempt of an epoch that is still pinned."""
        remedy = (
            "run an epoch: it retries the pinned one, and the cause may be gone"
            if failure.retryable
            else "do what the message says, then run an epoch: it retries the pinned one"
        )
        known = {name: getattr(failure, name) for name in ("epoch", "error", "message", "by", "at")}
        return cls(**known, given_up=False, remedy=remedy)


class GivenUp(Frozen):
    """
    Why an epoch was given up, whole or in part.

    :param error: the class of the error.
    :param message: its message.
    :param by: who ran the failed attempt.
    :param at: when the epoch was given up.
    :param to_offset: the end of the window that was pinned.
    :param settings_sequence: the number of the settings' record that the epoch was pinned with.
    """

    error: str
    message: str
    by: str
    at: dt.datetime
    to_offset: Offset
    settings_sequence: int


def is_worth_recording(earlier: Sequence[EpochFailure], failure: EpochFailure) -> bool:
    """
    Return whether a failure is recorded beside the earlier ones of its epoch.

    A schedule may fail for months. The first failures are recorded, and each one that differs from the last record. A
    repetition is recorded when the failures have gone on for twice as long as at the last record. So the records stay
    few, and the last one is never older than half of the whole time.

    :param earlier: the recorded failures of the epoch, in the order of their records.
    """
    if len(earlier) < FIRST_FAILURES:
        return True
    if len(earlier) >= MOST_FAILURES:
        return False
    first, last = earlier[0], earlier[-1]
    if (last.error, last.message) != (failure.error, failure.message):
        return True
    return failure.at - last.at >= last.at - first.at
