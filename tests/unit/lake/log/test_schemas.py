"""How a used column may change while its values stay the same."""

from __future__ import annotations

import json

import pytest

from airflow_backfill_provider.core.epoch.settings import ResolvedUpstream, UpstreamColumn
from airflow_backfill_provider.lake.log.schemas import HIDDEN, TableSchema, char_length, is_still, type_name


def part(name, kind, *, stored=None, **metadata):
    if stored:
        metadata["delta.columnMapping.physicalName"] = stored
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def struct(*parts):
    return {"type": "struct", "fields": list(parts)}


def array(element):
    return {"type": "array", "elementType": element, "containsNull": True}


def mapped(key, value):
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


A, B = part("a", "long"), part("b", "string")


@pytest.mark.parametrize(
    ("created", "found", "same"),
    [
        ("long", "long", True),
        ("integer", "long", False),
        (struct(A), struct(A, B), True),
        (struct(A), struct(B, A), True),
        (struct(A, B), struct(A), False),
        (struct(A), struct(part("a", "string")), False),
        (struct(part("a", "long", stored="p1")), struct(part("a", "long", stored="p2")), False),
        (struct(part("a", "long", stored="p1")), struct(part("a", "long", stored="p1"), B), True),
        (array(struct(A)), array(struct(A, B)), True),
        (array(struct(A)), struct(A), False),
        (array("long"), "long", False),
        (mapped("string", struct(A)), mapped("string", struct(A, B)), True),
        (mapped(struct(A), "long"), mapped(struct(A, B), "long"), False),
        (struct(part("s", struct(A))), struct(part("s", struct(A, B)), B), True),
        (struct(part("s", struct(A))), struct(part("s", struct(B))), False),
    ],
)
def test_a_type_may_get_new_parts_but_not_lose_or_change_any(created, found, same):
    assert is_still(type_name(created), type_name(found)) is same


def schema(*fields, partitions=()):
    return TableSchema.of(json.dumps(struct(*fields)), partitions)


USED = ResolvedUpstream(table_id="t", columns=(UpstreamColumn(name="id", type="long"),))


@pytest.mark.parametrize(
    "metadata",
    [
        {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.highWaterMark": 7},
        {"CURRENT_DEFAULT": "1", "EXISTS_DEFAULT": "1"},
        {"delta.generationExpression": "a + 1"},
        {"delta.invariants": '{"expression":{"expression":"id > 0"}}'},
        {"comment": "the key"},
        {"__CHAR_VARCHAR_TYPE_STRING": "varchar(5)"},
    ],
)
def test_metadata_of_a_column_is_no_difference(metadata):
    """Every insert rewrites an identity column's metadata."""
    assert schema(part("id", "long", **metadata)).differences_from(USED) == []


def test_every_difference_is_named():
    used = ResolvedUpstream(
        table_id="t",
        columns=(
            UpstreamColumn(name="gone", type="long"),
            UpstreamColumn(name="kind", type="long"),
            UpstreamColumn(name="anew", type="long", physical_name="p1"),
            UpstreamColumn(name="same", type="long", physical_name="p2"),
        ),
    )
    found = schema(part("kind", "string"), part("anew", "long", stored="p3"), part("same", "long", stored="p2"))
    assert found.differences_from(used) == [
        "column 'gone' is gone",
        "column 'kind' was long and is string",
        "column 'anew' was dropped and created again",
    ]


def test_a_renamed_column_is_found_by_its_name_in_the_files():
    stored = schema(part("title", "string", stored="p1"), part("day", "date"), partitions=["title"]).stored()
    assert stored == TableSchema({"p1": "string", "day": "date"}, {}, frozenset({"p1"}))


@pytest.mark.parametrize(
    ("in_sql", "length"), [("char(5)", 5), ("CHAR(12)", 12), ("varchar(5)", 0), ("array<char(5)>", 0), (None, 0)]
)
def test_only_char_is_padded(in_sql, length):
    metadata = {} if in_sql is None else {"__CHAR_VARCHAR_TYPE_STRING": in_sql}
    assert char_length({"name": "a", "type": "string", "metadata": metadata}) == length


def test_a_column_that_keeps_state_is_not_shown():
    found = schema(part("total", "long", comment="of the day"), part("__fold_rows", "long", **{HIDDEN: True}))
    assert found.shown_types == {"total": "long"}
    assert list(found.types) == ["total", "__fold_rows"]
