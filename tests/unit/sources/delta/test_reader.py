"""Keys are read without Spark only where Spark has no more processors and no other disk."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder
from airflow_backfill_provider.sources.delta.reader import DeltaReader
from airflow_backfill_provider.sources.delta.source import DeltaSource
from airflow_backfill_provider.sources.delta.versions import offset_of

ORDER = KeyOrder((KeyField(name="id", type="long"),))


@pytest.mark.parametrize(
    ("master", "location", "is_read_here"),
    [
        ("local[2]", "", True),
        ("spark://driver:7077", "", False),
        ("local[2]", "s3://lake/orders", False),
    ],
)
def test_keys_are_read_here_if_spark_and_the_table_are_here(tmp_path, master, location, is_read_here):
    write_deltalake(tmp_path, pa.table({"id": pa.array([1, 2], pa.int64())}))
    spark = SimpleNamespace(conf={"spark.master": master})
    files_at = DeltaSource(str(tmp_path)).files_at
    stored = DeltaReader(spark, location or str(tmp_path), files_at=files_at).stored_keys(offset_of(0), ORDER)
    assert (stored is not None) == is_read_here


def test_without_the_files_spark_reads_the_keys(tmp_path):
    spark = SimpleNamespace(conf={"spark.master": "local[2]"})
    assert DeltaReader(spark, str(tmp_path)).stored_keys(offset_of(0), ORDER) is None
