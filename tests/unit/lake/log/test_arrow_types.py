"""The columns of a table as Arrow has them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from airflow_backfill_provider.lake.log.arrow_types import arrow_schema
from tests.unit.lake.log.test_plain_tables import field


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("byte", pa.int8()),
        ("long", pa.int64()),
        ("string", pa.string()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestamp_ntz", pa.timestamp("us")),
        ("decimal(38,2)", pa.decimal128(38, 2)),
        ("decimal(5,0)", pa.decimal128(5, 0)),
    ],
)
def test_each_type_has_one_in_arrow(kind, expected):
    assert arrow_schema([field("a"), field("x", kind)]) == pa.schema([("a", pa.int64()), ("x", expected)])
