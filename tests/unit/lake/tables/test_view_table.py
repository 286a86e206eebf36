"""The table of a view, as far as other columns of it concern that."""

from __future__ import annotations

import pyarrow as pa
from deltalake import DeltaTable

from airflow_backfill_provider.lake.tables.view_table import view_table


def test_a_missing_table_is_none(tmp_path):
    assert view_table(str(tmp_path / "view")) is None


def test_what_was_added_to_a_table_is_told(tmp_path):
    path = str(tmp_path / "view")
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("price", pa.float64(), metadata={"CURRENT_DEFAULT": "1.0", "comment": "in euros"}),
            pa.field("tags", pa.list_(pa.string())),
        ]
    )
    DeltaTable.create(path, schema, configuration={"delta.enableChangeDataFeed": "true"})
    DeltaTable(path).alter.add_constraint({"dear": "price > 0"})
    found = view_table(path)
    assert found is not None
    assert list(found.types) == ["id", "price", "tags"]
    assert found.types["price"] == "double"
    assert found.added == {"id": "NOT NULL", "price": "a default"}
    assert found.constraints == {"dear": "price > 0"}
    assert not found.maps_columns
