"""Columns from SQL's text: what Spark would read, and refusals of what it would not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.sources.shared.formats.column_types import array_type, map_type, sql_name, struct_type
from airflow_backfill_provider.sources.shared.formats.columns_text import parse_columns

SCALARS = [
    "boolean",
    "byte",
    "short",
    "integer",
    "long",
    "float",
    "double",
    "decimal(38,0)",
    "decimal(5,5)",
    "date",
    "timestamp",
    "timestamp_ntz",
    "string",
    "binary",
]
NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True)


def structs(kinds):
    return st.lists(st.tuples(NAMES, kinds), min_size=1, max_size=3, unique_by=lambda field: field[0]).map(struct_type)


TYPES = st.recursive(
    st.sampled_from(SCALARS),
    lambda kinds: st.one_of(kinds.map(array_type), kinds.map(map_type), structs(kinds)),
    max_leaves=6,
)


@given(structs(TYPES))
def test_a_type_is_read_from_what_sql_calls_it(kind):
    assert parse_columns(sql_name(kind).removeprefix("STRUCT<").removesuffix(">"), "schema") == kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("a INT", [("a", "integer")]),
        ("a: integer, b LONG", [("a", "integer"), ("b", "long")]),
        ("a dec, b Numeric(5), c DECIMAL(5,2)", [("a", "decimal(10,0)"), ("b", "decimal(5,0)"), ("c", "decimal(5,2)")]),
        ("a REAL, b BYTE, c SHORT", [("a", "float"), ("b", "byte"), ("c", "short")]),
        ("a TIMESTAMP_LTZ, date DATE, order INT", [("a", "timestamp"), ("date", "date"), ("order", "integer")]),
        ("`a, ``b``` STRING COMMENT 'a name, with a comma'", [("a, `b`", "string")]),
        ("a ARRAY<ARRAY<INT>>", [("a", array_type(array_type("integer")))]),
    ],
)
def test_all_notations_of_spark_are_read(text, kind):
    assert parse_columns(text, "schema") == struct_type(kind)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "schema is empty"),
        ("a", "schema needs the type of column a, but the text ends"),
        ("a INT,", "schema needs the name of a column, but the text ends"),
        ("a INT b INT", 'needs a comma between two columns, but there is "b"'),
        ("order-id INT", "column order has the type -"),
        ("'a' INT, b INT", "the name of a column, in backticks"),
        ("a INT NOT NULL", "column a is NOT NULL, but a record may lack any field"),
        ("a INT COMMENT b", "needs a text in quotes after COMMENT"),
        ("a INT, A INT", "schema has the field A twice"),
        ("a STRUCT<b: INT, B: INT>", "schema has the field B twice"),
        ("a MAP<INT, STRING>", "the keys of column a are no STRING"),
        ("a MAP<STRING>", "a comma between the types of keys and values in column a"),
        ("a 'INT'", "column a has the type INT"),
        ("2 INT", "the name of a column, in backticks"),
        ("a STRUCT<>", "< after STRUCT in column a"),
        ("a ARRAY", "< after ARRAY in column a, but the text ends"),
        ("a ARRAY<INT", "> after the type of the elements in column a, but the text ends"),
        ("a INT>, b ARRAY<INT", 'needs a comma between two columns, but there is ">"'),
        ("a DECIMAL(39)", r"column a is a DECIMAL\(39,0\); a decimal has 1 to 38 digits"),
        ("a DECIMAL(0)", "1 to 38 digits"),
        ("a DECIMAL(2,3)", "at most as many after the point"),
        ("a DECIMAL(x)", 'the number of digits in column a, but there is "x"'),
        ("a DECIMAL(2", r"\) after the digits in column a"),
        ("a VARCHAR(10)", "column a has the type VARCHAR, .* write STRING"),
        ("a CHAR(10)", "write STRING"),
        ("a INTERVAL DAY", "the type INTERVAL, .* write STRING"),
        ("a VARIANT", "write STRUCT, MAP or ARRAY"),
        ("a VOID", "write STRING"),
        ("a UINT", "the type UINT, .*; allowed are BIGINT, BINARY, .*, DECIMAL, ARRAY, MAP and STRUCT"),
        ("a `INT`", "the type INT"),
        ("a 'INT", "a quote or a comment that does not end"),
    ],
)
def test_what_is_refused_is_named(text, says):
    with pytest.raises(InvalidJobError, match=says):
        parse_columns(text, "schema")


@given(st.text(alphabet="a INT,<>()`'\"ARYSU12:-", max_size=30))
def test_any_other_text_is_refused_and_never_fails_otherwise(text):
    try:
        found = parse_columns(text, "schema")
    except InvalidJobError:
        return
    assert found["type"] == "struct"
