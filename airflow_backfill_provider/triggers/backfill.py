"""Triggers that wait for a job to get somewhere; what is serialized holds no secret, only a connection's id."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Sequence
from functools import cached_property
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_backfill_provider.core.errors import BackfillError
from airflow_backfill_provider.triggers.conditions import (
    Condition,
    EpochCommitted,
    Finished,
    Observation,
    ProgressAtLeast,
    VnodesCompleted,
    observe,
)
from airflow_backfill_provider.triggers.watched_job import Versions, WatchedJob, watched_job

REACHED = "reached"
FAILED = "failed"

LOOK_ANYWAY_SECONDS = 120.0
"""A table that lost its files still has its version."""


class BackfillTrigger(BaseTrigger):
    """
    Looks at a job's control tables until they say what is waited for, or that it will not come.

    Its one event is ``{"outcome": "reached", "value": …}`` or ``{"outcome": "failed", "message": …, "retryable": …}``.

    :param state: location of the job's control tables.
    :param backfill_conn_id: the connection with the object store's options.
    :param poll_interval: seconds between two looks.
    """

    def __init__(self, *, state: str, backfill_conn_id: str, poll_interval: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.state = state
        self.backfill_conn_id = backfill_conn_id
        self.poll_interval = poll_interval

    @property
    @abstractmethod
    def condition(self) -> Condition:
        """What is waited for."""

    def arguments(self) -> dict[str, Any]:
        """Return what :meth:`__init__` takes."""
        return {
            "state": self.state,
            "backfill_conn_id": self.backfill_conn_id,
            "poll_interval": self.poll_interval,
        }

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return how the trigger is made again elsewhere."""
        return f"{type(self).__module__}.{type(self).__qualname__}", self.arguments()

    def look(self) -> Observation:
        """
        Look once.

        :raises BackfillError: if what is waited for will not come.
        """
        return observe(self._job.reader(), self.condition)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait; files are read in a thread, and only if one of the control tables has a new version."""
        seen: Versions | None = None
        looked = 0.0
        while True:
            event = None
            try:
                versions = await self._job.versions()
                if versions != seen or time.monotonic() - looked > LOOK_ANYWAY_SECONDS:
                    event = await asyncio.to_thread(self._outcome)
                    seen, looked = versions, time.monotonic()
            except BackfillError as error:
                event = _event(FAILED, message=str(error), retryable=error.retryable)
            if event is not None:
                yield event
                return
            await asyncio.sleep(self.poll_interval)

    def _outcome(self) -> TriggerEvent | None:
        observation = self.look()
        if observation.value is None:
            self.log.info("waiting: %s", observation.note)
            return None
        return _event(REACHED, value=observation.value)

    @cached_property
    def _job(self) -> WatchedJob:
        return watched_job(self.state, self.backfill_conn_id)


class MaterializedViewFinishedTrigger(BackfillTrigger):
    """Waits until a materialized view is marked finished."""

    @property
    def condition(self) -> Condition:
        """The view is finished."""
        return Finished()


class EpochCommittedTrigger(BackfillTrigger):
    """
    Waits until an epoch is committed.

    :param epoch: its number.
    """

    def __init__(self, *, epoch: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.epoch = epoch

    @property
    def condition(self) -> Condition:
        """The epoch is committed."""
        return EpochCommitted(self.epoch)

    def arguments(self) -> dict[str, Any]:
        """Return what :meth:`__init__` takes."""
        return {**super().arguments(), "epoch": self.epoch}


class BackfillProgressTrigger(BackfillTrigger):
    """
    Waits until a share of the upstream's rows is read.

    :param at_least: the share, from 0 to 1.
    """

    def __init__(self, *, at_least: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.at_least = at_least

    @property
    def condition(self) -> Condition:
        """The share is read."""
        return ProgressAtLeast(self.at_least)

    def arguments(self) -> dict[str, Any]:
        """Return what :meth:`__init__` takes."""
        return {**super().arguments(), "at_least": self.at_least}


class VnodesCompletedTrigger(BackfillTrigger):
    """
    Waits until some vnodes are Completed.

    :param vnodes: numbers and ranges.
    """

    def __init__(self, *, vnodes: Sequence[int | str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.vnodes = list(vnodes)

    @property
    def condition(self) -> Condition:
        """The vnodes are Completed."""
        return VnodesCompleted(tuple(self.vnodes))

    def arguments(self) -> dict[str, Any]:
        """Return what :meth:`__init__` takes."""
        return {**super().arguments(), "vnodes": self.vnodes}


def _event(outcome: str, **payload: Any) -> TriggerEvent:
    return TriggerEvent({"outcome": outcome, **payload})  # type: ignore[no-untyped-call]
