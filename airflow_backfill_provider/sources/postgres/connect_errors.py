"""
What it means if a connection to PostgreSQL cannot be made.

Neither driver passes on a code of such an error, so it is found by the server's words. An error that nobody can correct
but by waiting is one that the server does not answer.
"""

from __future__ import annotations

import re

from psycopg import sql

from airflow_backfill_provider.core.errors import DatabaseRefusedError, DatabaseUnavailableError

_OF_TLS = re.compile(r"certificate|certification path|host ?name .* verif|does not support SSL", re.IGNORECASE)
"""Messages of both drivers about a connection that is not as secure as the extras ask for."""

_OF_CLIENT = re.compile(r"SSL key|private key|key manager|client certificate|SSL certificate file", re.IGNORECASE)
"""Messages of both drivers and of the server about the certificate of the client, or its key."""

_LOGIN = "the server refuses the login ({text}); check the connection's user and password"

_REFUSALS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        _OF_CLIENT,
        "the client's certificate cannot be used ({text}); let sslcert and sslkey name it and its key, an RSA key in "
        "PKCS-8 without a password, which only its owner may read",
    ),
    (
        _OF_TLS,
        "the connection is not as secure as it has to be ({text}); check its host, and its extras sslmode and "
        "sslrootcert",
    ),
    (
        re.compile(r'database "(?P<database>.*)" does not exist'),
        "there is no such database ({text}); correct the connection's database, which is its schema in Airflow",
    ),
    (
        re.compile(r'permission denied for database "(?P<database>.*)"'),
        "the login may not connect to the database ({text}); run: GRANT CONNECT ON DATABASE {database} TO {user}",
    ),
    (
        re.compile(r'database "(?P<database>.*)" is not currently accepting connections'),
        "the database lets nobody in ({text}); name another one, or run: ALTER DATABASE {database} ALLOW_CONNECTIONS "
        "true",
    ),
    (
        re.compile(r'role "(?P<role>.*)" is not permitted to log in'),
        "the role may not log in ({text}); run: ALTER ROLE {role} LOGIN",
    ),
    (
        re.compile(r'conversion between UTF8 and (?P<encoding>\w+) is not supported'),
        "the database's encoding has no conversion to Unicode ({text}); copy the database into one in UTF8",
    ),
    (re.compile(r"permission denied for"), "the login lacks a right ({text}); grant it"),
    (re.compile(r'password authentication failed|no pg_hba\.conf entry|role ".*" does not exist'), _LOGIN),
)
"""The server's or the driver's words → what is wrong and what to do; a name in the words is quoted for SQL."""


def line_to_show(error: Exception) -> str:
    """Return the line of an error that says the most."""
    # Of a host with several addresses, the first line may be about another one.
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return next((line for pattern, _ in _REFUSALS for line in lines if pattern.search(line)), lines[0])


def not_connected(
    connection_id: str, text: str, *, user: str = ""
) -> DatabaseUnavailableError | DatabaseRefusedError:
    """
    Return the error for a connection that could not be made.

    :param text: one line of the server or the driver.
    :param user: the login, as far as it is known.
    """
    for pattern, problem in _REFUSALS:
        if found := pattern.search(text):
            names = {name: _quoted(value) for name, value in {"user": user or "…", **found.groupdict()}.items()}
            return DatabaseRefusedError(f"{connection_id}: {problem.format(text=text, **names)}")
    return DatabaseUnavailableError(
        f"{connection_id}: the database does not answer ({text}); nothing is lost, try again"
    )


def _quoted(name: str) -> str:
    return sql.Identifier(name).as_string()
