"""Triggers that wait for a job to reach a state. They serialize a connection's id, and no secrets."""

from __future__ import annotations

import asyncio
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
    Verified,
    VnodesCompleted,
    observe,
)
from airflow_backfill_provider.triggers.watched_job import WatchedJob, watched_job

REACHED = "reached"
FAILED = "failed"


class BackfillTrigger(BaseTrigger):
    """
    Polls a job's control tables until its condition is met, or can no longer be met.

    Its one event is ``{"outcome": "reached", "value": …}`` or ``{"outcome": "failed", "message": …, "retryable": …}``.

    :param state: location of the job's control tables.
    :param backfill_conn_id: the connection with the object store's options.
    :param poll_interval: seconds between two polls.
    """

    def __init__(self, *, state: str, backfill_conn_id: str, poll_interval: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.state = state
        self.backfill_conn_id = backfill_conn_id
        self.poll_interval = poll_interval

    @property
    @abstractmethod
    def condition(self) -> Condition:
        """The condition to wait for."""

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of :meth:`__init__`."""
        return {
            "state": self.state,
            "backfill_conn_id": self.backfill_conn_id,
            "poll_interval": self.poll_interval,
        }

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments from which Airflow makes the trigger again."""
        return f"{type(self).__module__}.{type(self).__qualname__}", self.arguments()

    def look(self) -> Observation:
        """
        Check the condition once.

        :raises BackfillError: if it can no longer be met.
        """
        return observe(self._job.reader, self.condition)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait, and share each poll with all triggers that wait for the same job."""
        logged = ""
        while True:
            try:
                observation = await self._job.observe(self.condition)
            except BackfillError as error:
                yield _event(FAILED, message=str(error), retryable=error.retryable)
                return
            if observation.value is not None:
                yield _event(REACHED, value=observation.value)
                return
            if observation.note != logged:
                self.log.info("waiting: %s", observation.note)
                logged = observation.note
            await asyncio.sleep(self.poll_interval)

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

    :param epoch: the epoch's number.
    """

    def __init__(self, *, epoch: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.epoch = epoch

    @property
    def condition(self) -> Condition:
        """The epoch is committed."""
        return EpochCommitted(self.epoch)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of :meth:`__init__`."""
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
        """Return the arguments of :meth:`__init__`."""
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
        """Return the arguments of :meth:`__init__`."""
        return {**super().arguments(), "vnodes": self.vnodes}


class MaterializedViewVerifiedTrigger(BackfillTrigger):
    """
    Waits until a verification finds that a materialized view is right.

    :param max_age: the most seconds since the end of the verification; ``None`` for any time.
    :param epoch: the earliest verified epoch that counts; ``None`` for any.
    """

    def __init__(self, *, max_age: float | None, epoch: int | None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_age = max_age
        self.epoch = epoch

    @property
    def condition(self) -> Condition:
        """The view is verified."""
        return Verified(self.max_age, self.epoch)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of :meth:`__init__`."""
        return {**super().arguments(), "max_age": self.max_age, "epoch": self.epoch}


def _event(outcome: str, **payload: Any) -> TriggerEvent:
    return TriggerEvent({"outcome": outcome, **payload})  # type: ignore[no-untyped-call]
