"""
How fast a job reads its snapshot, and how long the rest takes.

The speed is that of the epochs, each from its injection to its commit. What is left also takes the waits between them:
a job whose DAG runs every hour is done in hours. A pause is no such wait, nor is one night among the waits of a day.
"""

from __future__ import annotations

import datetime as dt
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from airflow_backfill_provider.core.barrier import Barrier, Mutation
from airflow_backfill_provider.core.epoch_record import EpochCommit

RECENT_EPOCHS = 10
"""Epochs whose speed tells the time that is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """
    The speed of the newest epochs.

    :param rows: snapshot rows that they read.
    :param seconds: how long they took.
    :param waits: how long the job waits between so many epochs, as it mostly does.
    """

    rows: int
    seconds: float
    waits: float

    @property
    def rows_per_second(self) -> float:
        """Rows per second of an epoch."""
        return self.rows / self.seconds

    def seconds_for(self, rows: int) -> float:
        """Return how long it takes until some more rows are read, waits included."""
        return rows * (self.seconds + self.waits) / self.rows


def recent_speed(barriers: Sequence[Barrier], commits: Sequence[EpochCommit]) -> Speed | None:
    """
    Return the speed of the newest epochs that read anything; ``None`` if there is none, or clocks make no sense.

    :param barriers: of one incarnation, ascending.
    :param commits: likewise.
    """
    by_epoch = {barrier.epoch: barrier for barrier in barriers}
    reading = [commit for commit in commits if commit.snapshot_read_row_count and commit.epoch in by_epoch]
    took = {commit.epoch: _seconds(by_epoch[commit.epoch].injected_at, commit.committed_at) for commit in reading}
    recent = [commit for commit in reading if took[commit.epoch] > 0][-RECENT_EPOCHS:]
    if not recent:
        return None
    before = {commit.epoch + 1: commit.committed_at for commit in recent}
    waits = [
        _seconds(before[commit.epoch], by_epoch[commit.epoch].injected_at)
        for commit in recent
        if commit.epoch in before and not _was_resumed(by_epoch[commit.epoch])
    ]
    return Speed(
        rows=sum(commit.snapshot_read_row_count for commit in recent),
        seconds=sum(took[commit.epoch] for commit in recent),
        waits=len(recent) * max(statistics.median(waits), 0.0) if waits else 0.0,
    )


def _was_resumed(barrier: Barrier) -> bool:
    """Tell whether the job was paused before a barrier."""
    return any(carried.mutation is Mutation.RESUME for carried in barrier.mutations)


def _seconds(since: dt.datetime, until: dt.datetime) -> float:
    return (until - since).total_seconds()
