"""Upstreams as real lakehouses have them: the features of Delta tables that a job must read through."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import UpstreamSchemaChangedError
from tests.integration.engine.lakehouse import CHANGE_DATA_FEED, Lakehouse

pytestmark = pytest.mark.spark

COLUMNS = (
    "id BIGINT, region STRING, `amount€` DECIMAL(10, 2), at TIMESTAMP_NTZ, tags ARRAY<STRING>, note STRING, small INT"
)
FEATURES: dict[str, tuple[str, dict[str, str]]] = {
    "partitions, deletion vectors, row tracking, commit timestamps, second-generation checkpoints": (
        "PARTITIONED BY (region)",
        {
            "delta.columnMapping.mode": "name",
            "delta.enableDeletionVectors": "true",
            "delta.enableRowTracking": "true",
            "delta.enableInCommitTimestamps": "true",
            "delta.checkpointPolicy": "v2",
            "delta.checkpointInterval": "2",
        },
    ),
    "liquid clustering, columns by id, no statistics but of the clustering column": (
        "CLUSTER BY (id)",
        {"delta.columnMapping.mode": "id", "delta.dataSkippingStatsColumns": "id"},
    ),
    "type widening": ("", {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}),
}
RENAMED = ("RENAME COLUMN note TO remark", "ADD COLUMN extra INT")
SCHEMA_CHANGES = {"type widening": ("ALTER COLUMN small TYPE BIGINT", "ADD COLUMN extra INT")}
"""Of columns that the job does not use, in the middle of a window."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("feature", FEATURES)
def test_a_table_with_the_feature_is_backfilled(lakehouse: Lakehouse, feature: str) -> None:
    """I1: through updates, deletes, keys that change, compaction and columns that are renamed or added."""
    layout, properties = FEATURES[feature]
    assignments = ", ".join(f"'{name}' = '{value}'" for name, value in {**CHANGE_DATA_FEED, **properties}.items())
    lakehouse.sql(f"CREATE TABLE {{upstream}} ({COLUMNS}) USING delta {layout} TBLPROPERTIES ({assignments})")
    insert = (
        "INSERT INTO {{upstream}} SELECT id, concat('r', id % 3), id * 1.5, timestamp_ntz '2026-01-01' + "
        "make_interval(0, 0, 0, 0, id), array('a', concat('b', id)), 'n', 1 FROM range({}, {})"
    )
    lakehouse.sql(insert.format(0, 40))
    lakehouse.sql(insert.format(40, 80))
    lakehouse.sql("DELETE FROM {upstream} WHERE id % 10 = 3")
    lakehouse.create(
        key=["region", "id"],
        query="SELECT id, `amount€` * 2 AS amount, at, tags FROM upstream WHERE id % 7 <> 0",
        rate_limit=30,
    )
    lakehouse.epoch()
    lakehouse.sql("UPDATE {upstream} SET `amount€` = `amount€` + 1 WHERE id % 4 = 0")
    lakehouse.sql("DELETE FROM {upstream} WHERE id % 9 = 0")
    lakehouse.sql("UPDATE {upstream} SET region = 'r0', id = id + 1000 WHERE id % 11 = 0")
    lakehouse.epoch()
    lakehouse.assert_truth()
    lakehouse.sql("OPTIMIZE {upstream}")
    for change in SCHEMA_CHANGES.get(feature, RENAMED):
        lakehouse.sql(f"ALTER TABLE {{upstream}} {change}")
    lakehouse.sql("UPDATE {upstream} SET `amount€` = 0 WHERE id > 60")
    lakehouse.finish()
    lakehouse.assert_equals_query("SELECT id, `amount€` * 2 AS amount, at, tags FROM {upstream} WHERE id % 7 <> 0")


@pytest.mark.exhaustive
@pytest.mark.parametrize("before", ["", "UPDATE {upstream} SET name = 'b' WHERE id = 2"])
def test_a_column_that_was_renamed_and_renamed_back_in_one_window(lakehouse: Lakehouse, before: str) -> None:
    """The rename was refused and taken back; meanwhile rows changed under the other name."""
    lakehouse.make_upstream("id BIGINT, name STRING", {**CHANGE_DATA_FEED, "delta.columnMapping.mode": "name"})
    lakehouse.sql("INSERT INTO {upstream} SELECT id, 'a' FROM range(9)")
    lakehouse.create(rate_limit=5, query="SELECT id, name FROM upstream")
    lakehouse.epoch()
    if before:
        lakehouse.sql(before)
    lakehouse.sql("ALTER TABLE {upstream} RENAME COLUMN name TO title")
    lakehouse.sql("UPDATE {upstream} SET title = 'changed' WHERE id = 1")
    with pytest.raises(UpstreamSchemaChangedError, match="'name' is gone"):
        lakehouse.epoch()
    lakehouse.sql("ALTER TABLE {upstream} RENAME COLUMN title TO name")
    lakehouse.finish()
    lakehouse.assert_equals_query("SELECT * FROM {upstream}")


@pytest.mark.exhaustive
def test_a_column_that_is_not_used_may_be_widened_without_column_mapping(lakehouse: Lakehouse) -> None:
    """Delta itself reads the change feed there with the newest schema alone, and refuses older versions."""
    lakehouse.make_upstream("id BIGINT, small INT", {**CHANGE_DATA_FEED, "delta.enableTypeWidening": "true"})
    lakehouse.sql("INSERT INTO {upstream} SELECT id, 1 FROM range(9)")
    lakehouse.create(rate_limit=5, query="SELECT id FROM upstream")
    lakehouse.epoch()
    lakehouse.sql("UPDATE {upstream} SET id = 100 WHERE id = 1")
    lakehouse.sql("ALTER TABLE {upstream} ALTER COLUMN small TYPE BIGINT")
    lakehouse.sql("DELETE FROM {upstream} WHERE id = 2")
    lakehouse.finish()
    lakehouse.assert_equals_query("SELECT id FROM {upstream}")
