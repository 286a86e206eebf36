"""
Sessions on a Spark Connect server. Releasing a session ends everything that runs in it.

The server goes on with the work of clients that are gone. A client that ends by itself releases its session. A killed
client cannot do that, so the next client with the same purpose does it (:mod:`.connect_engine`).
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import uuid
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, cast

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from airflow_backfill_provider.applications.local_engine.clients import announced
from airflow_backfill_provider.applications.local_engine.engine_files import token_of
from airflow_backfill_provider.applications.local_engine.known_process import KnownProcess
from airflow_backfill_provider.applications.spark_settings import REMOTE_VARIABLE, TOKEN_VARIABLE
from airflow_backfill_provider.core.application import ServerSession
from airflow_backfill_provider.core.errors import SparkServerUnavailableError, SparkSettingError
from airflow_backfill_provider.core.remote import Remote
from airflow_backfill_provider.spark.spark_messages import first_line

if TYPE_CHECKING:
    from pyspark.sql.connect.client import SparkConnectClient

TRIES_TO_REACH = 4
"""About five seconds; a server that does not answer by then is not running."""

TRIES_TO_KEEP = 7
"""About a minute, longer than a short network failure. Spark's own default is ten minutes."""

_MODE_VARIABLE = "SPARK_CONNECT_MODE_ENABLED"
_TERMINATED = 128 + signal.SIGTERM


class ConnectSession:
    """
    A session on a Spark Connect server.

    :param remote: the server.
    :param session: the server's id of the session.
    :param spark: the client of the session.
    """

    def __init__(self, remote: Remote, session: ServerSession, spark: SparkSession) -> None:
        self.remote = remote
        self.session = session
        self.spark = spark


@contextmanager
def connected(remote: Remote, *, what: str, conf: Mapping[str, str] | None = None) -> Iterator[ConnectSession]:
    """
    Open a session on a Spark Connect server for the block, and release it afterwards.

    :param remote: the server. If it has no token, the token comes from this user's own engine, or the environment.
    :param what: the purpose of the session, with which all its work is tagged.
    :param conf: configuration of the session.
    :raises SparkServerUnavailableError: if the server does not answer, or refuses this client.
    :raises SparkSettingError: if sessions do not have one of the settings.
    """
    remote = authenticated(remote)
    session = _new_session(remote)
    with _connect_mode():
        spark = _client(remote, session)
        try:
            _require_server(spark, remote)
            _keep_trying(spark, TRIES_TO_KEEP)
            spark.addTag(_tag(what))
            _configure(spark, conf or {}, remote)
            with announced(remote, session.session_id, what):
                yield ConnectSession(remote, session, spark)
        finally:
            _release(spark)


def server_version(remote: Remote) -> str:
    """
    Return the version of Spark that a server runs.

    :raises SparkServerUnavailableError: as :func:`connected`.
    """
    with connected(remote, what="airflow-backfill engine") as connection:
        return connection.spark.version


def end_session(remote: Remote, session: ServerSession) -> None:
    """End everything that runs in a session of a server. Do nothing if there is no such session."""
    with _connect_mode():
        _release(_client(remote, session))


def interrupt_session(remote: Remote, session: ServerSession) -> None:
    """End what runs in a session of a server now; its client may go on with it."""
    with _connect_mode():
        spark = _client(remote, session)
        try:
            _interrupt(spark)
        finally:
            _client_of(spark).close()


def authenticated(remote: Remote) -> Remote:
    """
    Return a server with its token: that of this user's engine, the given one, or the one in the environment.

    The engine's comes first, because a connection may hold the one of an earlier start.

    :raises SparkServerUnavailableError: if another process listens on the engine's port.
    """
    return remote.with_token(token_of(remote) or remote.token or os.environ.get(TOKEN_VARIABLE))


def remote_from_environment() -> Remote | None:
    """
    Return the server that Spark's environment variable names, if it is set.

    :raises InvalidRemoteError: if the value is not an address.
    """
    url = os.environ.get(REMOTE_VARIABLE)
    return Remote.parse(url) if url else None


@contextmanager
def ended_by_sigterm(spark: SparkSession) -> Iterator[None]:
    """Let SIGTERM end the block like an exception. The session's work is ended first: threads may wait for it."""

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        # Use another thread, because this one may hold a lock of the client.
        threading.Thread(target=_interrupt, args=(spark,), daemon=True).start()
        sys.exit(_TERMINATED)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _connect_mode() -> Iterator[None]:
    """Restore PySpark's mode after the block; it never leaves the mode for clients by itself."""
    before = os.environ.get(_MODE_VARIABLE)
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_MODE_VARIABLE, None)


def _new_session(remote: Remote) -> ServerSession:
    ours = KnownProcess.of(os.getpid())
    return ServerSession(
        server=remote.endpoint,
        user_id=remote.user_id or _user(),
        session_id=str(uuid.uuid4()),
        host=socket.gethostname(),
        pid=os.getpid(),
        started=ours.started if ours else 0.0,
    )


def _client(remote: Remote, session: ServerSession) -> SparkSession:
    """Return a client of a session, without connecting yet."""
    named = remote.with_user(session.user_id)
    # The client logs every attempt to reach the server and every refusal; the raised error is enough.
    logging.getLogger("pyspark.sql.connect.logging").setLevel(logging.CRITICAL)
    spark = SparkSession.builder.remote(named.url(session_id=session.session_id)).create()
    _keep_trying(spark, TRIES_TO_REACH)
    return spark


def _require_server(spark: SparkSession, remote: Remote) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            spark.version  # noqa: B018 - asks the server
    except PySparkException as error:
        # There is no session to release.
        _client_of(spark).close()
        raise SparkServerUnavailableError(_refusal(remote, str(error))) from None


def _refusal(remote: Remote, answer: str) -> str:
    """Return why a server cannot be used."""
    if "UNAUTHENTICATED" in answer or "PERMISSION_DENIED" in answer:
        return (
            f"the Spark Connect server at {remote} refuses this client: its token is "
            f"{'wrong' if remote.token else 'missing'}; put the right token into the connection's password, or into "
            f"{TOKEN_VARIABLE}"
        )
    if "SSL" in answer or "Tls" in answer:
        return (
            f"the Spark Connect server at {remote} does not use TLS, which a token or use_ssl requires; leave them "
            "out, or put TLS in front of it"
        )
    return f"no Spark Connect server answers at {remote}; is it running (airflow-backfill engine start), and reachable?"


def _configure(spark: SparkSession, conf: Mapping[str, str], remote: Remote) -> None:
    for name, value in conf.items():
        try:
            spark.conf.set(name, value)
        except AnalysisException as error:
            raise SparkSettingError(
                f"{name} is not a setting of a session, so the Spark Connect server at {remote} refuses it "
                f"({first_line(error)}); set it where the server is started, and leave it out here"
            ) from None


def _release(spark: SparkSession) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _keep_trying(spark, TRIES_TO_REACH)
        spark.stop()


def _interrupt(spark: SparkSession) -> None:
    try:
        spark.interruptAll()
    except Exception:
        logging.getLogger(__name__).debug("nothing was interrupted", exc_info=True)


def _keep_trying(spark: SparkSession, tries: int) -> None:
    from pyspark.sql.connect.client.retries import DefaultPolicy

    _client_of(spark).set_retry_policies([DefaultPolicy(max_retries=tries)])


def _client_of(spark: SparkSession) -> SparkConnectClient:
    from pyspark.sql.connect.session import SparkSession as ConnectSparkSession

    return cast("ConnectSparkSession", spark).client


def _tag(what: str) -> str:
    """Return a text as a tag; tags must not have commas."""
    return what.replace(",", " ")


def _user() -> str:
    return os.environ.get("SPARK_USER") or os.environ.get("USER") or "airflow-backfill"
