"""Connections as Airflow writes them, in the environment and elsewhere; no message holds a password."""

from __future__ import annotations

import json
import os
from dataclasses import FrozenInstanceError

import pytest
from airflow.sdk import Connection

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job import connections
from airflow_backfill_provider.core.job.connections import (
    ConnectionFields,
    connection_fields,
    parse_connection,
    register_lookup,
    variable_of,
)

SECRET = "hunter2"


@pytest.fixture(autouse=True)
def lookups(monkeypatch):
    """The lookups of one test."""
    monkeypatch.setattr(connections, "_lookups", [])
    return connections._lookups


def parsed(text):
    return parse_connection(text, "AIRFLOW_CONN_SHOP")


AS_IN_AIRFLOW = {
    "nothing": {},
    "host": {"host": "db.example.com"},
    "all": {"host": "db", "port": 5432, "login": "ann", "password": "p", "schema": "shop", "extra": '{"a": "b"}'},
    "no host": {"login": "ann", "password": "p", "schema": "shop"},
    "only a port": {"port": 5432},
    "only a password": {"password": "p", "host": "db"},
    "only extras": {"extra": '{"sslmode": "verify-full", "sslrootcert": "/etc/ssl/a b.pem"}'},
    "extras in an extra": {"host": "db", "extra": '{"sslmode": "require", "nested": {"a": [1, null]}, "on": true}'},
    "extras without a value": {"host": "db", "schema": "shop", "extra": '{"a": ""}'},
    "extras with signs": {"host": "db", "extra": json.dumps({"a": "b&c=d?#", "ü %": "100%"})},
    "signs": {"host": "db", "login": "ann@x:y/z", "password": "p@s:s/w?o#r%d [é]{}\"'\\ +&=", "schema": "s/h?o#p %41"},
    "a password like an escape": {"host": "db", "login": "a", "password": "%2F%41"},
    "a password of colons": {"host": "db", "login": "a", "password": "::@@//"},
    "a password of spaces": {"host": "db", "login": "a", "password": "  "},
    "an address": {"host": "::1", "port": 5433, "schema": "shop"},
    "a socket": {"host": "/var/run/PostgreSQL", "login": "ann", "port": 5432, "schema": "shop"},
}


@pytest.mark.parametrize("fields", AS_IN_AIRFLOW.values(), ids=AS_IN_AIRFLOW)
@pytest.mark.parametrize("form", ["get_uri", "as_json"])
def test_both_forms_that_airflow_writes_are_read_as_airflow_reads_them(form, fields):
    text = getattr(Connection(conn_id="shop", conn_type="postgres", **fields), form)()
    found = parsed(text)
    assert found == ConnectionFields(
        kind="postgres",
        host=fields.get("host", ""),
        port=fields.get("port"),
        login=fields.get("login", ""),
        password=fields.get("password", ""),
        schema=fields.get("schema", ""),
        extra=json.loads(fields.get("extra", "{}")),
    )
    theirs = getattr(Connection, {"get_uri": "from_uri", "as_json": "from_json"}[form])(text, conn_id="shop")
    assert (found.host, found.port, found.login) == (theirs.host or "", theirs.port, theirs.login or "")
    assert (found.password, found.schema) == (theirs.password or "", theirs.schema or "")
    assert found.extra == theirs.extra_dejson


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("postgres://db", ConnectionFields(kind="postgres", host="db")),
        (
            "postgresql://ann@DB:5432/shop",
            ConnectionFields(kind="postgresql", host="db", port=5432, login="ann", schema="shop"),
        ),
        ("postgres:///shop", ConnectionFields(kind="postgres", schema="shop")),
        ("postgres://db/?a=1&a=2", ConnectionFields(kind="postgres", host="db", extra={"a": "2"})),
        (
            "postgres://db/?__extra__=%7B%22a%22%3A+1%7D&ignored=x",
            ConnectionFields(kind="postgres", host="db", extra={"a": 1}),
        ),
        (' {"conn_type": "postgres"} ', ConnectionFields(kind="postgres")),
        ('{"conn_type": "postgres", "port": "5432"}', ConnectionFields(kind="postgres", port=5432)),
        (
            '{"conn_type": "postgres", "host": null, "port": null, "extra": null}',
            ConnectionFields(kind="postgres"),
        ),
        ('{"conn_type": "postgres", "extra": "{\\"a\\": 1}"}', ConnectionFields(kind="postgres", extra={"a": 1})),
        ('{"conn_type": "postgres", "extra": ""}', ConnectionFields(kind="postgres")),
        ("{}", ConnectionFields(kind="")),
    ],
    ids=str,
)
def test_other_spellings(text, expected):
    assert parsed(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        SECRET,
        f"//ann:{SECRET}@db/shop",
        f"postgres://ann:{SECRET}@db:port/shop",
        f"postgres://ann:{SECRET}@db:99999/shop",
        f"postgres://ann:{SECRET}@[db/shop",
        f"postgres://db/?__extra__={SECRET}",
        f"postgres://db/?__extra__=%5B%22{SECRET}%22%5D",
        f'{{"conn_type": "postgres", "password": "{SECRET}"',
        f'{{"conn_type": "postgres", "port": "{SECRET}"}}',
        f'{{"conn_type": "postgres", "extra": "{SECRET}"}}',
        f'{{"conn_type": "postgres", "extra": "[\\"{SECRET}\\"]"}}',
        f'{{"conn_type": "postgres", "extra": ["{SECRET}"]}}',
    ],
    ids=str,
)
def test_what_is_neither_form_is_refused_without_quoting_it(text):
    with pytest.raises(InvalidJobError) as refused:
        parsed(text)
    assert str(refused.value) == (
        "AIRFLOW_CONN_SHOP is neither a connection's URI, such as postgres://user:password@host:5432/database, nor its "
        "JSON"
    )
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


def test_neither_a_password_nor_extras_are_shown():
    found = parsed(f"postgres://ann:{SECRET}@db/shop?sslpassword={SECRET}")
    assert found.password == found.extra["sslpassword"] == SECRET
    assert SECRET not in repr(found)
    assert "db" in repr(found)


def test_fields_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        ConnectionFields(kind="postgres").password = SECRET


def test_a_connection_is_looked_up_in_the_environment_under_airflows_name(monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_MY_SHOP", "postgres://db")
    assert variable_of("my_Shop") == "AIRFLOW_CONN_MY_SHOP"
    assert connection_fields("my_Shop") == ConnectionFields(kind="postgres", host="db")
    assert connection_fields("other") is None


def test_a_broken_variable_is_named(monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", SECRET)
    with pytest.raises(InvalidJobError, match="^AIRFLOW_CONN_SHOP is neither"):
        connection_fields("shop")


def test_lookups_are_asked_one_after_the_other_for_what_the_environment_does_not_have(monkeypatch):
    asked = []
    first, second = ConnectionFields(kind="postgres", host="1"), ConnectionFields(kind="postgres", host="2")

    def lookup(number, known):
        def look(connection_id):
            asked.append((number, connection_id))
            return known.get(connection_id)

        return look

    one, two = lookup(1, {"a": first}), lookup(2, {"a": second, "b": second})
    for each in (one, two, one):
        register_lookup(each)
    assert [connection_fields(name) for name in ("a", "b", "c")] == [first, second, None]
    assert asked == [(1, "a"), (1, "b"), (2, "b"), (1, "c"), (2, "c")]
    monkeypatch.setenv("AIRFLOW_CONN_A", "postgres://3")
    assert connection_fields("a").host == "3"
    assert len(asked) == 5


def test_an_empty_variable_is_as_good_as_none(monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_A", "")
    assert os.environ[variable_of("a")] == ""
    assert connection_fields("a") is None
    register_lookup({"a": ConnectionFields(kind="postgres")}.get)
    assert connection_fields("a") == ConnectionFields(kind="postgres")
