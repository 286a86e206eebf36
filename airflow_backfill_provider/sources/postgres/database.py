"""
Connects to PostgreSQL, for everything that needs no Spark: the catalog, the replication slot, the log.

Every session writes values in one form, whatever the server's or the role's settings are, because values are compared
and parsed as text.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import conninfo, errors
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from airflow_backfill_provider.core.connections import connection_fields, variable_of
from airflow_backfill_provider.core.errors import DatabaseRefusedError, DatabaseUnavailableError, InvalidJobError

SESSION_SETTINGS = {
    "client_encoding": "UTF8",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "iso_8601",
    "TimeZone": "UTC",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "xmloption": "content",
    "search_path": "pg_catalog",
}
"""The settings that the text of a value depends on."""

_KINDS = frozenset({"postgres", "postgresql"})

_SSL = ("sslmode", "sslrootcert", "sslcert", "sslkey")
"""The extras of a connection about TLS, under libpq's names."""

_CONNECT_SECONDS = 10
_ATTEMPTS = 4

_BUSY = (errors.ObjectInUse,)
"""Another process uses the slot at the moment."""

_OUTAGES = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.TooManyConnections,
    errors.ConnectionException,
    errors.QueryCanceled,
    errors.DeadlockDetected,
    errors.SerializationFailure,
)


class SlotInUseError(DatabaseUnavailableError):
    """Another process uses the replication slot, such as one that was killed a moment ago."""


@dataclass(frozen=True, slots=True)
class Database:
    """
    A PostgreSQL database.

    :param connection_id: id of an Airflow connection; without Airflow, also the name of a service in libpq's service
        file.
    """

    connection_id: str

    def parameters(self) -> dict[str, str]:
        """
        Return libpq's parameters of the connection; they hold the password.

        :raises InvalidJobError: if there is no such connection, or it is of another type.
        """
        fields = connection_fields(self.connection_id)
        if fields is None:
            return self._of_service()
        if fields.kind not in _KINDS:
            raise InvalidJobError(
                f"connection {self.connection_id} is of type {fields.kind or 'unknown'}, not postgres; name a "
                "connection to PostgreSQL"
            )
        ssl = {name: str(fields.extra[name]) for name in _SSL if fields.extra.get(name)}
        given = {
            "host": fields.host,
            "port": "" if fields.port is None else str(fields.port),
            "dbname": fields.schema,
            "user": fields.login,
            "password": fields.password,
            **ssl,
        }
        return {name: value for name, value in given.items() if value}

    @contextmanager
    def session(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        """
        Connect, in autocommit mode.

        :raises DatabaseUnavailableError: if the server does not answer, or ends the connection.
        :raises DatabaseRefusedError: if it refuses the login, or a statement for lack of rights.
        """
        with self._translated(), self._connected() as connection:
            yield connection

    @retry(
        retry=retry_if_exception_type(DatabaseUnavailableError),
        wait=wait_random_exponential(multiplier=0.2, max=5),
        stop=stop_after_attempt(_ATTEMPTS),
        reraise=True,
    )
    def _connected(self) -> psycopg.Connection[tuple[Any, ...]]:
        options = " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in SESSION_SETTINGS.items())
        with self._translated():
            return psycopg.connect(
                conninfo.make_conninfo(
                    **self.parameters(),
                    options=options,
                    connect_timeout=str(_CONNECT_SECONDS),
                    application_name="airflow_backfill",
                ),
                autocommit=True,
            )

    def _of_service(self) -> dict[str, str]:
        try:
            return {
                name: str(value)
                for name, value in conninfo.conninfo_to_dict(service=self.connection_id).items()
                if value is not None
            }
        except psycopg.Error:
            raise self._no_connection() from None

    def _no_connection(self) -> InvalidJobError:
        return InvalidJobError(
            f"upstream.postgres.connection: there is no connection {self.connection_id}; add it in Airflow, or set "
            f"{variable_of(self.connection_id)}, or name a service of libpq's service file"
        )

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except _BUSY as error:
            raise SlotInUseError(
                f"{self.connection_id}: another process is using the replication slot ({_line(error)}); try again"
            ) from error
        except errors.InsufficientPrivilege as error:
            raise DatabaseRefusedError(
                f"{self.connection_id}: the login lacks a right ({_line(error)}); grant it, see "
                "docs/how-to/backfill-from-postgresql.md"
            ) from error
        except (errors.InvalidPassword, errors.InvalidAuthorizationSpecification) as error:
            raise DatabaseRefusedError(
                f"{self.connection_id}: the server refuses the login ({_line(error)}); check the connection's user and "
                "password"
            ) from error
        except psycopg.OperationalError as error:
            raise self._unavailable(error) from error
        except _OUTAGES as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: psycopg.Error) -> DatabaseUnavailableError | DatabaseRefusedError | InvalidJobError:
        text = _line(error)
        if "definition of service" in text:
            # libpq looks services up when it connects.
            return self._no_connection()
        if "password authentication failed" in text or "no pg_hba.conf entry" in text:
            return DatabaseRefusedError(
                f"{self.connection_id}: the server refuses the login ({text}); check the connection's user and password"
            )
        return DatabaseUnavailableError(
            f"{self.connection_id}: the database does not answer ({text}); nothing is lost, try again"
        )


def _line(error: Exception) -> str:
    """Return the first line of an error; the others quote the statement."""
    return str(error).strip().partition("\n")[0]
