"""Types of PostgreSQL: each is converted exactly, becomes text, or has no counterpart."""

from __future__ import annotations

import json

import pytest
from deltalake.schema import ArrayType, Field, PrimitiveType, Schema

from airflow_backfill_provider.sources.shared.postgresql.types import EXACT, PostgresType


def numeric(precision, scale):
    """Return a numeric with the modifier that PostgreSQL gives it (``make_numeric_typmod``)."""
    return PostgresType(name="numeric", modifier=(precision << 16 | scale & 0x7FF) + 4)


def array_of(element):
    return PostgresType(name=f"_{element.name}", element=element)


@pytest.mark.parametrize(
    ("name", "delta"),
    [
        ("int2", "short"),
        ("int4", "integer"),
        ("int8", "long"),
        ("oid", "long"),
        ("float4", "float"),
        ("bool", "boolean"),
        ("timestamp", "timestamp_ntz"),
        ("timestamptz", "timestamp"),
        ("bytea", "binary"),
        ("uuid", "string"),
        ("interval", "string"),
    ],
)
def test_a_built_in_type_has_a_counterpart(name, delta):
    assert PostgresType(name=name).delta_type == delta


@pytest.mark.parametrize("modifier", [-1, 0, 3, 14])
def test_only_a_numeric_looks_at_its_modifier(modifier):
    assert {PostgresType(name=name, modifier=modifier).delta_type for name in ("varchar", "bpchar")} == {"string"}
    assert PostgresType(name="timestamp", modifier=modifier).delta_type == "timestamp_ntz"


@pytest.mark.parametrize(
    ("precision", "scale", "delta"),
    [
        (1, 0, "decimal(1,0)"),
        (10, 2, "decimal(10,2)"),
        (38, 0, "decimal(38,0)"),
        (38, 38, "decimal(38,38)"),
        (5, 5, "decimal(5,5)"),
        # What no decimal holds: more digits, more of them after the point than there are, rounding before the point.
        (39, 0, "string"),
        (1000, 1000, "string"),
        (3, 4, "string"),
        (3, -1, "string"),
        (1000, -1000, "string"),
    ],
)
def test_a_numeric_is_a_decimal_if_one_holds_all_of_its_values(precision, scale, delta):
    assert numeric(precision, scale).delta_type == delta


def test_a_numeric_of_any_size_is_text():
    assert PostgresType(name="numeric").delta_type == "string"


@pytest.mark.parametrize("name", ["mood", "public.int4", "numeric"])
def test_an_enum_is_text_whatever_its_name(name):
    assert PostgresType(name=name, kind="e").delta_type == "string"


@pytest.mark.parametrize(
    "type_",
    [
        PostgresType(name="int4range", kind="r"),
        PostgresType(name="public.address", kind="c"),
        PostgresType(name="int4", kind="c"),
        PostgresType(name="point"),
        PostgresType(name="money"),
        PostgresType(name="public.int4"),
        PostgresType(name="Int4"),
    ],
    ids=str,
)
def test_another_type_has_no_counterpart_and_neither_has_its_array(type_):
    assert type_.delta_type is None
    assert array_of(type_).delta_type is None


def test_an_array_has_the_type_of_its_elements_and_nulls():
    assert json.loads(array_of(PostgresType(name="int4")).delta_type) == {
        "type": "array",
        "elementType": "integer",
        "containsNull": True,
    }
    assert json.loads(array_of(numeric(10, 2)).delta_type)["elementType"] == "decimal(10,2)"


def test_types_are_named_as_users_know_them():
    assert str(PostgresType(name="public.mood", kind="e")) == "public.mood"
    assert str(array_of(PostgresType(name="int4"))) == "int4[]"


@pytest.mark.parametrize("name", EXACT)
def test_each_counterpart_is_a_type_of_delta_and_so_is_an_array_of_it(name):
    type_ = PostgresType(name=name)
    assert Schema([Field("a", PrimitiveType(type_.delta_type))]).fields[0].type == PrimitiveType(type_.delta_type)
    assert json.loads(ArrayType.from_json(array_of(type_).delta_type).to_json()) == json.loads(
        array_of(type_).delta_type
    )
