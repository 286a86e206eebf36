"""Ranges of keys as SQL: in Spark's order, for PostgreSQL's indexes, whatever names and values contain."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.scan.keys import EVERYTHING, KeyField, KeyOrder, KeyRange
from airflow_backfill_provider.sources.shared.postgresql.key_ranges import condition, in_order, require_key_type

DELTA = {"int8": "long", "int4": "integer", "text": "string", "varchar": "string", "uuid": "string", "bytea": "binary"}


def key_of(*columns, **delta):
    """Return the order and the types of columns ``a``, ``b``, …; a minus before a type descends."""
    fields, types = [], {}
    for name, column in zip("abcd", columns, strict=False):
        types[name] = column.removeprefix("-")
        kind = delta.get(name) or DELTA.get(types[name], types[name])
        fields.append(KeyField(name=name, type=kind, descending=column.startswith("-")))
    return KeyOrder(tuple(fields)), types


def text_of(after, up_to, key):
    return condition(KeyRange(after, up_to), *key).as_string(None)


@pytest.mark.parametrize(
    ("columns", "after", "up_to", "expected"),
    [
        (["int8"], None, None, "true"),
        (["int8"], (5,), None, """("a") > ('5'::bigint)"""),
        (["int8"], None, (9,), """("a") <= ('9'::bigint)"""),
        (["int8"], (-5,), (9,), """("a") > ('-5'::bigint) AND ("a") <= ('9'::bigint)"""),
        # A column that descends is read from its largest value on.
        (["-int8"], (9,), (5,), """("a") < ('9'::bigint) AND ("a") >= ('5'::bigint)"""),
        (
            ["int8", "int4"],
            (5, 1),
            (9, 2),
            """("a", "b") > ('5'::bigint, '1'::integer) AND ("a", "b") <= ('9'::bigint, '2'::integer)""",
        ),
        (["-int8", "-int4"], (9, 2), None, """("a", "b") < ('9'::bigint, '2'::integer)"""),
        (["-int8", "-int4"], None, (5, 1), """("a", "b") >= ('5'::bigint, '1'::integer)"""),
        # A shorter bound is about all keys that begin with it.
        (["int8", "int4"], (5,), (9,), """("a") > ('5'::bigint) AND ("a") <= ('9'::bigint)"""),
        (["int8", "-int4"], (5,), (9,), """("a") > ('5'::bigint) AND ("a") <= ('9'::bigint)"""),
        (["-int8", "int4"], None, (5,), """("a") >= ('5'::bigint)"""),
        (
            ["int8", "-int4"],
            (5, 1),
            None,
            """("a" >= '5'::bigint AND ("a" > '5'::bigint OR "a" = '5'::bigint AND "b" < '1'::integer))""",
        ),
        (
            ["int8", "-int4"],
            None,
            (9, 2),
            """("a" <= '9'::bigint AND ("a" < '9'::bigint OR "a" = '9'::bigint AND "b" >= '2'::integer))""",
        ),
        (
            ["-int8", "int4"],
            (9, 2),
            None,
            """("a" <= '9'::bigint AND ("a" < '9'::bigint OR "a" = '9'::bigint AND "b" > '2'::integer))""",
        ),
        (
            ["-int8", "int4"],
            None,
            (5, 1),
            """("a" >= '5'::bigint AND ("a" > '5'::bigint OR "a" = '5'::bigint AND "b" <= '1'::integer))""",
        ),
        (
            ["int8", "-int4", "text"],
            (5, 1, "x"),
            None,
            """("a" >= '5'::bigint AND ("a" > '5'::bigint OR "a" = '5'::bigint AND "b" < '1'::integer"""
            """ OR "a" = '5'::bigint AND "b" = '1'::integer AND "c" COLLATE "C" > 'x'::text))""",
        ),
        (
            ["int8", "-int4", "text"],
            None,
            (5, 1),
            """("a" <= '5'::bigint AND ("a" < '5'::bigint OR "a" = '5'::bigint AND "b" >= '1'::integer))""",
        ),
    ],
)
def test_a_range_is_a_condition(columns, after, up_to, expected):
    assert text_of(after, up_to, key_of(*columns)) == expected


def test_everything_is_always_true():
    assert condition(EVERYTHING, *key_of("int8", "-text")).as_string(None) == "true"


@pytest.mark.parametrize("column", ["text", "varchar"])
def test_texts_are_compared_by_their_bytes(column):
    assert text_of(("ä",), None, key_of(column)) == """("a" COLLATE "C") > ('ä'::text)"""


@pytest.mark.parametrize(
    ("column", "delta", "value", "literal"),
    [
        ("bool", "boolean", True, "'true'::boolean"),
        ("bool", "boolean", False, "'false'::boolean"),
        ("int2", "short", -1, "'-1'::smallint"),
        ("oid", "long", 2**32 - 1, "'4294967295'::oid"),
        ("numeric", "decimal(10,2)", Decimal("-1.50"), "'-1.50'::numeric"),
        ("numeric", "decimal(38,0)", Decimal("1E+5"), "'100000'::numeric"),
        ("date", "date", dt.date(2024, 2, 29), "'2024-02-29'::date"),
        (
            "timestamp",
            "timestamp_ntz",
            dt.datetime(2024, 2, 29, 1, 2, 3, 4),
            "'2024-02-29T01:02:03.000004'::timestamp",
        ),
        (
            "timestamptz",
            "timestamp",
            dt.datetime(2024, 2, 29, 1, tzinfo=dt.timezone(dt.timedelta(hours=2))),
            "'2024-02-28T23:00:00.000000Z'::timestamptz",
        ),
        ("bytea", "binary", b"\x00\xff'", r" E'\\x00ff27'::bytea"),
        ("uuid", "string", "0a0b0c0d-0000-0000-0000-000000000000", "'0a0b0c0d-0000-0000-0000-000000000000'::uuid"),
    ],
)
def test_a_value_of_each_type_is_a_literal_of_it(column, delta, value, literal):
    assert text_of((value,), None, key_of(column, a=delta)) == f'("a") > ({literal})'


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        ("", "''"),
        ("it's", "'it''s'"),
        ("'); DROP TABLE orders; --", "'''); DROP TABLE orders; --'"),
        ("\\", r" E'\\'"),
        ("\\'", r" E'\\'''"),
        ("%s {} $1 :a", "'%s {} $1 :a'"),
        ("\n", "'\n'"),
        ("NULL", "'NULL'"),
    ],
)
def test_hostile_values_stay_values(value, literal):
    assert text_of((value,), None, key_of("text")) == f"""("a" COLLATE "C") > ({literal}::text)"""


@pytest.mark.parametrize(
    ("name", "quoted"),
    [
        ("order id", '"order id"'),
        ('q"', '"q"""'),
        ('"; DROP TABLE orders; --', '"""; DROP TABLE orders; --"'),
        ("Id", '"Id"'),
        ("select", '"select"'),
        ("{}", '"{}"'),
        ("%", '"%"'),
        ("ünï", '"ünï"'),
    ],
)
def test_names_are_quoted(name, quoted):
    order, types = KeyOrder((KeyField(name=name, type="long"),)), {name: "int8"}
    assert condition(KeyRange((5,), None), order, types).as_string(None) == f"({quoted}) > ('5'::bigint)"
    assert in_order(order, types).as_string(None) == f"{quoted} ASC"


def test_rows_are_sorted_in_the_order_of_the_key():
    assert in_order(*key_of("int8", "-text", "-int4")).as_string(None) == '"a" ASC, "b" COLLATE "C" DESC, "c" DESC'


@pytest.mark.parametrize(("after", "up_to"), [((None,), None), (None, (None,)), ((5, None), None), (None, (5, None))])
@pytest.mark.parametrize("second", ["int4", "-int4"])
def test_a_position_with_a_null_is_refused(after, up_to, second):
    with pytest.raises(InvalidJobError, match=r"upstream\.key: a position has a null"):
        text_of(after, up_to, key_of("int8", second))


@pytest.mark.parametrize("type_name", ["float8", "bpchar", "name", "jsonb", "public.citext", "public.mood", "_int8"])
def test_a_type_that_is_ordered_differently_elsewhere_cannot_be_a_key(type_name):
    with pytest.raises(InvalidJobError) as refused:
        require_key_type("it's", type_name, "string")
    assert str(refused.value) == (
        f"""upstream.key: column "it's" has type {type_name}, which cannot be a key; allowed are bool, bytea, date, """
        "int2, int4, int8, numeric, oid, text, timestamp, timestamptz, uuid, varchar"
    )


@pytest.mark.parametrize(
    ("type_name", "delta"),
    [("int8", "long"), ("numeric", "decimal(38,2)"), ("text", "string"), ("varchar", "string"), ("uuid", "string")],
)
def test_a_type_that_is_ordered_alike_everywhere_can_be_a_key(type_name, delta):
    require_key_type("id", type_name, delta)


@pytest.mark.parametrize("type_name", ["numeric", "int8", "timestamptz", "date", "bytea", "bool"])
def test_a_key_that_is_read_as_text_must_be_ordered_as_text(type_name):
    """As numbers 9 comes before 10, and as texts after it: a range of the one has other rows than of the other."""
    with pytest.raises(InvalidJobError) as refused:
        require_key_type("id", type_name, "string")
    assert f"upstream.key: column 'id' has type {type_name} and is read as text" in str(refused.value)
    assert "leave it out of upstream.postgres.as_text, and declare a numeric with at most 38 digits" in str(
        refused.value
    )
