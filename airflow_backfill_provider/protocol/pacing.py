"""
The pace of a run that carries several epochs: it waits between two of them.

Averaged over the run, no more snapshot rows per second are read than the job's settings allow. Within an epoch rows are
read as fast as they can be, so the rate limit in force keeps each chunk small
(:attr:`~airflow_backfill_provider.core.job.rate_limit.AskedRate.most_by_pace`). Ports ``RateLimiter::wait`` of the
executors, which wait before each row.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable
from dataclasses import dataclass

from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.clock import Clock
from airflow_backfill_provider.state.store import BackfillStore

logger = logging.getLogger(__name__)

Wait = Callable[[float], None]
"""Waits for some seconds; tests pass their own."""

LOOK_EVERY = 1.0
"""The seconds after which a waiting run looks at the settings again, so that a pause or a new pace ends the wait."""


@dataclass(kw_only=True)
class Pacer:
    """
    Keeps one run to the pace of its job.

    :param began_at: when the run began.
    :param rows: the snapshot rows that it has read so far.
    """

    store: BackfillStore
    wait: Wait
    clock: Clock
    began_at: dt.datetime
    rows: int = 0

    def until_due(self) -> None:
        """
        Wait until the next epoch may begin.

        Return at once if no epoch would read history: then there is nothing to slow down. The settings are read again
        while it waits, so a mutation takes effect as soon as without a pace.
        """
        left = self._seconds_left()
        if left > 0:
            logger.info("waits about %s, to read no more rows per second than the job allows", text.duration(left))
        while left > 0:
            self.wait(min(left, LOOK_EVERY))
            left = self._seconds_left()

    def _seconds_left(self) -> float:
        settings = self.store.settings()
        pace = settings.max_rows_per_second
        if pace is None or settings.cancelled or not settings.reads_snapshot:
            return 0.0
        return self.rows / pace - (self.clock() - self.began_at).total_seconds()
