"""
The engine on a Spark Connect server, where the work of a killed client goes on.

Such work cannot commit twice, but it uses the server, and on local tables it would be a second driver. So a client
records its session beside the job's control tables, and the next client ends the session that it finds there, if its
client is dead. A client that lives may be at work on the same job: in an object store nothing keeps two clients from
that, and the protocol allows it. On local tables a lock does, so a client that is found there has at most left
something running.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from airflow_backfill_provider.applications.connect import ConnectSession, end_session, interrupt_session
from airflow_backfill_provider.applications.local_engine.known_process import KnownProcess
from airflow_backfill_provider.core.application import ServerSession
from airflow_backfill_provider.core.location import is_local
from airflow_backfill_provider.engine.spark_engine import SparkEngine
from airflow_backfill_provider.state.applications import ApplicationRecords

LOCAL_DRIVER = "driver"
"""The name of the session of a local job. There is one for all purposes, because the lock allows one driver."""

logger = logging.getLogger(__name__)


class ConnectEngine(SparkEngine):
    """
    Executes epochs in a session of a Spark Connect server.

    :param connection: the session.
    :param storage_options: options of the object store, as deltalake takes them.
    :param purpose: what this client does for its job; a new attempt has the same purpose, and ends the earlier one.
    """

    def __init__(self, connection: ConnectSession, storage_options: Mapping[str, str] | None, *, purpose: str) -> None:
        super().__init__(connection.spark, storage_options)
        self._connection = connection
        self._options = storage_options
        self._purpose = purpose

    @contextmanager
    def exclusive(self, state: str) -> Iterator[None]:
        """Wait for the lock as any driver does, and end what an earlier client left running on the server."""
        purpose = LOCAL_DRIVER if is_local(state) else self._purpose
        with super().exclusive(state):
            records = ApplicationRecords(state, self._options)
            self._end_earlier(records, purpose, is_alone=is_local(state))
            records.write_session(purpose, self._connection.session)
            yield
            # After a failure the record stays, because work may go on until the session is released.
            if records.session(purpose) == self._connection.session:
                records.forget_session(purpose)

    def _end_earlier(self, records: ApplicationRecords, purpose: str, *, is_alone: bool) -> None:
        earlier, ours = records.session(purpose), self._connection.session
        if earlier is None or earlier == ours:
            return
        if earlier.server != ours.server:
            logger.warning(
                "an earlier client did not release its session on the Spark Connect server at %s, and this client uses "
                "another server; the session is not ended",
                earlier.server,
            )
        elif is_dead(earlier):
            logger.info("an earlier client did not release its session; ending its work on the Spark Connect server")
            end_session(self._connection.remote, earlier)
        elif is_alone:
            interrupt_session(self._connection.remote, earlier)
        else:
            # What a client on a machine that died left running, the server ends by itself.
            logger.info("another client works on this job on the Spark Connect server, too; going on beside it")


def is_dead(session: ServerSession) -> bool:
    """Return whether the client of a session is known to be dead; on other machines, nobody knows."""
    if not session.started:
        return True
    process = KnownProcess(pid=session.pid, started=session.started)
    return session.host == socket.gethostname() and not process.is_alive()
