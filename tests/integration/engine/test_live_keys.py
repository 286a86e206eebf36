"""The keys that a driver reads without Spark are those that Spark reads, whatever hides rows or keeps them."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.keys import EVERYTHING, KeyField, KeyOrder, KeyRange
from airflow_backfill_provider.lake.live_keys import distinct, live_keys
from airflow_backfill_provider.lake.upstream import UpstreamTable
from tests.integration.engine.lakehouse import CHANGE_DATA_FEED, Lakehouse

pytestmark = pytest.mark.spark

KEY = KeyOrder((KeyField(name="region", type="string"), KeyField(name="id", type="long", descending=True)))
RANGES = {
    "everything": [EVERYTHING],
    "two ranges inside of files": [KeyRange((None,), ("r1", 30)), KeyRange(("r1", 12), ("r2", 7))],
    "a whole region": [KeyRange(("r0",), ("r1",))],
}
LAYOUTS = {
    "partitioned by a key column": "PARTITIONED BY (region)",
    "not partitioned": "",
}


@pytest.fixture(params=LAYOUTS)
def orders(lakehouse: Lakehouse, request: pytest.FixtureRequest) -> Lakehouse:
    """Rows of which deletion vectors hide some, a column of the key renamed, and one row twice."""
    properties = {**CHANGE_DATA_FEED, "delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "name"}
    assignments = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    lakehouse.sql(
        f"CREATE TABLE {{upstream}} (number BIGINT, region STRING, amount INT) USING delta {LAYOUTS[request.param]} "
        f"TBLPROPERTIES ({assignments})"
    )
    lakehouse.sql("INSERT INTO {upstream} SELECT id, IF(id % 4 = 3, NULL, concat('r', id % 4)), 1 FROM range(60)")
    lakehouse.sql("INSERT INTO {upstream} VALUES (8, 'r0', 1), (100, 'r%2F 1', 1)")
    lakehouse.sql("DELETE FROM {upstream} WHERE number % 7 = 1")
    lakehouse.sql("UPDATE {upstream} SET amount = 2 WHERE number % 5 = 0")
    lakehouse.sql("ALTER TABLE {upstream} RENAME COLUMN number TO id")
    return lakehouse


@pytest.mark.parametrize("ranges", RANGES)
def test_they_are_those_that_spark_reads(orders: Lakehouse, ranges: str) -> None:
    upstream = UpstreamTable(orders.upstream_path)
    expected = [
        (row["region"], row["id"])
        for row in orders.spark.read.format("delta").load(orders.upstream_path).collect()
        if any(covered.contains((row["region"], row["id"]), KEY) for covered in RANGES[ranges])
    ]
    found = live_keys(upstream.files_at(upstream.latest_version()), KEY, RANGES[ranges])
    assert found is not None
    keys = [(row["region"], row["id"]) for row in found.to_pylist()]
    assert sorted(keys, key=KEY.sort_key) == sorted(expected, key=KEY.sort_key)
    assert distinct(found) == len(set(expected))
