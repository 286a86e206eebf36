"""
Runs this package's Spark applications on a Spark Connect server, as Python processes that are its clients.

Such a process needs no Java and no jars, and starts in seconds. When it is terminated, it ends its work on the server.
It gets the server's address, the token and all other secrets through the environment.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook
from airflow.sdk import BaseHook
from airflow.sdk.log import mask_secret

from airflow_backfill_provider.applications.inherited_environment import inherited_environment
from airflow_backfill_provider.applications.process_group import end_group, start_group
from airflow_backfill_provider.applications.spark_settings import (
    APPLICATION_VARIABLE,
    REMOTE_VARIABLE,
    SESSION_CONF_VARIABLE,
    STORAGE_OPTIONS_VARIABLE,
    TOKEN_VARIABLE,
    session_conf_to_environment,
    storage_options_to_environment,
)
from airflow_backfill_provider.core.application import DONE, FAILED_FOR_GOOD
from airflow_backfill_provider.core.errors import InvalidRemoteError
from airflow_backfill_provider.core.remote import Remote, is_remote
from airflow_backfill_provider.hooks.backfill import InvalidConnectionError
from airflow_backfill_provider.hooks.errors import airflow_error
from airflow_backfill_provider.hooks.spark_application import KILL_GRACE_SECONDS, application_path
from airflow_backfill_provider.hooks.watched_output import WatchedOutput

if TYPE_CHECKING:
    from airflow.sdk import Connection

_SET_BY_CONNECTION = frozenset(
    {APPLICATION_VARIABLE, REMOTE_VARIABLE, SESSION_CONF_VARIABLE, STORAGE_OPTIONS_VARIABLE, TOKEN_VARIABLE}
)
"""Variables that come only from the connection; the worker's own values must not reach the application."""


class ConnectApplicationHook(BaseHook):
    """
    Runs one of the applications in ``spark_apps`` to its end.

    :param spark_conn_id: a connection of type ``spark_connect``, or a Spark connection whose host begins with
        ``sc://``; its password is the token.
    :param conf: configuration of the session.
    :param storage_options: options of the object store, for the application's environment.
    :param name: the application's name.
    :param connections: the environment variables of the connections that the application needs.
    :raises InvalidConnectionError: if the connection names no server.
    """

    def __init__(
        self,
        *,
        spark_conn_id: str,
        conf: Mapping[str, Any] | None = None,
        storage_options: Mapping[str, str] | None = None,
        name: str = "airflow-backfill",
        connections: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._remote = _remote(spark_conn_id)
        self._conf = dict(conf or {})
        self._storage_options = dict(storage_options or {})
        self._name = name
        self._connections = dict(connections or {})
        self._process: subprocess.Popen[str] | None = None
        self._killed = False

    def run(self, application: str, arguments: Sequence[str], output: WatchedOutput) -> None:
        """
        Run an application and wait until it ends.

        :param application: file name in ``spark_apps``.
        :param arguments: its arguments.
        :param output: takes the application's output, which may quote rows.
        :raises AirflowFailException: if it failed for good.
        :raises AirflowException: if it failed and may be tried again.
        """
        self._process = start_group(self.command(application, arguments), self.environment())
        try:
            if self._killed:
                # on_kill was called before the process existed.
                self._end_process()
            for line in self._process.stdout or ():
                output.read(line)
            code = self._process.wait()
        finally:
            # A timeout and Ctrl-C reach only this process.
            self._end_process()
        if code != DONE:
            raise airflow_error(output.reason(code), retryable=code != FAILED_FOR_GOOD)

    def command(self, application: str, arguments: Sequence[str]) -> list[str]:
        """
        Return the command line that runs an application to its end; the exit code is the result.

        :param application: file name in ``spark_apps``.
        :param arguments: its arguments.
        """
        return [sys.executable, "-u", str(application_path(application)), *arguments]

    def environment(self) -> dict[str, str]:
        """Return the environment of :meth:`command`; it holds secrets."""
        token = self._remote.token
        return {
            **inherited_environment(_SET_BY_CONNECTION),
            REMOTE_VARIABLE: self._remote.with_token(None).url(),
            **({TOKEN_VARIABLE: token} if token else {}),
            APPLICATION_VARIABLE: self._name,
            **session_conf_to_environment(self._conf),
            **storage_options_to_environment(self._storage_options),
            **self._connections,
        }

    def on_kill(self) -> None:
        """End the application, and with it what it runs on the server."""
        self._killed = True
        self._end_process()

    def _end_process(self) -> None:
        if self._process is not None:
            end_group(self._process, KILL_GRACE_SECONDS)


def is_connect(connection: Connection) -> bool:
    """Return whether a connection is to a Spark Connect server, and not to a Spark master."""
    return connection.conn_type == SparkConnectHook.conn_type or is_remote(connection.host or "")


def _remote(conn_id: str) -> Remote:
    connection = BaseHook.get_connection(conn_id)
    if not connection.host:
        raise InvalidConnectionError(f"Spark Connect connection {conn_id} has no host; give it the server's host")
    if connection.password:
        mask_secret(connection.password)
    try:
        return Remote.parse(SparkConnectHook(conn_id).get_connection_url())
    except (InvalidRemoteError, ValueError):
        # The parser's message may quote a secret.
        raise InvalidConnectionError(
            f"Spark Connect connection {conn_id} has no valid address; give it a host, such as spark.example or "
            "sc://spark.example, a port, and the token as its password"
        ) from None
