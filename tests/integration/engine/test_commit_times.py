"""When versions were committed, compared with Delta's own answers to ``timestampAsOf``."""

from __future__ import annotations

import datetime as dt
import os
import random

import pytest
from pyspark.errors import PySparkException

from airflow_backfill_provider.sources.delta.source import DeltaSource
from airflow_backfill_provider.sources.delta.versions import offset_of
from tests.builders import commit_file
from tests.integration.engine.lakehouse import CHANGE_DATA_FEED, Lakehouse
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

VERSIONS = 8
START = 1_700_000_000_000
FOR_EVER = {
    **CHANGE_DATA_FEED,
    "delta.logRetentionDuration": "interval 100000 days",
    "delta.deletedFileRetentionDuration": "interval 100000 days",
}


def make(lakehouse: Lakehouse, **properties: str) -> DeltaSource:
    """Make a table whose version n has the numbers up to n."""
    lakehouse.make_upstream("n INT", {**FOR_EVER, **properties})
    grow(lakehouse, 1, VERSIONS)
    return DeltaSource(lakehouse.upstream_path, lakehouse.storage_options)


def grow(lakehouse: Lakehouse, first: int, end: int) -> None:
    for number in range(first, end):
        lakehouse.sql(f"INSERT INTO {{upstream}} VALUES ({number})")


def written_at(lakehouse: Lakehouse, millis: list[int]) -> None:
    for version, instant in enumerate(millis):
        os.utime(
            commit_file(lakehouse.on_disk(lakehouse.upstream_path), version), ns=(instant * 10**6, instant * 10**6)
        )


def instant_of(millis: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=millis)


def says_delta(lakehouse: Lakehouse, millis: int) -> int | str | None:
    """Return the version as of an instant, ``None`` if there is none yet, ``after the last`` if it is too late."""
    instant = instant_of(millis).strftime("%Y-%m-%d %H:%M:%S.%f")
    try:
        rows = lakehouse.spark.read.option("timestampAsOf", instant).format("delta").load(lakehouse.upstream_path)
    except PySparkException as error:
        if error.getCondition() == "DELTA_TIMESTAMP_GREATER_THAN_COMMIT":
            return "after the last"
        if error.getCondition() == "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION":
            return None
        raise
    return max((row.n for row in rows.collect()), default=0)


def compare(lakehouse: Lakehouse, table: DeltaSource, millis: int, newest: int) -> None:
    expected = says_delta(lakehouse, millis)
    found = table.offset_at(instant_of(millis))
    assert (found and found.number) == (newest if expected == "after the last" else expected), millis


@pytest.mark.parametrize("histories", [12, exhaustive(400)])
def test_versions_are_found_by_time_as_delta_finds_them(lakehouse: Lakehouse, histories: int) -> None:
    """Whatever order the commit files were written in; 61 of 400 were found otherwise."""
    table, draw = make(lakehouse), random.Random(histories)
    for _ in range(histories):
        times = [START + draw.randrange(6) * draw.choice((1, 2, 1_000)) for _ in range(VERSIONS)]
        written_at(lakehouse, times)
        compare(lakehouse, table, draw.choice(times) + draw.randrange(-2, VERSIONS), VERSIONS - 1)


@pytest.mark.exhaustive
def test_timestamps_in_commits_count_from_where_they_begin(lakehouse: Lakehouse) -> None:
    """Before, the files' times count; both may contradict each other."""
    table = make(lakehouse)
    lakehouse.sql("ALTER TABLE {upstream} SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')")
    grow(lakehouse, VERSIONS + 1, VERSIONS + 3)
    newest = VERSIONS + 2
    recorded = [
        int(table.watermark(offset_of(version)).timestamp() * 1000) for version in range(VERSIONS + 1, newest + 1)
    ]
    written_at(lakehouse, [START + 1_000 * (version % 5) for version in range(newest + 1)])
    for millis in (START - 1, START, START + 2_001, START + 4_002, *recorded, recorded[1] + 1):
        compare(lakehouse, table, millis, newest)
    history = lakehouse.sql("DESCRIBE HISTORY {upstream}").selectExpr("version", "unix_millis(timestamp)").collect()
    assert {version: instant_of(millis) for version, millis in history} == {
        version: table.watermark(offset_of(version)) for version in range(newest + 1)
    }
