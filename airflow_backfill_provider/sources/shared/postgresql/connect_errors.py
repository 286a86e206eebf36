"""
What it means if a connection to PostgreSQL cannot be made.

Neither driver passes on a code of such an error, so it is found by the server's words. An error that nobody can correct
but by waiting is one that the server does not answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from psycopg import sql

from airflow_backfill_provider.core.errors import DatabaseRefusedError, DatabaseUnavailableError

_OF_TLS = re.compile(r"certificate|certification path|host ?name .* verif|does not support SSL", re.IGNORECASE)
"""Messages of both drivers about a connection that is not as secure as the extras ask for."""

_OF_CLIENT = re.compile(r"SSL key|private key|key manager|client certificate|SSL certificate file", re.IGNORECASE)
"""Messages of both drivers and of the server about the certificate of the client, or its key."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    """
    Why a server refuses a connection.

    :param words: what the server or the driver says.
    :param problem: what is wrong and what to do; a group of the words is put in as a name of SQL.
    """

    words: re.Pattern[str]
    problem: str


_REFUSALS = (
    _Refusal(
        words=_OF_CLIENT,
        problem="the client's certificate cannot be used ({text}); let sslcert and sslkey name it and its key, an RSA "
        "key in PKCS-8 without a password, which only its owner may read",
    ),
    _Refusal(
        words=_OF_TLS,
        problem="the connection is not as secure as it has to be ({text}); check its host, and its extras sslmode and "
        "sslrootcert",
    ),
    _Refusal(
        words=re.compile(r'database ".*" does not exist'),
        problem="there is no such database ({text}); correct the connection's database, which is its schema in Airflow",
    ),
    _Refusal(
        words=re.compile(r'permission denied for database "(?P<database>.*)"'),
        problem="the login may not connect to the database ({text}); run: GRANT CONNECT ON DATABASE {database} TO "
        "{user}",
    ),
    _Refusal(
        words=re.compile(r'database "(?P<database>.*)" is not currently accepting connections'),
        problem="the database lets nobody in ({text}); name another one, or run: ALTER DATABASE {database} "
        "ALLOW_CONNECTIONS true",
    ),
    _Refusal(
        words=re.compile(r'role "(?P<role>.*)" is not permitted to log in'),
        problem="the role may not log in ({text}); run: ALTER ROLE {role} LOGIN",
    ),
    _Refusal(
        words=re.compile(r"conversion between UTF8 and \w+ is not supported"),
        problem="the database's encoding has no conversion to Unicode ({text}); copy the database into one in UTF8",
    ),
    _Refusal(words=re.compile(r"permission denied for"), problem="the login lacks a right ({text}); grant it"),
    _Refusal(
        words=re.compile(r'password authentication failed|no pg_hba\.conf entry|role ".*" does not exist'),
        problem="the server refuses the login ({text}); check the connection's user and password",
    ),
)


def line_to_show(error: Exception) -> str:
    """Return the line of an error that says the most."""
    # Of a host with several addresses, the first line may be about another one.
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return next((line for refusal in _REFUSALS for line in lines if refusal.words.search(line)), lines[0])


def not_connected(connection_id: str, text: str, *, user: str = "") -> DatabaseUnavailableError | DatabaseRefusedError:
    """
    Return the error for a connection that could not be made.

    :param text: one line of the server or the driver.
    :param user: the login, as far as it is known.
    """
    for refusal in _REFUSALS:
        if found := refusal.words.search(text):
            names = {name: _quoted(value) for name, value in {"user": user or "…", **found.groupdict()}.items()}
            return DatabaseRefusedError(f"{connection_id}: {refusal.problem.format(text=text, **names)}")
    return DatabaseUnavailableError(
        f"{connection_id}: the database does not answer ({text}); nothing is lost, try again"
    )


def _quoted(name: str) -> str:
    return sql.Identifier(name).as_string()
