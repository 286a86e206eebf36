"""
Submits this package's Spark applications through the Spark provider's hook.

This hook differs from the provider's in four ways. Without a connection, it runs Spark on this machine and never on
YARN. It passes the object store's options in the environment and not on a command line. The application's exit code
decides whether a retry can help. A killed task leaves no running process.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from airflow.providers.apache.spark.hooks.spark_submit import DEFAULT_SPARK_BINARY, SparkSubmitHook
from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException
from airflow.sdk.log import mask_secret

from airflow_backfill_provider.applications.inherited_environment import inherited_environment
from airflow_backfill_provider.applications.process_group import end_group
from airflow_backfill_provider.applications.shipped_files import PACKAGE, shipped_folder
from airflow_backfill_provider.applications.spark_settings import (
    REMOTE_VARIABLE,
    STORAGE_OPTIONS_VARIABLE,
    TOKEN_VARIABLE,
    require_java,
    spark_conf,
    spark_environment,
    storage_options_to_environment,
)
from airflow_backfill_provider.core.application import FAILED_FOR_GOOD
from airflow_backfill_provider.core.errors import InstallationError, SparkUnavailableError
from airflow_backfill_provider.hooks.backfill import InvalidConnectionError
from airflow_backfill_provider.hooks.errors import airflow_error
from airflow_backfill_provider.hooks.submission_environment import SUBMISSION_MODULE, submission_environment
from airflow_backfill_provider.hooks.watched_output import WatchedOutput

LOCAL_MASTER = "local[*]"
KILL_GRACE_SECONDS = 2.0
"""How long the application may clean up before it is killed; Airflow kills the task itself after five seconds."""

_SET_BY_CONNECTION = frozenset({REMOTE_VARIABLE, STORAGE_OPTIONS_VARIABLE, TOKEN_VARIABLE})
"""Variables that come only from the connections; the worker's own values must not reach the application."""

# The provider masks only names that contain "secret" or "password".
_SECRET_CONF = re.compile(
    r"secret|password|token|credential|access\.?key|account\.?key|private\.?key|\.sas\.", re.IGNORECASE
)

_SILENT = logging.getLogger(f"{__name__}.output")
"""For the provider's hook while it reads Spark's output: the hook logs every line, and lines may quote rows."""
_SILENT.disabled = True


class SparkApplicationHook(SparkSubmitHook):
    """
    Runs one of the applications in ``spark_apps`` to its end.

    :param spark_conn_id: a Spark connection; ``None`` runs on this machine, with all its cores.
    :param conf: Spark configuration, added to this package's own.
    :param storage_options: options of the object store, for the application's environment.
    :param name: the application's name.
    :param rows: the most rows that the application reads, if known.
    :param connections: the environment variables of the connections that the application needs.
    :raises InvalidConnectionError: if the connection is missing, or cannot keep storage options or connections secret.
    """

    def __init__(
        self,
        *,
        spark_conn_id: str | None = None,
        conf: Mapping[str, Any] | None = None,
        storage_options: Mapping[str, str] | None = None,
        name: str = "airflow-backfill",
        rows: int | None = None,
        connections: Mapping[str, str] | None = None,
    ) -> None:
        self._connections = dict(connections or {})
        self._spark_conn_id = spark_conn_id
        super().__init__(conn_id=spark_conn_id or "", conf=dict(conf or {}), name=name)
        self._storage_options = dict(storage_options or {})
        self._output: WatchedOutput | None = None
        self._killed = False
        self._conf = spark_conf(self._connection["master"], self._conf, rows=rows)
        for key, value in self._conf.items():
            if _SECRET_CONF.search(key):
                mask_secret(str(value))
        if self._storage_options and self._is_cluster:
            raise InvalidConnectionError(
                f"Spark connection {spark_conn_id} has deploy mode cluster, where the storage options of the backfill "
                "connection would have to be on a command line; use deploy mode client, or give the cluster its own "
                "credentials (an instance profile, spark.hadoop settings) and leave storage_options out"
            )
        if self._connections and self._is_cluster:
            raise InvalidConnectionError(
                f"Spark connection {spark_conn_id} has deploy mode cluster, where the connection of the upstream would "
                "have to be on a command line; use deploy mode client"
            )

    @property
    def _is_cluster(self) -> bool:
        return bool(self._connection["deploy_mode"] == "cluster")

    def run(self, application: str, arguments: Sequence[str], output: WatchedOutput) -> None:
        """
        Submit an application and wait until it ends.

        :param application: file name in ``spark_apps``.
        :param arguments: its arguments.
        :param output: takes the output of Spark, which may quote rows.
        :raises SparkUnavailableError: if there is no Java.
        :raises AirflowFailException: if it failed for good.
        :raises AirflowException: if it failed and may be tried again.
        """
        require_java()
        self._application_args = list(arguments)
        self._output = output
        try:
            # Its own session, so that ending it ends the JVM and its Python, and nothing else.
            self.submit(str(application_path(application)), env=self.environment(), start_new_session=True)
        except AirflowException:
            if self._submit_sp is None:
                raise
            # Without a cause: the message of the provider's error has lines of Spark's output.
            raise self._failure(output) from None
        except FileNotFoundError as error:
            raise SparkUnavailableError(
                f"there is no {self._connection['spark_binary']} on the PATH; install "
                "airflow-backfill-provider[spark], or set spark-binary in the Spark connection"
            ) from error
        finally:
            # A timeout and Ctrl-C reach only this process.
            self._end_processes()

    def command(self, application: str, arguments: Sequence[str]) -> list[str]:
        """
        Return the command line that runs an application to its end; the exit code is the result.

        :param application: file name in ``spark_apps``.
        :param arguments: its arguments.
        :raises SparkUnavailableError: if there is no Java.
        """
        require_java()
        if self._is_cluster:
            # Only the hook itself can find out the result of a driver on the cluster.
            return [sys.executable, "-u", "-m", SUBMISSION_MODULE, application, *arguments]
        self._application_args = list(arguments)
        return self._build_spark_submit_command(str(application_path(application)))

    def environment(self) -> dict[str, str]:
        """Return the environment of :meth:`command`; it holds secrets."""
        # The worker's own values must not reach the application, even if the connections have none.
        inherited = inherited_environment(_SET_BY_CONNECTION)
        environment = {**inherited, **spark_environment(), **storage_options_to_environment(self._storage_options)}
        environment.update(self._connections)
        if self._is_cluster:
            connection = self.get_connection(str(self._spark_conn_id))
            environment.update(submission_environment(connection, self._conf, self._name))
        return environment

    def on_kill(self) -> None:
        """End the application, even while it starts: all its processes on this machine, or its driver on a cluster."""
        self._killed = True
        if self._is_cluster:
            super().on_kill()
        self._end_processes()

    def _resolve_connection(self) -> dict[str, Any]:
        if self._spark_conn_id is None:
            return {
                "master": LOCAL_MASTER,
                "queue": None,
                "deploy_mode": None,
                "spark_binary": DEFAULT_SPARK_BINARY,
                "namespace": None,
                "principal": None,
                "keytab": None,
                "rest_scheme": "http",
                "rest_port": 6066,
                "rest_endpoint": None,
            }
        try:
            self.get_connection(self._spark_conn_id)
        except AirflowNotFoundException:
            # The provider's hook would submit to YARN instead.
            raise InvalidConnectionError(
                f"there is no Spark connection {self._spark_conn_id}; create it, or leave spark_conn_id out to run "
                f"on the worker ({LOCAL_MASTER})"
            ) from None
        return super()._resolve_connection()

    def _build_spark_submit_command(self, application: str) -> list[str]:
        # Fold the command in the UI, because it is far longer than the rest of the task's log.
        self.log.info("::group::How Spark is submitted")
        command: list[str] = super()._build_spark_submit_command(application)
        self.log.info("::endgroup::")
        return command

    def _process_spark_submit_log(self, itr: Iterator[Any]) -> None:
        if self._killed:
            # on_kill was called before the process existed.
            self._end_processes()
        log, self._log = self.log, cast("Any", _SILENT)
        try:
            super()._process_spark_submit_log(self._watched(itr))
        finally:
            self._log = log
        for identity in (self._yarn_application_id, self._kubernetes_driver_pod, self._driver_id):
            if identity:
                self.log.info("Spark's id of the application is %s", identity)

    def _watched(self, lines: Iterator[str]) -> Iterator[str]:
        """
        Pass the output of Spark on to the provider, which looks for ids in it, and write it to its file.

        A line is written after the provider has read it: whoever sees an id there may kill the application by it.
        """
        for line in lines:
            try:
                yield line
            finally:
                if self._output is not None:
                    self._output.read(line)

    def _mask_cmd(self, connection_cmd: str | list[str]) -> str:
        if isinstance(connection_cmd, str):
            return super()._mask_cmd(connection_cmd)
        # One argument after another: in a joined command, the provider's mask may hide the arguments that follow.
        return " ".join(super(SparkApplicationHook, self)._mask_cmd(_masked(argument)) for argument in connection_cmd)

    def _failure(self, output: WatchedOutput) -> AirflowException:
        # On Kubernetes, only the output has the driver's exit code.
        code = self._spark_exit_code or (self._submit_sp and self._submit_sp.returncode) or None
        return airflow_error(output.reason(code), retryable=code != FAILED_FOR_GOOD)

    def _end_processes(self) -> None:
        if self._submit_sp is not None:
            end_group(self._submit_sp, KILL_GRACE_SECONDS)


def application_path(application: str) -> Path:
    """
    Return the path of an application, in the installed package or beside it in a checkout.

    :raises InstallationError: if it is in neither.
    """
    path = shipped_folder("spark_apps") / application
    if not path.is_file():
        raise InstallationError(
            f"{application} is missing from the installation at {PACKAGE}; install airflow-backfill-provider again"
        )
    return path


def _masked(argument: str) -> str:
    name, equals, _ = argument.partition("=")
    return f"{name}{equals}******" if equals and _SECRET_CONF.search(name) else argument
