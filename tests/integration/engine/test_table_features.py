"""Upstreams as real lakehouses have them: the features of Delta tables that a job must read through."""

from __future__ import annotations

import pytest

from tests.integration.engine.lakehouse import CHANGE_DATA_FEED, Lakehouse

pytestmark = pytest.mark.spark

COLUMNS = "id BIGINT, region STRING, `amount in €` DECIMAL(10, 2), at TIMESTAMP_NTZ, tags ARRAY<STRING>"
MAPPED = {"delta.columnMapping.mode": "name"}

FEATURES: dict[str, tuple[str, dict[str, str]]] = {
    "deletion vectors": ("", {**MAPPED, "delta.enableDeletionVectors": "true"}),
    "column mapping by id": ("", {"delta.columnMapping.mode": "id"}),
    "partitions by a key column": ("PARTITIONED BY (region)", MAPPED),
    "liquid clustering": ("CLUSTER BY (id)", MAPPED),
    "row tracking": ("", {**MAPPED, "delta.enableRowTracking": "true"}),
    "type widening": ("", {**MAPPED, "delta.enableTypeWidening": "true"}),
    "commit timestamps in the log": ("", {**MAPPED, "delta.enableInCommitTimestamps": "true"}),
    "second-generation checkpoints": ("", {**MAPPED, "delta.checkpointPolicy": "v2", "delta.checkpointInterval": "2"}),
    "no statistics": ("", {**MAPPED, "delta.dataSkippingNumIndexedCols": "0"}),
}


@pytest.mark.parametrize("feature", FEATURES)
def test_a_table_with_the_feature_is_backfilled(lakehouse: Lakehouse, feature: str) -> None:
    """I1: through updates, deletes, keys that change, compaction and columns that are renamed or added."""
    layout, properties = FEATURES[feature]
    assignments = ", ".join(f"'{name}' = '{value}'" for name, value in {**CHANGE_DATA_FEED, **properties}.items())
    lakehouse.sql(
        f"CREATE TABLE {{upstream}} ({COLUMNS}, note STRING) USING delta {layout} TBLPROPERTIES ({assignments})"
    )
    insert = (
        "INSERT INTO {{upstream}} SELECT id, concat('r', id % 3), id * 1.5, timestamp_ntz '2026-01-01' + "
        "make_interval(0, 0, 0, 0, id), array('a', concat('b', id)), 'n' FROM range({}, {})"
    )
    lakehouse.sql(insert.format(0, 40))
    lakehouse.sql(insert.format(40, 80))
    lakehouse.sql("DELETE FROM {upstream} WHERE id % 10 = 3")
    lakehouse.create(
        key=["region", "id"],
        query="SELECT id, `amount in €` * 2 AS amount, at, tags FROM upstream WHERE id % 7 <> 0",
        rate_limit=30,
    )
    lakehouse.epoch()
    lakehouse.sql("UPDATE {upstream} SET `amount in €` = `amount in €` + 1 WHERE id % 4 = 0")
    lakehouse.sql("DELETE FROM {upstream} WHERE id % 9 = 0")
    lakehouse.sql("UPDATE {upstream} SET region = 'r0', id = id + 1000 WHERE id % 11 = 0")
    lakehouse.epoch()
    lakehouse.assert_truth()
    lakehouse.sql("OPTIMIZE {upstream}")
    lakehouse.sql("ALTER TABLE {upstream} RENAME COLUMN note TO remark")
    lakehouse.sql("ALTER TABLE {upstream} ADD COLUMN extra INT")
    lakehouse.sql("UPDATE {upstream} SET `amount in €` = 0 WHERE id > 60")
    lakehouse.finish()
    lakehouse.assert_equals_query("SELECT id, `amount in €` * 2 AS amount, at, tags FROM {upstream} WHERE id % 7 <> 0")
