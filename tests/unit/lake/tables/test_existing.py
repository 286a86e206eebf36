"""Whether there is a Delta table at a location."""

from __future__ import annotations

import pyarrow as pa
from deltalake import write_deltalake

from airflow_backfill_provider.lake.tables.existing import is_table


def test_a_table_exists_once_it_has_a_log(lake):
    path = lake / "table"
    assert not is_table(str(path))
    path.mkdir()
    (path / "part-0.parquet").touch()
    assert not is_table(str(path))
    write_deltalake(str(lake / "written"), pa.table({"id": [1]}))
    assert is_table(str(lake / "written"), {})
