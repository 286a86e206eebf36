"""What is replaced, as the rows that Spark sends tell."""

from __future__ import annotations

import pyarrow as pa

from airflow_backfill_provider.lake.log.plain_tables import PlainTable
from airflow_backfill_provider.spark.placed_rows import Places, _replacement

PLACES = Places(
    "__file",
    "__row",
    PlainTable(table_id="id", fields=(), indexed=32, checkpoint_interval=10, hides_rows=True, has_feed=True),
)


def test_rows_go_from_files_by_their_names_on_disk() -> None:
    """Spark has a file's name as part of an address; an adopted table may have any names."""
    found = pa.table(
        {
            "id": [1, 2, 3, 4],
            "__file": ["part%201%2520%C3%BC.parquet", "part%201%2520%C3%BC.parquet", "part-2.parquet", None],
            "__row": [0, 7, 0, None],
            "__updated": [False, True, False, True],
        }
    )
    replacement = _replacement(found, ["id"], PLACES, "__updated")
    assert replacement.places == {"part 1%20ü.parquet": {0, 7}, "part-2.parquet": {0}}
    assert replacement.removed == pa.table({"id": [1, 2, 3]})
    assert replacement.written == pa.table({"id": [4]})
    assert [flags.to_pylist() for flags in replacement.is_updated] == [[False, True, False], [True]]
