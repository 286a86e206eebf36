"""
The engine on a Spark Connect server, where a client that is killed leaves running what it started.

That could commit nothing twice, but it costs the server's time, and on local tables it would be a second driver. So a
client writes down its session beside the job's control tables, and the next one ends what it finds there.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from airflow_backfill_provider.core.location import is_local
from airflow_backfill_provider.core.settings import JobSettings
from airflow_backfill_provider.execution.spark_engine import SparkEngine
from airflow_backfill_provider.runtime.connect import ConnectSession, end_session
from airflow_backfill_provider.state.applications import ApplicationRecords

LOCAL_DRIVER = "driver"
"""What whoever holds the lock of a local job is called, whatever it does: it is alone."""

logger = logging.getLogger(__name__)


class ConnectEngine(SparkEngine):
    """
    Executes epochs in a session of a Spark Connect server.

    :param connection: the session.
    :param storage_options: options of the object store, as deltalake takes them.
    :param run: what this client does for its job; the attempts at one thing share the name.
    """

    def __init__(self, connection: ConnectSession, storage_options: Mapping[str, str] | None, *, run: str) -> None:
        super().__init__(connection.spark, storage_options)
        self._connection = connection
        self._options = storage_options
        self._run = run

    def exclusive(self, settings: JobSettings) -> AbstractContextManager[None]:
        """Take turns as any driver, and end what an earlier one left on the server."""
        return self._alone(settings, super().exclusive(settings))

    @contextmanager
    def _alone(self, settings: JobSettings, turn: AbstractContextManager[None]) -> Iterator[None]:
        state = settings.job["state"]
        run = LOCAL_DRIVER if is_local(state) else self._run
        with turn:
            records = ApplicationRecords(state, self._options)
            self._end_earlier(records, run)
            records.write_session(run, self._connection.session)
            yield
            # Not after a failure: something may run on, until the session is released.
            records.forget_session(run)

    def _end_earlier(self, records: ApplicationRecords, run: str) -> None:
        earlier, ours = records.session(run), self._connection.session
        if earlier is None or earlier == ours:
            return
        if earlier.server != ours.server:
            logger.warning("an earlier run used the Spark Connect server at %s; it is not looked after", earlier.server)
            return
        logger.info("an earlier run did not say that it ended; what it left on the Spark Connect server is ended now")
        end_session(self._connection.remote, earlier)
