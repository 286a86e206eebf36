"""The address of a database: whatever its parts contain, each is only what it is."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import DatabaseRefusedError
from airflow_backfill_provider.sources.shared.postgresql.jdbc_address import jdbc_address, require_host


@pytest.mark.parametrize(
    ("host", "database", "expected"),
    [
        ("db.example.com", "shop", "jdbc:postgresql://db.example.com:5432/shop?a=b"),
        ("10.0.0.1", "shop", "jdbc:postgresql://10.0.0.1:5432/shop?a=b"),
        ("::1", "shop", "jdbc:postgresql://[::1]:5432/shop?a=b"),
        ("localhost", "my db/1?x=%2&y", "jdbc:postgresql://localhost:5432/my%20db%2F1%3Fx%3D%252%26y?a=b"),
        ("localhost", "shop?socketFactory=x", "jdbc:postgresql://localhost:5432/shop%3FsocketFactory%3Dx?a=b"),
        ("localhost", "ä;#+\\", "jdbc:postgresql://localhost:5432/%C3%A4%3B%23%2B%5C?a=b"),
    ],
)
def test_a_database_of_any_name_adds_no_option(host, database, expected):
    require_host("shop_db", host)
    assert jdbc_address(host, "5432", database, {"a": "b"}) == expected


def test_options_are_quoted():
    address = jdbc_address("localhost", "5432", "shop", {"options": "-c x=a\\ b&c"})
    assert address.endswith("?options=-c%20x%3Da%5C%20b%26c")


@pytest.mark.parametrize("host", ["/var/run/postgresql", "@abstract", ""])
def test_a_unix_socket_is_refused_with_what_to_do(host):
    with pytest.raises(DatabaseRefusedError, match="shop_db: .* Unix socket .* name the server's host"):
        require_host("shop_db", host)


@pytest.mark.parametrize(
    "host", ["a/b", "a?socketFactory=x", "a:5432/other?x=y", "a,b", "a b", "a#b", "a&b", "a\nb", "user@host"]
)
def test_a_host_that_would_be_read_as_something_else_is_refused(host):
    with pytest.raises(DatabaseRefusedError, match="neither a host's name nor an address"):
        require_host("shop_db", host)


@pytest.mark.parametrize(
    "host", ["localhost", "db-1.internal", "db_1", "::1", "fe80::1%eth0", "2001:db8::ff00:42:8329"]
)
def test_names_and_addresses_of_hosts_are_accepted(host):
    require_host("shop_db", host)
