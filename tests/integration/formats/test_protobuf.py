"""What records in Protobuf become on Spark; all else about them is tested without it."""

from __future__ import annotations

import base64
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession

from airflow_backfill_provider.sources.shared.formats.column_types import type_text
from airflow_backfill_provider.sources.shared.formats.protobuf_types import protobuf_column_type
from airflow_backfill_provider.sources.shared.formats.resolved import ResolvedProtobuf
from airflow_backfill_provider.sources.shared.formats.spark import with_protobuf
from tests.protobuf_schemas import KINDS, class_of, field, file_of, framed, map_field, message, set_of

pytestmark = pytest.mark.spark

LINE = message("Line", field("sku", "string"), field("count", "uint64"))
SCALARS = [kind for kind in KINDS if kind not in {"group", "message", "enum"}]
ORDER = message(
    "Order",
    *(field(f"a_{kind}", kind) for kind in SCALARS),
    field("status", ":shop.Status"),
    field("lines", ".shop.Line", many=True),
    *map_field("shop.Order", "amounts", "int64", "double"),
)
DESCRIPTORS = set_of(file_of(ORDER, LINE, enums={"Status": ["OPEN"]}))


@pytest.mark.parametrize("is_framed", [False, True])
def test_messages_become_structs_and_others_errors(spark: SparkSession, *, is_framed: bool) -> None:
    order = class_of(DESCRIPTORS, "shop.Order")(a_int64=-5, lines=[{"sku": "a", "count": 2**64 - 1}])
    order.amounts[3] = 0.5
    body = order.SerializeToString()
    records = [framed(7, body) if is_framed else body, b"\xff", None]
    resolved = ResolvedProtobuf(
        delta_type=type_text(protobuf_column_type(DESCRIPTORS, "shop.Order", "")),
        descriptors=base64.b64encode(DESCRIPTORS),
        message="shop.Order",
    )
    rows = spark.createDataFrame([*enumerate(records)], "number INT, record BINARY")
    writers = {7: {(0,): "shop.Order"}} if is_framed else None
    first, second, third = (
        row["read"] for row in with_protobuf(rows, "record", "read", resolved, writers).orderBy("number").collect()
    )
    value = first["value"].asDict(recursive=True)
    assert (value["a_int64"], value["amounts"], value["status"]) == (-5, {3: 0.5}, "OPEN")
    assert value["lines"] == [{"sku": "a", "count": Decimal(2**64 - 1)}]
    assert first["error"] is None
    assert (second["value"], second["error"][:3]) == (None, "is ")
    assert (third["value"], third["error"]) == (None, None)
