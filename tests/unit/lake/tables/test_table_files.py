"""What a table is stored in, by its log."""

from __future__ import annotations

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.core.status.compaction import TARGET_FILE_SIZE
from airflow_backfill_provider.lake.tables.table_files import table_files


def rows(*numbers, day="mon"):
    return pa.table({"n": pa.array(numbers, pa.int64()), "day": [day] * len(numbers)})


def test_each_file_has_its_size_and_rows(lake):
    path = str(lake / "t")
    write_deltalake(path, rows(1, 2, 3))
    write_deltalake(path, rows(4), mode="append")

    found = table_files(path)

    assert sorted(file.rows for file in found.files) == [1, 3]
    sizes = {file.stat().st_size for file in (lake / "t").glob("*.parquet")}
    assert {file.size for file in found.files} == sizes
    assert {file.partition for file in found.files} == {()}
    assert found.target_file_size == TARGET_FILE_SIZE


def test_files_of_one_partition_are_known_by_its_values(lake):
    path = str(lake / "t")
    for day in ("mon", "tue", None):
        write_deltalake(path, rows(1, day=day).cast(rows(1).schema), mode="append", partition_by=["day"])
    assert {file.partition for file in table_files(path).files} == {("mon",), ("tue",), (None,)}


def test_the_newest_version_counts_and_replaced_files_do_not(lake):
    path = str(lake / "t")
    for n in range(5):
        write_deltalake(path, rows(n), mode="append")
    DeltaTable(path).optimize.compact()
    assert [file.rows for file in table_files(path).files] == [5]


def test_the_tables_own_target_counts(lake):
    path = str(lake / "t")
    write_deltalake(path, rows(1), configuration={"delta.targetFileSize": "64mb"})
    assert table_files(path).target_file_size == 64 * 2**20


def test_an_empty_table_has_no_files(lake):
    path = str(lake / "t")
    DeltaTable.create(path, schema=rows().schema)
    assert table_files(path).files == ()
