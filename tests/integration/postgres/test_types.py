"""Every scalar type of PostgreSQL comes through exactly, from the table and from the log, or is refused by its name."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError, UnsupportedValueError, UpstreamError
from tests.integration.postgres.shop import Shop

pytestmark = pytest.mark.spark

UTC = dt.UTC
VALUES: dict[str, list[tuple[str, Any]]] = {
    "int2": [("-32768", -32768), ("32767", 32767)],
    "int4": [("-2147483648", -(2**31)), ("2147483647", 2**31 - 1)],
    "int8": [("-9223372036854775808", -(2**63)), ("9223372036854775807", 2**63 - 1)],
    "oid": [("4294967295", 2**32 - 1)],
    "float4": [("1.17549435e-38", 1.1754943508222875e-38), ("'NaN'", math.nan), ("'-Infinity'", -math.inf)],
    "float8": [
        ("0.1", 0.1),
        ("5e-324", 5e-324),
        ("1.7976931348623157e308", 1.7976931348623157e308),
        ("'NaN'", math.nan),
    ],
    "bool": [("true", True), ("false", False)],
    "numeric(38, 10)": [
        ("-9999999999999999999999999999.9999999999", Decimal("-9999999999999999999999999999.9999999999"))
    ],
    "numeric(3, 3)": [("0.001", Decimal("0.001"))],
    "numeric": [("'NaN'", "NaN"), ("1.50", "1.50"), ("'Infinity'", "Infinity"), ("1e-50", f"0.{'0' * 49}1")],
    "numeric(50, 2)": [("1", "1.00")],
    "numeric(5, -2)": [("12345", "12300")],
    "text": [("''", ""), ("'NULL'", "NULL"), (r"E'a\nb\t\\'", "a\nb\t\\"), ("'\u00fc\U0001f600'", "\u00fc\U0001f600")],
    "varchar(5)": [("'ab  '", "ab  ")],
    "char(5)": [("'ab'", "ab   ")],
    "name": [("'x'", "x")],
    "uuid": [("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")],
    "date": [
        ("'1500-02-28'", dt.date(1500, 2, 28)),
        ("'0001-01-01'", dt.date(1, 1, 1)),
        ("'9999-12-31'", dt.date(9999, 12, 31)),
    ],
    "timestamp": [("'1582-10-10 23:59:59.999999'", dt.datetime(1582, 10, 10, 23, 59, 59, 999999))],
    "timestamptz": [
        ("'2026-03-29 02:30:00+01'", dt.datetime(2026, 3, 29, 1, 30, tzinfo=UTC)),
        ("'1500-01-01 00:00:00+00'", dt.datetime(1500, 1, 1, tzinfo=UTC)),
    ],
    "time": [("'23:59:59.999999'", "23:59:59.999999"), ("'24:00'", "24:00:00")],
    "timetz": [("'12:00+02'", "12:00:00+02")],
    "interval": [("'1 year 2 months 3 days 04:05:06.7'", "P1Y2M3DT4H5M6.7S"), ("'-1 day'", "P-1D")],
    "json": [('\'{"b": 1,  "a": [1]}\'', '{"b": 1,  "a": [1]}')],
    "jsonb": [('\'{"b": 1,  "a": [1]}\'', '{"a": [1], "b": 1}')],
    "xml": [("'<a>1</a>'", "<a>1</a>")],
    "bytea": [(r"'\x00ff'", b"\x00\xff"), ("''", b"")],
    "inet": [("'10.0.0.1'", "10.0.0.1"), ("'10.0.0.1/8'", "10.0.0.1/8")],
    "cidr": [("'10.0.0.0/8'", "10.0.0.0/8")],
    "macaddr": [("'08:00:2b:01:02:03'", "08:00:2b:01:02:03")],
    "bit(3)": [("B'101'", "101")],
    "varbit": [("B'1'", "1")],
    "mood": [("'sad'", "sad")],
    "cents": [("1.25", Decimal("1.25"))],
    "int4[]": [("'{1,NULL,-3}'", [1, None, -3]), ("'{}'", [])],
    "text[]": [(r"""'{"a,b","NULL",NULL,"q\"\\ "}'""", ["a,b", "NULL", None, 'q"\\ '])],
    "bool[]": [("'{t,f}'", [True, False])],
    "numeric(6, 2)[]": [("'{1.5,2}'", [Decimal("1.50"), Decimal("2.00")])],
    "timestamptz[]": [("'{2026-01-01 00:00:00+00}'", [dt.datetime(2026, 1, 1, tzinfo=UTC)])],
    "mood[]": [("'{sad,ok}'", ["sad", "ok"])],
    "char(3)[]": [("'{ab}'", ["ab "])],
    "inet[]": [("'{10.0.0.1}'", ["10.0.0.1"])],
}


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, float) and math.isnan(expected):
        return isinstance(found, float) and math.isnan(found)
    if isinstance(found, bytearray):
        found = bytes(found)
    return type(found) is type(expected) and found == expected


def make_orders_of(shop: Shop, texts: Mapping[str, Sequence[str]]) -> tuple[dict[str, str], int, Callable[[int], str]]:
    """
    Make a table with a column of each type.

    :param texts: type → values in SQL.
    :returns: type → column; the most values of a type; and what inserts so many rows, with ids from a number on.
    """
    shop.run_sql("CREATE TYPE mood AS ENUM ('sad', 'ok')", "CREATE DOMAIN cents AS numeric(12, 2)")
    names = {kind: f"c{number}" for number, kind in enumerate(texts)}
    shop.run_sql(
        f"CREATE TABLE orders (id int PRIMARY KEY, {', '.join(f'{name} {kind}' for kind, name in names.items())})"
    )
    most = max(map(len, texts.values()))

    def insert(first: int) -> str:
        rows = [
            f"({first + number}, {', '.join(values[number % len(values)] for values in texts.values())})"
            for number in range(most)
        ]
        return f"INSERT INTO orders VALUES {', '.join(rows)}"

    return names, most, insert


def test_every_scalar_type_comes_through_exactly(shop: Shop) -> None:
    """From a snapshot, from an insert and from an update in the log, and as a null."""
    names, most, insert = make_orders_of(shop, {kind: [text for text, _ in values] for kind, values in VALUES.items()})
    shop.run_sql(insert(0), "INSERT INTO orders (id) VALUES (50), (51)")
    shop.create()
    shop.finish()
    source = ", ".join(f"{name} = o.{name}" for name in names.values())
    shop.run_sql(insert(100), "INSERT INTO orders (id) VALUES (150)")
    shop.run_sql(f"UPDATE orders u SET {source} FROM orders o WHERE u.id = 51 AND o.id = 0")
    assert shop.epoch() is not None
    # With a session in another time zone than the tests' machine, collect() would convert instants.
    view = {row["id"]: row for row in shop.view().collect()}
    wrong = [
        (kind, id_, view[id_][name], expected)
        for kind, name in names.items()
        for number, id_ in [*((n, n) for n in range(most)), *((n, 100 + n) for n in range(most)), (0, 51)]
        for _, expected in [VALUES[kind][number % len(VALUES[kind])]]
        if not same(view[id_][name], _at_zone(expected))
    ]
    assert wrong == []
    assert all(view[id_][name] is None for id_ in (50, 150) for name in names.values())


TEXTS: dict[str, list[str]] = {
    **{kind: [value for value, _ in values] for kind, values in VALUES.items()},
    "float8": ["1e20", "-0", "'-Infinity'", "0.30000000000000004"],
    "float4": ["1e20", "'Infinity'", "16777216", "0.1"],
    "numeric(5, 2)": ["'NaN'", "-0.50", "100"],
    "date": ["'infinity'", "'0044-03-15 BC'", "'5874897-12-31'", "'1582-10-10'"],
    "timestamp": ["'-infinity'", "'0044-03-15 12:00:00.5 BC'", "'294276-12-31 23:59:59.999999'"],
    "timestamptz": ["'infinity'", "'0044-03-15 00:00:00+00 BC'", "'1582-10-10 00:00:00.000001+00'"],
    "money": ["-12.50"],
    "point": ["'(1,2)'"],
    "int4range": ["'[1,3)'"],
}
"""Also values and types without a counterpart."""


@pytest.mark.exhaustive
def test_a_column_that_is_read_as_text_has_the_same_text_from_the_table_and_from_the_log(shop: Shop) -> None:
    names, most, insert = make_orders_of(shop, TEXTS)
    shop.run_sql(insert(0))
    shop.create(postgres={"as_text": list(names.values())})
    shop.finish()
    shop.run_sql(insert(100))
    assert shop.epoch() is not None
    view = {row["id"]: row for row in shop.view().collect()}
    different = [
        (kind, view[number][name], view[100 + number][name])
        for kind, name in names.items()
        for number in range(most)
        if view[number][name] != view[100 + number][name] or not isinstance(view[number][name], str)
    ]
    assert different == []


def _at_zone(value: Any) -> Any:
    """Return an instant as PySpark collects it: local, without a time zone."""
    if isinstance(value, list):
        return [_at_zone(item) for item in value]
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone().replace(tzinfo=None)
    return value


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("date", "'infinity'"),
        ("timestamptz", "'-infinity'"),
        ("numeric(5, 2)", "'NaN'"),
        ("int4[]", "'{{1},{2}}'"),
    ],
)
def test_a_value_without_a_counterpart_fails_the_epoch_and_can_be_read_as_text(
    shop: Shop, kind: str, value: str
) -> None:
    """I6: it does not become a null."""
    shop.run_sql(f"CREATE TABLE orders (id int PRIMARY KEY, x {kind})", f"INSERT INTO orders VALUES (1, {value})")
    shop.create()
    with pytest.raises(UnsupportedValueError, match="column x .*as_text"):
        shop.finish()
    shop.rebuild_with(postgres={"as_text": ["x"]})
    shop.finish()
    shop.run_sql(f"INSERT INTO orders VALUES (2, {value})")
    assert shop.epoch() is not None
    expression = "array_to_json(x::text[])" if kind.endswith("[]") else "x"
    assert shop.rows("x") == shop.table(f"SELECT {expression}::text FROM orders")


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["point", "money", "tsvector", "int4range", "pair"])
def test_a_type_without_a_counterpart_is_refused_by_its_name_if_it_is_used(shop: Shop, kind: str) -> None:
    shop.run_sql("CREATE TYPE pair AS (a int, b int)")
    shop.run_sql(f"CREATE TABLE orders (id int PRIMARY KEY, x {kind})")
    with pytest.raises(InvalidJobError, match=f"column 'x' .* has type (public.)?{kind}.*as_text"):
        shop.create()
    shop.create(query="SELECT id FROM upstream")


def test_a_generated_column_is_refused(shop: Shop) -> None:
    """PostgreSQL's log does not have it."""
    shop.run_sql("CREATE TABLE orders (id int PRIMARY KEY, x int GENERATED ALWAYS AS (id * 2) STORED)")
    with pytest.raises(InvalidJobError, match="column 'x' .* is generated"):
        shop.create()
    shop.create(query="SELECT id, id * 2 AS x FROM upstream")


@pytest.mark.exhaustive
def test_an_unchanged_long_value_is_refused_with_the_statement_to_run(shop: Shop) -> None:
    """TOAST: the log leaves such a value out of an update, unless the replica identity is full."""
    shop.run_sql("CREATE TABLE orders (id int PRIMARY KEY, n int, long text)")
    shop.run_sql("ALTER TABLE orders ALTER long SET STORAGE EXTERNAL")
    shop.run_sql("INSERT INTO orders SELECT i, 0, repeat('x', 5000) FROM generate_series(1, 3) i")
    shop.create()
    shop.finish()
    shop.run_sql(
        "UPDATE orders SET n = 1 WHERE id = 1", "UPDATE orders SET n = 2, long = repeat('y', 5000) WHERE id = 2"
    )
    with pytest.raises(UpstreamError, match="column long, .* REPLICA IDENTITY FULL"):
        shop.epoch()
    shop.run_sql("ALTER TABLE orders REPLICA IDENTITY FULL")
    shop.run_sql("UPDATE orders SET n = 3 WHERE id = 1")
    assert shop.epoch() is not None
    assert shop.rows("id", "n", "long") == shop.table("SELECT id, n, long FROM orders")


LONG = (
    "CREATE TABLE orders (id int PRIMARY KEY, n int, long text)",
    "ALTER TABLE orders ALTER long SET STORAGE EXTERNAL",
    "INSERT INTO orders SELECT i, 0, repeat('x', 5000) FROM generate_series(1, 3) i",
)


@pytest.mark.exhaustive
def test_an_unchanged_long_value_that_came_with_another_key_is_not_the_value_that_the_key_had(shop: Shop) -> None:
    """I6: within one window, the key belonged to two rows."""
    shop.run_sql(*LONG)
    shop.create()
    shop.finish()
    shop.run_sql("INSERT INTO orders VALUES (9, 0, 'of the first row')")
    shop.run_sql("DELETE FROM orders WHERE id = 9", "UPDATE orders SET id = 9 WHERE id = 1")
    with pytest.raises(UpstreamError, match="column long, .* REPLICA IDENTITY FULL"):
        shop.epoch()
    shop.run_sql(
        "UPDATE orders SET n = 1, long = repeat('z', 5000) WHERE id = 9", "UPDATE orders SET n = 2 WHERE id = 9"
    )
    assert shop.epoch() is not None
    assert shop.rows("id", "n", "long") == shop.table("SELECT id, n, long FROM orders")


@pytest.mark.exhaustive
def test_a_replica_identity_that_is_set_later_does_not_make_a_null_of_a_value_that_was_left_out(shop: Shop) -> None:
    """I6: also if it is set without a rebuild."""
    shop.run_sql(*LONG)
    shop.create()
    shop.finish()
    shop.run_sql("UPDATE orders SET n = 1 WHERE id = 1")
    shop.run_sql("ALTER TABLE orders REPLICA IDENTITY FULL")
    with pytest.raises(UpstreamError, match="column long, .* REPLICA IDENTITY FULL"):
        shop.epoch()
    shop.run_sql("UPDATE orders SET n = 2 WHERE id = 1")
    assert shop.epoch() is not None
    assert shop.rows("id", "n", "long") == shop.table("SELECT id, n, long FROM orders")


@pytest.mark.exhaustive
def test_a_long_key_that_did_not_change(shop: Shop) -> None:
    """Its value is stored out of line, so the log has it only as that of the old row."""
    shop.run_sql(
        "CREATE TABLE orders (id text PRIMARY KEY, n int, other text)",
        "ALTER TABLE orders ALTER id SET STORAGE EXTERNAL",
        "INSERT INTO orders SELECT i || repeat('k', 2300), 0, repeat('y', 900) FROM generate_series(1, 3) i",
    )
    shop.create()
    shop.finish()
    shop.run_sql("UPDATE orders SET n = 1 WHERE id LIKE '1%'", "DELETE FROM orders WHERE id LIKE '2%'")
    assert shop.epoch() is not None
    assert shop.rows("id", "n", "other") == shop.table("SELECT id, n, other FROM orders")
