"""
What the newest epochs did with a view's units, and whether that grows.

An epoch of groups costs what its changes touch. If the units that an epoch touches, or the rows that it reads again,
become more from epoch to epoch, the view costs more and more to keep, and this shows it before the epochs are late.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit

MOST_EPOCHS = 10
"""How many epochs are shown."""

_FEW = 3
"""With fewer epochs before the newest one, no trend is told."""

_MUCH = 1.5
"""The newest epoch did more, or less, if it differs from the usual by this factor."""


class EpochWork(BaseModel):
    """
    What one epoch did to apply its changes.

    :param epoch: the epoch.
    :param technique: how: ``slice`` computes the touched units anew, ``full`` the whole view.
    :param units: the units that its changes touch; ``None`` if the whole view was computed.
    :param rows_read: rows of the upstream that it read again; ``None`` if that is unknown.
    :param seconds: how long the work took.
    :param reason: why it computed what it did; empty if it had no choice.
    """

    model_config = ConfigDict(frozen=True)

    epoch: int
    technique: str
    units: int | None
    rows_read: int | None
    seconds: float
    reason: str = ""


class RecentWork(BaseModel):
    """
    The work of the newest epochs that applied changes.

    :param epochs: the epochs, ascending.
    :param units_trend: how the touched units of the newest epoch compare with the epochs before it: ``rising``,
        ``falling``, ``steady``, or ``unknown`` with too few of them.
    :param rows_read_trend: the same of the rows that were read again.
    """

    model_config = ConfigDict(frozen=True)

    epochs: tuple[EpochWork, ...]
    units_trend: str
    rows_read_trend: str


def recent_work(barriers: Sequence[Barrier], commits: Sequence[EpochCommit]) -> RecentWork | None:
    """
    Return the work of the newest epochs; ``None`` if none of them has touched units.

    :param barriers: the newest barriers, ascending.
    :param commits: their commits.
    """
    reasons = {barrier.epoch: barrier.refresh.reason for barrier in barriers if barrier.refresh is not None}
    done = tuple(
        EpochWork(
            epoch=commit.epoch,
            technique=commit.work.technique,
            units=commit.work.units,
            rows_read=commit.work.rows_read,
            seconds=round(sum(commit.seconds.values()), 3),
            reason=reasons.get(commit.epoch, ""),
        )
        for commit in commits
        if commit.work is not None
    )[-MOST_EPOCHS:]
    if not done:
        return None
    return RecentWork(
        epochs=done,
        units_trend=trend([work.units for work in done]),
        rows_read_trend=trend([work.rows_read for work in done]),
    )


def trend(numbers: Sequence[int | None]) -> str:
    """Return how the last number compares with the ones before it."""
    *before, last = numbers
    known = [number for number in before if number is not None]
    if last is None or len(known) < _FEW:
        return "unknown"
    usual = statistics.median(known)
    if last > usual * _MUCH:
        return "rising"
    return "falling" if last * _MUCH < usual else "steady"


def described(work: RecentWork) -> str:
    """Return a line about the newest epoch, and how it compares with those before it."""
    newest = work.epochs[-1]
    units = "the whole view" if newest.units is None else text.counted(newest.units, "unit")
    read = "" if newest.rows_read is None else f", {text.rows(newest.rows_read)} read again"
    trends = [
        f"{what} {found}"
        for what, found in (("units", work.units_trend), ("rows read", work.rows_read_trend))
        if found in {"rising", "falling"}
    ]
    because = f"; {newest.reason}" if newest.reason else ""
    compared = f" ({', '.join(trends)})" if trends else ""
    return f"epoch {newest.epoch} wrote {units} by {newest.technique}{read}{compared}{because}"
