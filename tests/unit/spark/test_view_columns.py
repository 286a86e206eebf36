"""The columns of a view: names and types that any Delta table can have."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
)

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.lake.log.schemas import HIDDEN, TableSchema
from airflow_backfill_provider.lake.tables.view_table import names_to_map
from airflow_backfill_provider.spark.view_columns import require_columns, without_metadata


def columns(*names: str, of: DataType | None = None) -> StructType:
    return StructType([StructField(name, of or LongType()) for name in names])


def test_columns_with_different_names_are_accepted():
    require_columns(columns("id", "läke o'brien", "a.b"), {}, {"läke o'brien"})


def test_names_that_differ_only_in_case_are_refused():
    with pytest.raises(InvalidJobError, match="query: it names a, b more than once"):
        require_columns(columns("a", "B", "A", "b", "c"), {}, ())


def test_a_name_that_spark_made_up_needs_an_alias_unless_the_query_has_it():
    """Another version of Spark may make up another one."""
    with pytest.raises(InvalidJobError, match=r"the column `\(amount \* 100\)` has no alias"):
        require_columns(columns("id", "(amount * 100)"), {}, {"amount"})
    require_columns(columns("id", "(Amount * 100)"), {}, {"(amount * 100)"})


def test_a_column_without_a_type_is_refused():
    with pytest.raises(InvalidJobError, match="the column `nothing` has no type; cast it"):
        require_columns(columns("nothing", of=NullType()), {}, ())


@pytest.mark.parametrize(
    ("properties", "refused"),
    [
        ({}, False),
        ({"delta.columnMapping.mode": "name"}, False),
        ({"delta.columnMapping.mode": "none"}, True),
        ({"DELTA.columnmapping.Mode": "NONE"}, True),
    ],
)
def test_a_view_that_asks_for_no_column_mapping_has_plain_names_alone(properties, refused):
    schema = columns("paid orders")
    if not refused:
        require_columns(schema, properties, {"paid orders"})
        return
    with pytest.raises(InvalidJobError, match="the column `paid orders` has characters"):
        require_columns(schema, properties, {"paid orders"})


def test_names_of_parts_need_column_mapping_too():
    parts = columns("a b", "plain")
    schema = StructType(
        [
            StructField("x;y", LongType()),
            StructField("struct", parts),
            StructField("array", ArrayType(columns("c,d"))),
            StructField("map", MapType(columns("e=f"), columns("g{h"))),
        ]
    )
    assert names_to_map(TableSchema.of(schema.json()).types) == ["x;y", "a b", "c,d", "e=f", "g{h"]
    assert names_to_map({"id": "long", "ä.b": "long"}) == []


def test_metadata_of_the_upstream_is_left_out_at_every_depth():
    """Defaults, identities and CHAR would need table features, or bounds that the upstream has dropped since."""
    noted = StructField("part", StringType(), nullable=False, metadata={"CURRENT_DEFAULT": "7"})
    struct = StructType([noted])
    schema = StructType(
        [
            StructField("id", LongType(), nullable=False, metadata={"delta.identity.start": 1}),
            StructField("struct", struct),
            StructField("array", ArrayType(struct, containsNull=False)),
            StructField("map", MapType(struct, struct)),
        ]
    )
    plain = StructType([StructField("part", StringType())])
    assert without_metadata(schema) == StructType(
        [
            StructField("id", LongType()),
            StructField("struct", plain),
            StructField("array", ArrayType(plain)),
            StructField("map", MapType(plain, plain)),
        ]
    )


def test_a_comment_and_the_mark_of_a_hidden_column_stay():
    said = {"comment": "state", HIDDEN: True}
    schema = StructType([StructField("__fold_rows", LongType(), metadata={**said, "CURRENT_DEFAULT": "7"})])
    assert without_metadata(schema)["__fold_rows"].metadata == said
