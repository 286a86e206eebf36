"""Rows that deletion vectors hide are left out, and Spark makes no struct of the file's metadata for each row."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.sources.delta.reader import DeltaReader
from airflow_backfill_provider.sources.delta.source import DeltaSource
from airflow_backfill_provider.spark.kept_changes import kept_changes
from airflow_backfill_provider.spark.table_rows import rows_at

pytestmark = pytest.mark.spark

OF_FILE = "file_modification_time"
"""A field of a file's metadata that nobody asks for."""


@pytest.fixture
def table(spark: SparkSession, lake: Path) -> str:
    """Ten rows in two files, and four of them hidden; the folder's and the columns' names need quotes."""
    path = str(lake / "some 100% orders")
    name = f"delta.{quote(path)}"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, `row_index` INT, `a.b` STRING) USING delta TBLPROPERTIES "
        "('delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true')"
    )
    for begin in (0, 5):
        spark.sql(f"INSERT INTO {name} SELECT id, -1, 'x' FROM range({begin}, {begin + 5}, 1, 1)")
    spark.sql(f"DELETE FROM {name} WHERE id IN (0, 4)")
    spark.sql(f"DELETE FROM {name} WHERE id IN (5, 7)")
    return path


def plan_of(rows: DataFrame, capsys: pytest.CaptureFixture[str]) -> str:
    """Return how Spark reads rows."""
    capsys.readouterr()
    rows.explain()
    return capsys.readouterr().out


def ids(rows: DataFrame) -> list[int]:
    return sorted(row["id"] for row in rows.collect())


def test_only_the_numbers_of_rows_are_read_of_a_files_metadata(
    spark: SparkSession, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = DeltaSource(table)
    reader = DeltaReader(spark, table, files_at=source.files_at)
    for version, present in ((2, range(10)), (3, [1, 2, 3, 5, 6, 7, 8, 9]), (4, [1, 2, 3, 6, 8, 9])):
        for rows in (rows_at(spark, table, version), reader.rows(Offset(version))):
            assert ids(rows) == [*present]
            assert rows.columns == ["id", "row_index", "a.b"]
            assert OF_FILE not in plan_of(rows.filter("row_index < 0"), capsys)
    by_itself = spark.read.format("delta").load(table)
    assert OF_FILE in plan_of(by_itself, capsys), "Spark does without by now, so this package need not help"


def test_a_table_without_deletion_vectors_is_read_as_it_is(
    spark: SparkSession, lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(lake / "plain")
    spark.range(3).write.format("delta").option("delta.enableDeletionVectors", "false").save(path)
    source = DeltaSource(path)
    for rows in (rows_at(spark, path, 0), DeltaReader(spark, path, files_at=source.files_at).rows(Offset(0))):
        assert ids(rows) == [0, 1, 2]
        assert "row_index" not in plan_of(rows, capsys)


def test_changes_are_kept_as_the_feed_has_them(spark: SparkSession, table: str) -> None:
    name = "spark.databricks.delta.deletionVectors.useMetadataRowIndex"
    before = spark.conf.get(name, None)
    with ExitStack() as opened:
        kept = kept_changes(DeltaReader(spark, table).changes(Offset(2), Offset(4)), opened)
        assert spark.conf.get(name, None) == before
        assert kept.storageLevel.useDisk
        assert ids(kept) == [0, 4, 5, 7]
    assert not kept.storageLevel.useDisk
