"""Properties of local tables; those in object stores are in ``tests/integration/s3/test_known_tables.py``."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from airflow_backfill_provider.lake.tables.table_properties import table_properties


def test_properties_are_those_of_the_newest_version(lake):
    path = str(lake / "table")
    DeltaTable.create(path, pa.schema([("n", pa.int64())]), configuration={"mine": "1"}, raise_if_key_not_exists=False)
    assert table_properties(path) == {"mine": "1"}
    DeltaTable(path).alter.set_table_properties({"mine": "2"}, raise_if_not_exists=False)
    assert table_properties(path) == {"mine": "2"}


def test_a_table_that_does_not_exist(lake):
    with pytest.raises(TableNotFoundError):
        table_properties(str(lake / "nothing"))
