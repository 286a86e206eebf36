"""
The adaptive rate limit: how many rows the next chunk has, from what the last epochs took.

The next limit is the number of rows that the measured speed reads in the seconds that an epoch should take. It is at
least half and at most twice the last one. It falls while Spark is late with its work, and it is never above what
memory, retention and pace allow. Nothing here reads a table or a clock: the same records give the same limit, and the
barrier pins it (I2). It is at least one row (I4).

The executors have no counterpart; gh-ost and Vitess throttle by lag in the same way.
"""

from __future__ import annotations

import datetime as dt
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.epoch_record import EpochCommit
from airflow_backfill_provider.core.epoch.spark_load import SparkLoad
from airflow_backfill_provider.core.epoch.stages import StageKind, stage_of
from airflow_backfill_provider.core.job.rate_limit import AskedRate, ChosenLimit

STEP = 2
"""The factor by which the limit may grow or fall from one epoch to the next."""

RECENT = 5
"""The number of newest epochs that decide."""

SPREAD = 1.5
"""How much larger the largest epoch must be than the smallest to tell fixed cost and cost per row apart."""

ROWS_SHARE = 0.25
"""
The share of an epoch that rows take at least, however long the rest takes.

If the fixed cost alone takes as long as wanted, smaller epochs would not be shorter, only more of them.
"""

RETENTION_SHARE = 0.25
"""An epoch should take no more than this share of the time for which its rows stay readable."""

FIRST_BYTES_PER_SECOND = 1 << 20
"""
The speed by which the first chunk is guessed; a small machine reads several times as much.

Lateness makes no chunk smaller than that. If so few rows are too many, the lateness does not come from them.
"""

MEMORY_PER_BYTE = 4
"""How much memory a byte of a compressed data file takes as rows."""

MEMORY_SHARE = 0.6
"""The share of the executors' memory that Spark gives to tasks and cached rows (``spark.memory.fraction``)."""

_ASSUMED_ROW_BYTES = 100.0
_EXACT_BELOW = 10.0
_CHANGES = stage_of(StageKind.WRITE_CHANGES).timed_as
_REPAIR = stage_of(StageKind.REPAIR).timed_as


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredEpoch:
    """
    An epoch that read history.

    :param limit: its rate limit; ``None`` if it had none.
    :param rows: the snapshot rows that it read, at least one.
    :param chunk_seconds: what it took for them, with its fixed cost.
    :param changes_seconds: what it took for changes, which depend on the upstream's writers.
    :param load: Spark's load, if it is known.
    """

    limit: int | None
    rows: int
    chunk_seconds: float
    changes_seconds: float = 0.0
    load: SparkLoad | None = None

    @classmethod
    def of(cls, barrier: Barrier, commit: EpochCommit) -> Self:
        """Return what an epoch measured. A repair is left out: the next epoch has none."""
        changes, repair = (commit.seconds.get(stage, 0.0) for stage in (_CHANGES, _REPAIR))
        return cls(
            limit=barrier.rate_limit,
            rows=commit.snapshot_read_row_count,
            chunk_seconds=sum(commit.seconds.values()) - changes - repair,
            changes_seconds=changes,
            load=commit.load,
        )

    @property
    def seconds(self) -> float:
        """How long the epoch's own work took; waits for Spark or for a worker are not counted."""
        return self.chunk_seconds + self.changes_seconds

    @property
    def lateness(self) -> str:
        """Why Spark was late with its work; empty if it was not."""
        return "" if self.load is None else self.load.lateness(self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkBounds:
    """
    What bounds the next chunk, besides the speed.

    :param held: the limit of the epoch before, if it was chosen here.
    :param row_bytes: the estimated size of a row in the upstream's files; ``None`` if it is unknown.
    :param readable_for: how long the rows of a chunk stay readable; ``None`` if it is unknown.
    :param memory_bytes: the memory of Spark's executors together; ``None`` if it is unknown.
    """

    held: int | None = None
    row_bytes: float | None = None
    readable_for: dt.timedelta | None = None
    memory_bytes: int | None = None

    def rows_at_first(self, target: float) -> int:
        """Return the rows of a chunk before any speed is measured, by their size."""
        return max(int(FIRST_BYTES_PER_SECOND * target / (self.row_bytes or _ASSUMED_ROW_BYTES)), 1)

    @property
    def rows_in_memory(self) -> int | None:
        """How many rows of a chunk fit into memory; ``None`` if it is unknown."""
        if self.memory_bytes is None or not self.row_bytes:
            return None
        return max(int(self.memory_bytes * MEMORY_SHARE / MEMORY_PER_BYTE / self.row_bytes), 1)


def measured_epochs(
    barriers: Sequence[Barrier], commits: Sequence[EpochCommit], *, parallelism: int
) -> list[MeasuredEpoch]:
    """
    Return the newest epochs that read history, ascending.

    :param barriers: the newest barriers of one incarnation.
    :param commits: their commits, ascending.
    :param parallelism: the number of task runs that will share the next epoch. After a rescale, only epochs with this
        number count, as soon as there is one.
    """
    by_epoch = {barrier.epoch: barrier for barrier in barriers}
    read = [
        (barrier, MeasuredEpoch.of(barrier, commit))
        for commit in commits
        if commit.snapshot_read_row_count and not commit.given_up and (barrier := by_epoch.get(commit.epoch))
    ]
    timed = [(barrier, epoch) for barrier, epoch in read if epoch.chunk_seconds > 0]
    alike = [epoch for barrier, epoch in timed if barrier.parallelism == parallelism]
    return (alike or [epoch for _, epoch in timed])[-RECENT:]


def limit_in_force(asked: AskedRate, measured: Sequence[MeasuredEpoch], outlook: ChunkBounds) -> ChosenLimit:
    """
    Return the rate limit of the next epoch.

    :param asked: what the job's settings ask for.
    :param measured: see :func:`measured_epochs`.
    """
    return _bounded(_by_speed(asked, measured, outlook), asked, outlook) if asked.is_auto else asked.fixed


def _by_speed(asked: AskedRate, measured: Sequence[MeasuredEpoch], outlook: ChunkBounds) -> ChosenLimit:
    target, of_target = _target(asked, outlook)
    if not measured:
        if outlook.held:
            return ChosenLimit(outlook.held, "as before, because no epoch has read history since")
        size = text.size(FIRST_BYTES_PER_SECOND * target)
        return ChosenLimit(
            outlook.rows_at_first(target),
            f"because no speed is measured yet; it begins with about {size} of the upstream",
        )
    newest = measured[-1]
    last = newest.limit or newest.rows
    if newest.lateness:
        rows = min(max(last // STEP, outlook.rows_at_first(target)), last)
        compared = "less" if rows < last else "not more"
        return ChosenLimit(rows, f"{compared} than the last one, because Spark was late with it: {newest.lateness}")
    rows = min(max(_rows_within(target, measured), last // STEP, 1), last * STEP)
    reason = f"because the last epoch read {text.rows(newest.rows)} in {_seconds(newest.seconds)} {of_target}"
    late = next((epoch.lateness for epoch in reversed(measured) if epoch.lateness), "")
    if rows > last and late:
        return ChosenLimit(last, f"not more than before, because Spark was late with one of the last epochs: {late}")
    return ChosenLimit(rows, reason)


def _bounded(chosen: ChosenLimit, asked: AskedRate, outlook: ChunkBounds) -> ChosenLimit:
    """Return a limit that memory and pace allow, too."""
    bounds = {
        "because no more rows fit into Spark's memory": outlook.rows_in_memory,
        f"because a chunk has no more rows than {_seconds(asked.target)} of max_rows_per_second": (asked.most_by_pace),
    }
    for reason, most in bounds.items():
        if most is not None and chosen.rows is not None and chosen.rows > most:
            chosen = ChosenLimit(most, reason)
    return chosen


def _target(asked: AskedRate, outlook: ChunkBounds) -> tuple[float, str]:
    """Return how long the next epoch should take, and how a sentence says so."""
    if outlook.readable_for is not None:
        most = outlook.readable_for.total_seconds() * RETENTION_SHARE
        if most < asked.target:
            return most, f"of the {_seconds(most)} that the upstream's retention leaves"
    return asked.target, f"of the {_seconds(asked.target)} wanted"


def _rows_within(target: float, measured: Sequence[MeasuredEpoch]) -> int:
    """Return how many rows an epoch reads in some seconds, besides its fixed cost and the changes."""
    fixed, per_row = _costs(measured)
    if not per_row:
        return measured[-1].rows * STEP
    rest = fixed + statistics.median(epoch.changes_seconds for epoch in measured)
    return round(max(target - rest, rest * ROWS_SHARE / (1 - ROWS_SHARE)) / per_row)


def _costs(measured: Sequence[MeasuredEpoch]) -> tuple[float, float]:
    """
    Return the seconds of an epoch that do not depend on its rows, and the seconds of each row.

    If the epochs are too alike to tell the two apart, all seconds count as those of rows. The newest epoch decides how
    fast everything is now.

    :returns: 0 seconds of a row if rows cost too little to be measured.
    """
    newest = measured[-1]
    rows = [epoch.rows for epoch in measured]
    if max(rows) >= SPREAD * min(rows):
        line = statistics.linear_regression(rows, [epoch.chunk_seconds for epoch in measured])
        if line.slope <= 0:
            return newest.chunk_seconds, 0.0
        if line.intercept > 0:
            now = newest.chunk_seconds / (line.intercept + line.slope * newest.rows)
            return line.intercept * now, line.slope * now
    return 0.0, newest.chunk_seconds / newest.rows


def _seconds(seconds: float) -> str:
    """Format seconds so that two of them compare at a glance, however many they are."""
    return f"{seconds:,.0f} s" if seconds >= _EXACT_BELOW else f"{seconds:.2g} s"


def epochs_for(rows: int, *, first: int, steady: int) -> int:
    """
    Return in about how many epochs some rows are read, if the limit doubles from the first one to a steady one.

    :param rows: the rows that are left.
    """
    limit, epochs = max(first, 1), 0
    while rows > 0 and limit < steady:
        rows, limit, epochs = rows - limit, limit * STEP, epochs + 1
    return epochs + math.ceil(max(rows, 0) / max(steady, first, 1))
