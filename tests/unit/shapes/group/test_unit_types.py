"""Which types can tell units apart."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
)

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.shapes.group.unit_types import require_exact_texts, require_unit_types, unit_order


def schema(kind: DataType) -> StructType:
    return StructType([StructField("Unit", kind), StructField("mean", DoubleType())])


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (DoubleType(), "groups by `Unit`, which is a DOUBLE, .*; group by CAST"),
        (FloatType(), "which is a FLOAT"),
        (StringType("UTF8_LCASE"), "whose collation UTF8_LCASE takes different texts for equal; group by"),
        (ArrayType(IntegerType()), "which is array<int> and cannot tell groups apart"),
        (StructType([StructField("a", IntegerType())]), "which is struct<a:int> and cannot"),
    ],
)
def test_values_that_are_equal_in_several_forms_are_no_units(kind, said):
    with pytest.raises(InvalidJobError, match=said):
        require_unit_types(schema(kind), ["unit"])


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (IntegerType(), "integer"),
        (StringType(), "string"),
        (DecimalType(10, 2), "decimal(10,2)"),
        (BinaryType(), "binary"),
        (TimestampNTZType(), "timestamp_ntz"),
    ],
)
def test_other_keys_are_units_with_the_type_that_delta_names(kind, name):
    require_unit_types(schema(kind), ["UNIT"])
    assert [field.type for field in unit_order(schema(kind), ["Unit"]).fields] == [name]


def test_an_aggregated_text_is_compared_by_its_bytes():
    """Of 'a' and 'A', the larger one is chance if both are equal."""
    require_exact_texts(schema(StringType()))
    with pytest.raises(InvalidJobError, match="`Unit` is one of several texts .* with COLLATE UTF8_BINARY"):
        require_exact_texts(schema(StringType("UNICODE_CI")))
