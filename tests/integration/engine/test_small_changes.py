"""A few changes in a large view with deletion vectors: the merge leaves out unchanged rows, and no changed ones."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core import errors
from airflow_backfill_provider.lake.log.schemas import TableSchema
from airflow_backfill_provider.spark import small_changes
from tests.integration.engine.lakehouse import Lakehouse

pytestmark = pytest.mark.spark

COLUMNS = "name STRING, number INT, amount DECIMAL(12,3), at TIMESTAMP, raw BINARY, note STRING, list ARRAY<INT>"
"""Rows with nested values are merged, and not replaced at their places."""

KEY = ["name", "number", "amount", "at", "raw"]


@pytest.fixture
def fresh(lakehouse: Lakehouse) -> Lakehouse:
    """A finished view with deletion vectors over rows whose keys have columns of many types, nulls among them."""
    lakehouse.make_upstream(COLUMNS)
    lakehouse.sql(
        "INSERT INTO {upstream} SELECT IF(id % 7 = 0, NULL, concat('ä', id)), IF(id % 5 = 0, NULL, INT(id)), "
        "IF(id % 11 = 0, NULL, id / 8), IF(id % 13 = 0, NULL, timestamp_micros(id * 1000003)), "
        "IF(id % 3 = 0, NULL, unhex(hex(id))), IF(id % 4 = 0, 'hidden', 'shown'), array(1) FROM range(1, 600)"
    )
    lakehouse.create(
        key=KEY,
        query="SELECT * FROM upstream WHERE note <> 'hidden'",
        table_properties={"delta.enableDeletionVectors": "true"},
    )
    lakehouse.finish()
    return lakehouse


def merges(fresh: Lakehouse) -> list[str]:
    """Return the conditions of the merges into the view, newest first."""
    history = fresh.sql("DESCRIBE HISTORY {view}")
    found = history.filter("operation = 'MERGE'").select("operationParameters").collect()
    return [row["operationParameters"]["predicate"] for row in found]


@pytest.mark.exhaustive
def test_every_change_of_keys_of_many_types_is_applied(fresh: Lakehouse) -> None:
    fresh.sql("UPDATE {upstream} SET note = 'changed' WHERE hash(number, amount) % 9 = 0")
    fresh.sql("UPDATE {upstream} SET note = 'hidden' WHERE hash(number, amount) % 10 = 0")
    fresh.sql("DELETE FROM {upstream} WHERE hash(number, amount) % 11 = 0")
    fresh.sql("INSERT INTO {upstream} SELECT 'new', INT(id), NULL, NULL, NULL, 'shown', NULL FROM range(20)")
    fresh.epoch()

    assert "getbit" in merges(fresh)[0]
    fresh.assert_equals_query("SELECT * FROM {upstream} WHERE note <> 'hidden'")


@pytest.mark.exhaustive
def test_a_key_of_nulls_that_the_view_lacks_is_not_removed(lakehouse: Lakehouse) -> None:
    """Delta would count it as a match in a table with deletion vectors, and fail."""
    lakehouse.make_upstream("id BIGINT, name STRING, note STRING")
    lakehouse.sql("INSERT INTO {upstream} VALUES (NULL, NULL, 'hidden'), (NULL, 'a', 'hidden'), (1, 'b', 'shown')")
    lakehouse.create(
        key=["id", "name"],
        query="SELECT * FROM upstream WHERE note <> 'hidden'",
        table_properties={"delta.enableDeletionVectors": "true"},
    )
    lakehouse.finish()
    lakehouse.sql("UPDATE {upstream} SET note = IF(id = 1, 'changed', note || '') WHERE true")
    lakehouse.epoch()
    lakehouse.sql("UPDATE {upstream} SET note = 'shown' WHERE id IS NULL")
    lakehouse.epoch()
    lakehouse.sql("UPDATE {upstream} SET note = 'hidden' WHERE id IS NULL")
    lakehouse.epoch()
    lakehouse.assert_equals_query("SELECT * FROM {upstream} WHERE note <> 'hidden'")


@pytest.mark.exhaustive
def test_a_key_that_the_view_already_has_is_refused(fresh: Lakehouse) -> None:
    fresh.sql(
        "INSERT INTO {upstream} SELECT name, number, amount, at, raw, 'twice', NULL FROM {upstream} WHERE number = 1"
    )
    with pytest.raises(errors.DuplicateKeyError, match="a key that it already has"):
        fresh.epoch()


@pytest.mark.exhaustive
def test_a_view_with_a_widened_key_is_read_in_its_own_type(fresh: Lakehouse) -> None:
    view = fresh.view_name
    fresh.sql(f"ALTER TABLE {view} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    fresh.sql(f"ALTER TABLE {view} ALTER COLUMN number TYPE BIGINT")
    fresh.sql("UPDATE {upstream} SET note = 'changed' WHERE number % 3 = 0")
    fresh.epoch()
    fresh.assert_equals_query("SELECT * FROM {upstream} WHERE note <> 'hidden'")


def test_rows_without_nested_values_are_replaced_at_their_places(lakehouse: Lakehouse) -> None:
    """I1: a row that changes, goes, comes, no longer passes the filter, and is as it was; I2: in a repeated epoch."""
    lakehouse.make_upstream("id BIGINT, name STRING, note STRING")
    lakehouse.sql("INSERT INTO {upstream} SELECT IF(id = 5, NULL, id), concat('n', id), 'shown' FROM range(9)")
    lakehouse.create(
        key=["id"],
        query="SELECT id AS number, name FROM upstream WHERE note <> 'hidden'",
        table_properties={"delta.enableDeletionVectors": "true"},
    )
    lakehouse.finish()
    lakehouse.sql("UPDATE {upstream} SET name = 'changed' WHERE id = 1 OR id IS NULL")
    lakehouse.sql("UPDATE {upstream} SET note = 'hidden' WHERE id = 2")
    lakehouse.sql("UPDATE {upstream} SET note = 'other' WHERE id = 4")
    lakehouse.sql("DELETE FROM {upstream} WHERE id = 3")
    lakehouse.sql("INSERT INTO {upstream} VALUES (20, 'new', 'shown'), (21, 'new', 'hidden')")
    lakehouse.epoch()

    lakehouse.assert_equals_query("SELECT id AS number, name FROM {upstream} WHERE note <> 'hidden'")
    newest = lakehouse.sql("DESCRIBE HISTORY {view}").first()
    assert newest["engineInfo"] == "airflow-backfill-provider"
    feed = lakehouse.spark.read.option("readChangeFeed", "true").option("startingVersion", newest["version"])
    changes = feed.format("delta").load(lakehouse.view_path).select("_change_type", "number")
    assert {tuple(row) for row in changes.collect()} == {
        ("update_preimage", 1),
        ("update_postimage", 1),
        ("update_preimage", None),
        ("update_postimage", None),
        ("delete", 2),
        ("delete", 3),
        ("insert", 20),
    }
    lakehouse.sql("INSERT INTO {upstream} VALUES (7, 'twice', 'shown')")
    with pytest.raises(errors.DuplicateKeyError, match="a key that it already has"):
        lakehouse.epoch()


@pytest.mark.exhaustive
def test_few_unchanged_rows_pass_the_key_filter(fresh: Lakehouse) -> None:
    view = fresh.view()
    types = {field.name: field.dataType.simpleString() for field in view.schema.fields if field.name in KEY}
    changed = view.orderBy("number").limit(20)
    condition = small_changes.key_filter(changed, types, "view")
    passed = view.alias("view").filter(F.expr(condition)).count()
    assert 20 <= passed < view.count() / 3


@pytest.mark.exhaustive
def test_many_changes_are_merged_without_a_filter(fresh: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_backfill_provider.spark.view.MOST_KEYS", 3)
    fresh.sql("UPDATE {upstream} SET note = 'changed' WHERE number % 3 = 0")
    fresh.epoch()
    assert "getbit" not in merges(fresh)[0]
    fresh.assert_equals_query("SELECT * FROM {upstream} WHERE note <> 'hidden'")


@pytest.mark.exhaustive
def test_a_view_without_deletion_vectors_is_merged_without_a_filter(lakehouse: Lakehouse) -> None:
    lakehouse.make_upstream("id BIGINT, name STRING")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, 'a' FROM range(9)")
    lakehouse.create()
    lakehouse.finish()
    lakehouse.sql("UPDATE {upstream} SET name = 'b' WHERE id = 3")
    lakehouse.epoch()
    assert "getbit" not in merges(lakehouse)[0]
    lakehouse.assert_equals_query("SELECT * FROM {upstream}")


def test_changes_are_sent_to_every_executor_only_if_they_are_few_and_narrow(spark: SparkSession) -> None:
    """A few thousand rows of a megabyte do not fit into the memory of an engine, let alone several times."""
    wide, narrow = (
        spark.range(20).selectExpr(
            "id", "NULL AS nothing", f"repeat('x', {width}) AS body", f"array(struct(repeat('y', {width}))) AS nested"
        )
        for width in (1_000_000, 1_000)
    )
    types = TableSchema.of(wide.schema.json()).types

    def sent(rows: DataFrame) -> DataFrame:
        total = rows.agg(F.sum(small_changes.bytes_of(types))).collect()[0][0]
        return small_changes.broadcast_if_few(rows, 20, total)

    assert sent(wide) is wide
    assert sent(narrow) is not narrow
    assert small_changes.broadcast_if_few(narrow, 1_000_000, 0) is narrow
