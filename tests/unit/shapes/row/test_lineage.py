"""Where a view's columns come from."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.shapes.queries import ColumnOrigin
from airflow_backfill_provider.shapes.row.query import check_query

COLUMNS = ("id", "Status", "amount", "address")


def query_lineage(text, columns, key):
    return check_query(text).lineage(columns, key, ())


def origins(query, key=("id",)):
    return {name: (o.inputs, o.unchanged) for name, o in query_lineage(query, COLUMNS, key).columns.items()}


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        ("id", {"id": (("id",), True)}),
        ("id, amount AS cents", {"id": (("id",), True), "cents": (("amount",), True)}),
        ("id, amount * 100 AS cents", {"id": (("id",), True), "cents": (("amount",), False)}),
        ("id, STATUS", {"id": (("id",), True), "STATUS": (("Status",), True)}),
        (
            "id, concat(status, cast(amount AS string), status) AS s",
            {"id": (("id",), True), "s": (("Status", "amount"), False)},
        ),
        ("id, 1 AS one", {"id": (("id",), True), "one": ((), False)}),
        ("id, upstream.amount", {"id": (("id",), True), "amount": (("amount",), True)}),
        ("id, IDENTIFIER('upstream.amount') AS a", {"id": (("id",), True), "a": (("amount",), False)}),
        ("id, address.city", {"id": (("id",), True), "city": (("address",), False)}),
        ("id, upstream.address.address AS a", {"id": (("id",), True), "a": (("address",), False)}),
        (
            "id, amount + 1 AS more, more * 2 AS most",
            {"id": (("id",), True), "more": (("amount",), False), "most": (("amount",), False)},
        ),
        ("id, amount + 1, upper('now'), CAST(amount AS INT)", {"id": (("id",), True), "amount": (("amount",), False)}),
        ("id, user", {"id": (("id",), True), "user": ((), False)}),
        ("id, transform(address, x -> x + amount) AS t", {"id": (("id",), True), "t": (("amount", "address"), False)}),
    ],
)
def test_a_column_comes_from_the_columns_in_its_expression(select, expected):
    assert origins(f"SELECT {select} FROM upstream") == expected


@pytest.mark.parametrize(
    ("star", "expected"),
    [
        ("*", {"id": True, "Status": True, "amount": True, "address": True}),
        ("upstream.*", {"id": True, "Status": True, "amount": True, "address": True}),
        ("* EXCEPT (status, ADDRESS)", {"id": True, "amount": True}),
        (
            "* REPLACE (amount * 2 AS amount, status AS address)",
            {"id": True, "Status": True, "amount": False, "address": True},
        ),
        ("*, amount + 1 AS more", {"id": True, "Status": True, "amount": True, "address": True, "more": False}),
        ("id, address.*", {"id": True}),
    ],
)
def test_a_star_is_every_column_as_it_is(star, expected):
    found = origins(f"SELECT {star} FROM upstream")
    assert {name: unchanged for name, (_, unchanged) in found.items()} == expected


def test_an_alias_of_the_relation_is_no_column():
    assert origins("SELECT u.id, u.amount + u.id AS sum FROM upstream AS u") == {
        "id": (("id",), True),
        "sum": (("id", "amount"), False),
    }


def test_a_key_that_the_query_drops_is_kept_in_a_hidden_column():
    assert origins("SELECT amount FROM upstream")["__key_id"] == (("id",), True)


@pytest.mark.parametrize(
    ("where", "expected"),
    [("", ()), ("WHERE status = 'paid' AND amount > 0", ("Status", "amount")), ("WHERE 1 = 1", ())],
)
def test_a_filter_decides_over_whole_rows(where, expected):
    assert query_lineage(f"SELECT id FROM upstream {where}", COLUMNS, ("id",)).filtered_by == expected


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, c + 1 AS more, Status FROM ({}) WHERE c > 1",
        "WITH t AS ({}) SELECT id, c + 1 AS more, status FROM t WHERE t.c > 1",
        "{} |> WHERE c > 1 |> EXTEND c + 1 AS more |> DROP c",
    ],
)
def test_a_column_is_followed_through_every_level(query):
    inner = "SELECT id, amount AS c, Status FROM upstream WHERE address = 'x'"
    found = query_lineage(query.format(inner), COLUMNS, ("id",))
    columns = {name.lower(): (origin.inputs, origin.unchanged) for name, origin in found.columns.items()}
    assert columns == {"id": (("id",), True), "more": (("amount",), False), "status": (("Status",), True)}
    assert found.filtered_by == ("amount", "address")


def test_an_origin_is_a_value():
    assert ColumnOrigin(("id",), unchanged=True) == ColumnOrigin(("id",), unchanged=True)
