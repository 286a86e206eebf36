"""The trigger that waits for a supervised Spark application, or for the commit of its epoch."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_backfill_provider.core.application import ApplicationRecord
from airflow_backfill_provider.core.errors import BackfillError, StorageUnavailableError
from airflow_backfill_provider.hooks.backfill import BackfillHook

if TYPE_CHECKING:
    from airflow_backfill_provider.state.applications import ApplicationRecords
    from airflow_backfill_provider.state.backfill_reader import BackfillReader

SUCCEEDED = "succeeded"
FAILED = "failed"

LOST_AFTER_SECONDS = 60.0
"""An application is lost if its record does not change for this time; a supervisor writes it every five seconds."""

COMMIT_LOOK_SECONDS = 15.0


class SparkApplicationTrigger(BaseTrigger):
    """
    Waits until an application of a job has ended, or its epoch is committed.

    Its one event is ``{"name": …, "outcome": "succeeded"}`` or ``{"name": …, "outcome": "failed", "message": …,
    "retryable": …}``. A serialized trigger holds a connection's id, and no secrets.

    :param state: location of the job's control tables.
    :param name: the application's name, unique in the job.
    :param epoch: the epoch, if the application runs one whole epoch.
    :param backfill_conn_id: the connection with the object store's options.
    :param poll_interval: seconds between two polls.
    :param attempt: the attempt at the application that the task run started or found.
    :param waiter: the task run that waits.
    """

    def __init__(
        self,
        *,
        state: str,
        name: str,
        epoch: int | None,
        backfill_conn_id: str,
        poll_interval: float,
        attempt: str,
        waiter: str,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.attempt = attempt
        self.waiter = waiter
        # The next try of the same task run may begin to wait before this one ends.
        self._token = uuid.uuid4().hex
        self.state = state
        self.name = name
        self.epoch = epoch
        self.backfill_conn_id = backfill_conn_id
        self.poll_interval = poll_interval

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments from which Airflow makes the trigger again."""
        arguments = {
            "state": self.state,
            "name": self.name,
            "epoch": self.epoch,
            "backfill_conn_id": self.backfill_conn_id,
            "poll_interval": self.poll_interval,
            "attempt": self.attempt,
            "waiter": self.waiter,
        }
        return f"{type(self).__module__}.{type(self).__qualname__}", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait. Each poll reads a file, so it runs in a thread."""
        try:
            async with aclosing(self._events()) as events:
                async for event in events:
                    yield event
        finally:
            await asyncio.to_thread(self._end_wait)

    async def _events(self) -> AsyncGenerator[TriggerEvent]:
        watch, waits = _Watch(self.attempt), False
        while True:
            try:
                waits = waits or await asyncio.to_thread(self._begin_wait)
                record = await asyncio.to_thread(self._read)
                committed = watch.commit_is_due and await asyncio.to_thread(self._committed)
            except StorageUnavailableError as error:
                self.log.warning("waiting: %s", error)
                await asyncio.sleep(self.poll_interval)
                continue
            except BackfillError as error:
                yield _event(self.name, FAILED, message=str(error), retryable=error.retryable)
                return
            for line in watch.news(record):
                self.log.info("%s", line)
            if committed or (record is not None and record.succeeded):
                yield _event(self.name, SUCCEEDED)
                return
            if record is not None and record.ended:
                yield _event(self.name, FAILED, message=record.failure, retryable=record.retryable)
                return
            if watch.lost:
                await asyncio.to_thread(self._request_stop, record)
                yield _event(self.name, FAILED, message=_lost(self.name, record), retryable=True)
                return
            await asyncio.sleep(self.poll_interval)

    async def on_kill(self) -> None:
        """End the application if a user clears the task or marks its state, unless other task runs wait for it."""
        await asyncio.to_thread(self._stop)

    def _read(self) -> ApplicationRecord | None:
        return self._records.read(self.name)

    def _committed(self) -> bool:
        commit = None if self.epoch is None else self._reader.commit_of(self.epoch)
        return commit is not None and not commit.given_up

    def _stop(self) -> None:
        record = self._records.read(self.name)
        if record is None or self.attempt != record.attempt:
            # The attempt that this trigger waited for is over, and the new one belongs to another task run.
            return
        others = self._records.others_waiting(self.name, self.waiter)
        if others:
            self.log.info("the application %s goes on, because %s waits for it", self.name, ", ".join(others))
        else:
            self._request_stop(record)

    def _request_stop(self, record: ApplicationRecord | None) -> None:
        if record is not None and not record.ended:
            self._records.request_stop(record, self.waiter)

    def _begin_wait(self) -> bool:
        self._records.begin_wait(self.name, self._token, self.waiter)
        return True

    def _end_wait(self) -> None:
        # Another process may have removed what is known of the application, or the storage does not answer.
        with suppress(BackfillError):
            self._records.end_wait(self.name, self._token)

    @cached_property
    def _reader(self) -> BackfillReader:
        return BackfillHook(self.backfill_conn_id).reader(self.state)

    @cached_property
    def _records(self) -> ApplicationRecords:
        return self._reader.applications


class _Watch:
    """The state of an application that the trigger has seen, timed by this process's clock."""

    def __init__(self, own: str) -> None:
        self._own = own
        self._seen: ApplicationRecord | None = None
        self._changed = self._looked = time.monotonic()
        self._logged: tuple[str, ...] = ()
        self._web_url: str | None = None

    def news(self, record: ApplicationRecord | None) -> list[str]:
        """Return the news in the record, as lines for the log."""
        if record is None or record == self._seen:
            return []
        news = []
        if self._seen is None or self._seen.attempt != record.attempt:
            self._logged = ()
            news = [] if self._own == record.attempt else [_taken_over(record)]
        self._seen, self._changed = record, time.monotonic()
        if record.application_id and record.web_url != self._web_url:
            news.append(f"Spark application {record.application_id}: {record.web_url}")
            self._web_url = record.web_url
        news += [line for line in record.said if line not in self._logged]
        self._logged = record.said
        return news

    @property
    def lost(self) -> bool:
        """Whether the record has not changed for so long that the supervisor must be dead."""
        return time.monotonic() - self._changed > LOST_AFTER_SECONDS

    @property
    def commit_is_due(self) -> bool:
        """Whether it is time to look for the commit again."""
        now = time.monotonic()
        if now - self._looked < COMMIT_LOOK_SECONDS:
            return False
        self._looked = now
        return True


def _taken_over(record: ApplicationRecord) -> str:
    by = f" by {record.started_by}" if record.started_by else ""
    return (
        f"another attempt at {record.name} was started{by} on {record.host}, so the own one has ended; waiting for the "
        f"other one. Spark's own output is in {record.log}"
    )


def _lost(name: str, record: ApplicationRecord | None) -> str:
    where = "its record is gone" if record is None else f"its supervisor on {record.host} does not update its record"
    return f"the application {name} has been silent for {LOST_AFTER_SECONDS:.0f} s ({where}); trying again is safe"


def _event(name: str, outcome: str, **payload: Any) -> TriggerEvent:
    return TriggerEvent({"name": name, "outcome": outcome, **payload})  # type: ignore[no-untyped-call]
