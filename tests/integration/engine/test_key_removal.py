"""The changed keys of a view that is hidden until it is finished are removed by one scan, whatever their types."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from airflow_backfill_provider.core import errors
from airflow_backfill_provider.spark import key_variable
from tests.integration.engine.lakehouse import Lakehouse

pytestmark = pytest.mark.spark

COLUMNS = (
    "`a.b` STRING, number INT, amount DECIMAL(30,3), at TIMESTAMP, local TIMESTAMP_NTZ, day DATE, raw BINARY, "
    "flag BOOLEAN, small TINYINT, note STRING"
)
KEY = ["a.b", "number", "amount", "at", "local", "day", "raw", "flag", "small"]
QUERY = "SELECT * FROM upstream WHERE note <> 'hidden'"
RESULT = "SELECT * FROM {upstream} WHERE note <> 'hidden'"
VECTORS = {"delta.enableDeletionVectors": "true"}


def begun(lakehouse: Lakehouse, properties: dict[str, str]) -> Lakehouse:
    """Return a hidden view that has some rows; their keys have columns of many types, nulls among them."""
    lakehouse.make_upstream(COLUMNS, {"delta.enableChangeDataFeed": "true", "delta.columnMapping.mode": "name"})
    lakehouse.sql(
        "INSERT INTO {upstream} SELECT IF(id % 7 = 0, NULL, concat('ä', id)), IF(id % 5 = 0, NULL, INT(id)), "
        "IF(id % 11 = 0, NULL, id / 8), IF(id % 13 = 0, NULL, timestamp_micros(id * 1000003)), "
        "CAST(timestamp_micros(id * 1000003) AS TIMESTAMP_NTZ), date_from_unix_date(INT(id)), "
        "IF(id % 3 = 0, NULL, unhex(hex(id))), IF(id % 2 = 0, NULL, id % 4 = 1), TINYINT(id % 100), "
        "IF(id % 4 = 0, 'hidden', 'shown') FROM range(1, 300)"
    )
    lakehouse.create(
        key=KEY,
        query=QUERY,
        rate_limit=250,
        strategy="no_shuffle",
        visibility="on_finish",
        table_properties={**properties, "delta.columnMapping.mode": "name"},
    )
    lakehouse.epoch()
    return lakehouse


def change(lakehouse: Lakehouse) -> None:
    """Change, hide, remove and add rows."""
    lakehouse.sql("UPDATE {upstream} SET note = 'changed' WHERE hash(small, amount) % 9 = 0")
    lakehouse.sql("UPDATE {upstream} SET note = 'hidden' WHERE hash(small, amount) % 10 = 0")
    lakehouse.sql("DELETE FROM {upstream} WHERE hash(small, amount) % 11 = 0")
    lakehouse.sql(
        "INSERT INTO {upstream} SELECT 'new', INT(id), NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'shown' FROM range(20)"
    )
    lakehouse.sql("INSERT INTO {upstream} SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'shown'")


def operations(lakehouse: Lakehouse) -> list[str]:
    """Return the operations of the view's commits that removed rows."""
    history = lakehouse.sql("DESCRIBE HISTORY {view}")
    return [row["operation"] for row in history.collect() if row["operation"] in ("DELETE", "MERGE")]


def test_keys_of_many_types_are_removed_by_one_scan(lakehouse: Lakehouse) -> None:
    change(begun(lakehouse, VECTORS))
    lakehouse.finish()
    lakehouse.assert_equals_query(RESULT)
    assert operations(lakehouse) == ["DELETE"]
    # The log records the condition; with all keys in it, a commit could have hundreds of megabytes.
    commits = sorted((lakehouse.on_disk(lakehouse.view_path) / "_delta_log").glob("*.json"))
    (removal,) = [line for commit in commits for line in commit.read_text().splitlines() if '"DELETE"' in line]
    assert "array_contains" in removal
    assert len(removal) < 4_000


@pytest.mark.exhaustive
def test_a_view_without_deletion_vectors_has_its_files_rewritten(lakehouse: Lakehouse) -> None:
    change(begun(lakehouse, {}))
    lakehouse.finish()
    lakehouse.assert_equals_query(RESULT)
    assert operations(lakehouse) == ["DELETE"]


@pytest.mark.exhaustive
def test_more_keys_than_fit_in_a_variable_are_merged(lakehouse: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_variable, "MOST_BYTES", 100)
    change(begun(lakehouse, VECTORS))
    lakehouse.finish()
    lakehouse.assert_equals_query(RESULT)
    assert operations(lakehouse) == ["MERGE"]


@pytest.mark.parametrize(
    "most_bytes", [key_variable.MOST_BYTES, pytest.param(100, marks=pytest.mark.exhaustive, id="merged")]
)
def test_a_key_that_the_view_already_has_is_refused(
    lakehouse: Lakehouse, monkeypatch: pytest.MonkeyPatch, most_bytes: int
) -> None:
    monkeypatch.setattr(key_variable, "MOST_BYTES", most_bytes)
    begun(lakehouse, VECTORS)
    twice = lakehouse.sql("SELECT * FROM {upstream} WHERE note = 'shown' AND `a.b` = 'ä1'")
    assert twice.count() == 1
    twice.write.format("delta").mode("append").save(lakehouse.upstream_path)
    with pytest.raises(errors.DuplicateKeyError, match="a key that it already has"):
        lakehouse.finish()


def test_the_variable_is_dropped_again(spark: SparkSession) -> None:
    keys = spark.createDataFrame([(number,) for number in range(100)], "id BIGINT")
    with key_variable.condition_for(keys, 100, {"id": "bigint"}, "some_keys") as condition:
        assert spark.range(50, 150).filter(condition).count() == 50
    with pytest.raises(AnalysisException, match="some_keys"):
        spark.sql("SELECT system.session.some_keys")
