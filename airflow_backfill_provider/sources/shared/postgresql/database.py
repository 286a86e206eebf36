"""
Connects to PostgreSQL, for everything that needs no Spark: the catalog, the replication slot, the log.

Every session has the same settings, whatever those of the server or the role are.
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

from airflow_backfill_provider.core.errors import DatabaseRefusedError, DatabaseUnavailableError, InvalidJobError
from airflow_backfill_provider.core.job.connections import connection_fields, variable_of
from airflow_backfill_provider.core.site import page
from airflow_backfill_provider.sources.shared.postgresql import session_settings
from airflow_backfill_provider.sources.shared.postgresql.connect_errors import line_to_show, not_connected
from airflow_backfill_provider.sources.shared.postgresql.jdbc_address import require_host

_KINDS = frozenset({"postgres", "postgresql"})

_SSL = ("sslmode", "sslrootcert", "sslcert", "sslkey")
"""The extras of a connection about TLS, under libpq's names."""

_NO_SERVICE = re.compile(r"definition of service .* not found|service file .* not found")
"""Messages of libpq about a name that is no service."""

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

_OF_A_VALUE = ("22", "23", "44", "P0", "XX")
"""Classes of errors whose messages may quote values of rows."""


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
            require_host(self.connection_id, info.host)
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
        with self._translated():
            connection = psycopg.connect(
                conninfo.make_conninfo(
                    **self.parameters(),
                    options=session_settings.startup_options(),
                    connect_timeout=str(_CONNECT_SECONDS),
                    application_name="airflow_backfill",
                ),
                autocommit=True,
            )
            try:
                self._require_usable(connection)
                # libpq sends what its environment says after the options.
                connection.execute(session_settings.statements().encode())
            except BaseException:
                connection.close()
                raise
            return connection

    def _require_usable(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        """Refuse a server that cannot do what is needed; by default none."""

    def jdbc_failed(self, text: str) -> DatabaseUnavailableError | DatabaseRefusedError:
        """Return the error for a connection that the JDBC driver could not make, although libpq could."""
        return not_connected(self.connection_id, f"the JDBC driver says: {text}")

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
                f"{page('how-to/backfill-from-postgresql')}"
            ) from error
        except (errors.InvalidPassword, errors.InvalidAuthorizationSpecification) as error:
            raise DatabaseRefusedError(
                f"{self.connection_id}: the server refuses the login ({_line(error)}); check the connection's user and "
                "password"
            ) from error
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise self._unavailable(error) from error
        except _OUTAGES as error:
            raise self._unavailable(error) from error
        except psycopg.Error as error:
            raise DatabaseRefusedError(
                f"{self.connection_id}: the database refuses a statement ({_described(error)}); correct what it says, "
                "and try again"
            ) from error

    def _unavailable(self, error: psycopg.Error) -> DatabaseUnavailableError | DatabaseRefusedError | InvalidJobError:
        if _NO_SERVICE.search(str(error)):
            # libpq looks services up when it connects.
            return self._no_connection()
        return not_connected(self.connection_id, line_to_show(error), user=self.parameters().get("user", ""))


@dataclass(frozen=True, slots=True)
class PrimaryDatabase(Database):
    """A PostgreSQL database on a server that is no standby."""

    def _require_usable(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        """
        Refuse a standby, also one of PostgreSQL 16, which may have slots: nobody can write a mark there.

        :raises DatabaseRefusedError: with what to do.
        """
        if connection.info.parameter_status("in_hot_standby") == "on":
            raise DatabaseRefusedError(
                f"{self.connection_id}: the server at {connection.info.host} is a standby, and a job writes marks into "
                "the log, which only the primary does; let the connection name the primary"
            )


def _described(error: psycopg.Error) -> str:
    """Return the first line of an error, or its name if the line may quote a value."""
    may_quote = error.sqlstate is None or error.sqlstate.startswith(_OF_A_VALUE)
    return type(error).__name__ if may_quote else _line(error)


def _line(error: Exception) -> str:
    """Return the first line of an error; the others quote the statement."""
    return str(error).strip().partition("\n")[0]
