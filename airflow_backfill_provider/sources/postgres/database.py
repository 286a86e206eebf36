"""
Connects to PostgreSQL, for everything that needs no Spark: the catalog, the replication slot, the log.

Every session writes values in one form, whatever the server's or the role's settings are, because values are compared
and parsed as text.
"""

from __future__ import annotations

import re
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

_NO_SERVICE = re.compile(r"definition of service .* not found|service file .* not found")
"""Messages of libpq about a name that is no service."""

_OF_TLS = re.compile(r"certificate|certification path|host ?name .* verif|does not support SSL", re.IGNORECASE)
"""Messages of both drivers about a connection that is not as secure as the extras ask for."""

_OF_CLIENT = re.compile(r"SSL key|private key|key manager|client certificate|SSL certificate file", re.IGNORECASE)
"""Messages of both drivers and of the server about the certificate of the client, or its key."""

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
        Return libpq's parameters of the connection; they hold the password, unless they only name a service.

        :raises InvalidJobError: if the connection is of another type.
        """
        fields = connection_fields(self.connection_id)
        if fields is None:
            return {"service": self.connection_id}
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

    def resolved_parameters(self) -> dict[str, str]:
        """
        Return the parameters as libpq resolves them, for a driver that does not read libpq's files and variables.

        :raises DatabaseUnavailableError: as :meth:`session` does.
        """
        with self.session() as connection:
            info = connection.info
            given = info.get_parameters()
            return {
                "host": info.host,
                "port": str(info.port),
                "dbname": info.dbname,
                "user": info.user,
                "password": info.password,
                **{name: given[name] for name in _SSL if name in given},
            }

    @contextmanager
    def session(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        """
        Connect, in autocommit mode.

        :raises DatabaseUnavailableError: if the server does not answer, or ends the connection.
        :raises DatabaseRefusedError: if it refuses the login, or a statement for lack of rights.
        :raises InvalidJobError: if there is no such connection.
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

    def jdbc_failed(self, text: str) -> DatabaseUnavailableError | DatabaseRefusedError:
        """Return the error for a connection that the JDBC driver could not make, although libpq could."""
        return self._not_connected(f"the JDBC driver says: {text}")

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
        if _NO_SERVICE.search(str(error)):
            # libpq looks services up when it connects.
            return self._no_connection()
        # Of a host with several addresses, the first line may be about another one.
        lines = str(error).strip().splitlines()
        about_tls = (line for line in lines if _OF_CLIENT.search(line) or _OF_TLS.search(line))
        return self._not_connected(next(about_tls, _line(error)))

    def _not_connected(self, text: str) -> DatabaseUnavailableError | DatabaseRefusedError:
        if _OF_CLIENT.search(text):
            return DatabaseRefusedError(
                f"{self.connection_id}: the client's certificate cannot be used ({text}); let sslcert and sslkey name "
                "it and its key, an RSA key in PKCS-8 without a password, which only its owner may read"
            )
        if _OF_TLS.search(text):
            return DatabaseRefusedError(
                f"{self.connection_id}: the connection is not as secure as it has to be ({text}); check its host, and "
                "its extras sslmode and sslrootcert"
            )
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
