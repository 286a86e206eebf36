"""Types of columns in JSON, and as SQL writes them."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.sources.shared.formats.column_types import (
    array_type,
    decimal_type,
    map_type,
    parsed_type,
    require_distinct,
    sql_name,
    struct_type,
    type_text,
)

NESTED = struct_type([("id", "long"), ("tags", array_type("string")), ("prices", map_type(decimal_type(9, 2)))])


@pytest.mark.parametrize("kind", ["binary", "decimal(9,2)", NESTED, array_type("integer")])
def test_a_type_is_read_as_it_is_written(kind):
    assert parsed_type(type_text(kind)) == kind


def test_a_struct_is_written_as_delta_writes_it():
    assert type_text(struct_type([("ä", "long")])) == (
        '{"type":"struct","fields":[{"name":"ä","type":"long","nullable":true,"metadata":{}}]}'
    )


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("long", "BIGINT"),
        ("timestamp_ntz", "TIMESTAMP_NTZ"),
        (NESTED, "STRUCT<id: BIGINT, tags: ARRAY<STRING>, prices: MAP<STRING, DECIMAL(9,2)>>"),
    ],
)
def test_messages_name_a_type_as_sql_does(kind, name):
    assert sql_name(kind) == name


def test_names_differ_by_more_than_case():
    require_distinct(["a", "b"], "schema")
    with pytest.raises(InvalidJobError, match="schema has the field A twice, and Spark ignores case"):
        require_distinct(["a", "A"], "schema")
