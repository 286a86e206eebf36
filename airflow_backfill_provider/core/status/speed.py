"""
How fast a job reads its snapshot, and how long the rest takes.

The speed is measured over epochs, each from its injection to its commit. The remaining time also includes the waits
between epochs, such as an hourly schedule. It uses the median wait, so that single long waits do not count, and no
pauses.
"""

from __future__ import annotations

import datetime as dt
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from airflow_backfill_provider.core.epoch.barrier import Barrier, Mutation
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit

RECENT_EPOCHS = 10
"""The number of newest epochs over which the speed is measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """
    The speed of the newest epochs.

    :param rows: snapshot rows that they read.
    :param seconds: the time that they took.
    :param waits: the typical wait between epochs, times the number of epochs.
    """

    rows: int
    seconds: float
    waits: float

    @property
    def rows_per_second(self) -> float:
        """Rows per second while an epoch runs."""
        return self.rows / self.seconds

    def seconds_for(self, rows: int) -> float:
        """Return how long it takes to read more rows, including waits."""
        return rows * (self.seconds + self.waits) / self.rows


def recent_speed(barriers: Sequence[Barrier], commits: Sequence[EpochCommit]) -> Speed | None:
    """
    Return the speed of the newest epochs that read rows; ``None`` if there are none with a positive duration.

    :param barriers: barriers of one incarnation, ascending.
    :param commits: their commits, ascending.
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
    """Return whether the job was paused before a barrier."""
    return any(pinned.mutation is Mutation.RESUME for pinned in barrier.mutations)


def _seconds(since: dt.datetime, until: dt.datetime) -> float:
    return (until - since).total_seconds()
