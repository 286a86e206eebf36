"""Why a connection cannot be made, in one line with what to do; only what passes by itself counts as an outage."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import DatabaseRefusedError, DatabaseUnavailableError
from airflow_backfill_provider.sources.shared.postgresql.connect_errors import line_to_show, not_connected


@pytest.mark.parametrize(
    ("text", "to_do"),
    [
        ('FATAL:  database "shop" does not exist', "there is no such database"),
        ('FATAL:  permission denied for database "a"b"', 'GRANT CONNECT ON DATABASE "a""b" TO "reader"'),
        ('FATAL:  database "shop" is not currently accepting connections', 'ALTER DATABASE "shop" ALLOW_CONNECTIONS'),
        ('FATAL:  role "reader" is not permitted to log in', 'ALTER ROLE "reader" LOGIN'),
        ('FATAL:  role "reader" does not exist', "the server refuses the login"),
        ('FATAL:  password authentication failed for user "reader"', "check the connection's user and password"),
        ('FATAL:  no pg_hba.conf entry for host "10.0.0.1"', "check the connection's user and password"),
        ("FATAL:  conversion between UTF8 and MULE_INTERNAL is not supported", "copy the database into one in UTF8"),
        ("SSL error: certificate verify failed", "sslrootcert"),
        ("could not load private key file", "sslkey"),
    ],
)
def test_what_waiting_does_not_cure_is_refused_with_what_to_do(text, to_do):
    error = not_connected("shop_db", text, user="reader")
    assert isinstance(error, DatabaseRefusedError)
    assert str(error).startswith("shop_db: ")
    assert to_do in str(error)
    assert text in str(error)


@pytest.mark.parametrize(
    "text",
    [
        "connection refused",
        "FATAL:  the database system is starting up",
        "FATAL:  sorry, too many clients already",
        'FATAL:  too many connections for role "reader"',
        "could not translate host name",
    ],
)
def test_what_waiting_may_cure_is_an_outage(text):
    error = not_connected("shop_db", text)
    assert isinstance(error, DatabaseUnavailableError)
    assert str(error) == f"shop_db: the database does not answer ({text}); nothing is lost, try again"


def test_of_several_lines_the_one_that_says_the_most_is_shown():
    """Of a host with several addresses, the first line may be about another one."""
    error = OSError('connection refused\nFATAL:  database "shop" does not exist\nhint')
    assert line_to_show(error) == 'FATAL:  database "shop" does not exist'
    assert line_to_show(OSError("connection refused\nhint")) == "connection refused"
    assert line_to_show(OSError()) == "OSError"
