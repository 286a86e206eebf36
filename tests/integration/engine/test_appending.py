"""Appends whose files deltalake adds: Delta finds in them what its own writer would have written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import BackfillError
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity
from airflow_backfill_provider.spark.staged_files import STAGING
from airflow_backfill_provider.spark.stamped_table import VIEW_TABLE, StampedTable
from airflow_backfill_provider.spark.stamps import snapshot_part
from tests.builders import barrier_of
from tests.integration.engine.attempts import is_killed
from tests.integration.engine.lakehouse import Lakehouse

pytestmark = pytest.mark.spark

IDENTITY = ViewIdentity("orders", "incarnation")
PART = snapshot_part(0)

VALUES = """
    SELECT id, CAST(id AS INT) AS whole, CAST(id AS TINYINT) AS byte, id % 3 = 0 AS flag, CAST(id AS FLOAT) AS f,
        IF(id = 7, DOUBLE('NaN'), IF(id = 8, DOUBLE('-Infinity'), id / 3)) AS d,
        CAST(id + 0.25 AS DECIMAL(10, 2)) AS dec,
        CAST(concat(12345678901234567890 + id, '.5') AS DECIMAL(38, 3)) AS large,
        IF(id % 2 = 0, NULL, concat('n', id)) AS text,
        repeat(char(CAST(97 + id AS INT)), 40) AS long_text, repeat('\U0001f600', 20) AS faces,
        date_add(DATE'1582-01-01', CAST(id AS INT)) AS day, timestamp_micros(id * 1234567 + 1700000000000001) AS at,
        TIMESTAMP_NTZ'2024-02-03 04:05:06.789123' AS local,
        CAST(NULL AS STRING) AS nothing, X'00FF' AS bytes, array(id, NULL) AS list, map('k', id) AS pairs,
        named_struct('x', id, 'y', array(id)) AS nested
    FROM range(20)
"""


class Target:
    """A table like a view's."""

    def __init__(self, spark: SparkSession, folder: Path, rows: DataFrame, **properties: str) -> None:
        self.spark = spark
        self.path = str(folder)
        writer = rows.limit(0).write.format("delta")
        for name, value in properties.items():
            writer = writer.option(f"delta.{name}", value)
        stamp = {"event": "create", "incarnation": IDENTITY.incarnation}
        writer.option("userMetadata", json.dumps(stamp)).save(self.path)
        self.table = StampedTable(spark, self.path, VIEW_TABLE)

    def append(self, rows: DataFrame, epoch: int = 1) -> None:
        self.table.append(rows, PART, IDENTITY, barrier_of(epoch))

    def actions(self, kind: str) -> list[dict[str, Any]]:
        """Return the entries of the newest commit of one kind."""
        log = DeltaLog(self.path)
        found = log.actions(max(log.versions()))
        assert found is not None
        return [action[kind] for action in found if kind in action]

    def engine(self) -> str:
        (info,) = self.actions("commitInfo")
        return str(info["engineInfo"])

    def rows(self) -> DataFrame:
        return self.spark.read.format("delta").load(self.path)

    def leftovers(self) -> list[str]:
        return sorted(left.name for left in Path(self.path, STAGING).glob("*"))


@pytest.fixture
def values(lakehouse: Lakehouse) -> DataFrame:
    return lakehouse.spark.sql(VALUES)


@pytest.fixture
def target(lakehouse: Lakehouse, values: DataFrame, tmp_path: Path) -> Target:
    return Target(lakehouse.spark, tmp_path / "target", values, enableDeletionVectors="true")


def same(rows: DataFrame, expected: DataFrame) -> bool:
    return sorted(map(str, rows.collect())) == sorted(map(str, expected.collect()))


@pytest.mark.exhaustive
def test_deltalake_adds_what_spark_wrote(target: Target, values: DataFrame) -> None:
    target.append(values)
    assert target.engine().startswith("delta-rs")
    assert same(target.rows(), values)
    assert target.leftovers() == []


def test_statistics_are_those_of_deltas_own_writer_or_wider(
    target: Target, values: DataFrame, lakehouse: Lakehouse, tmp_path: Path
) -> None:
    target.append(values.coalesce(1))
    by_delta = Target(lakehouse.spark, tmp_path / "by_delta", values, enableDeletionVectors="true")
    values.coalesce(1).write.format("delta").mode("append").save(by_delta.path)
    (ours,), (theirs,) = ([json.loads(add["stats"]) for add in one.actions("add")] for one in (target, by_delta))
    assert ours["numRecords"] == theirs["numRecords"] == 20
    for kind in ("minValues", "maxValues"):
        missing = theirs[kind].keys() - ours[kind].keys()
        assert missing == {"f", "d", "large"}
    different = {name for name, bound in ours["maxValues"].items() if bound != theirs["maxValues"][name]}
    assert different == {"at", "local", "long_text", "faces"}
    # Delta cuts off what is less than a millisecond, so that its upper bounds may be too low.
    assert all(ours["maxValues"][name] > theirs["maxValues"][name] for name in ("at", "local"))
    assert {name for name, bound in ours["minValues"].items() if bound != theirs["minValues"][name]} == set()
    nulls = {**theirs["nullCount"], "nested": {"x": 0}}
    assert ours["nullCount"] == {name: count for name, count in nulls.items() if name not in {"list", "pairs"}}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "condition",
    [
        "d > 100",
        "d = double('NaN')",
        "d < -1e300",
        "f >= 19",
        "large > 12345678901234567908",
        "text >= 'n9'",
        "text IS NULL",
        "long_text > 'tttttttttttttttttttttttttttttttttttt'",
        "faces >= repeat('\U0001f600', 20)",
        "day = DATE'1582-01-20'",
        "at >= timestamp_micros(19 * 1234567 + 1700000000000001)",
        "local > TIMESTAMP_NTZ'2024-02-03 04:05:06.789'",
        "nested.x = 19",
        "nothing IS NULL AND id = 3",
    ],
)
def test_readers_skip_no_row(target: Target, values: DataFrame, condition: str) -> None:
    target.append(values)
    found = target.rows().filter(condition)
    assert same(found, values.filter(condition))
    assert found.count() > 0


@pytest.mark.exhaustive
def test_delta_deletes_compacts_and_cleans_up_as_ever(target: Target, values: DataFrame) -> None:
    target.append(values)
    table = f"delta.`{target.path}`"
    target.spark.sql(f"DELETE FROM {table} WHERE id % 5 = 2")
    assert same(target.rows(), values.filter("id % 5 <> 2"))
    target.append(values.filter("id = 2"), epoch=2)
    target.spark.sql(f"OPTIMIZE {table}")
    target.spark.sql(f"VACUUM {table}")
    assert same(target.rows(), values.filter("id % 5 <> 2 OR id = 2"))


@pytest.mark.exhaustive
def test_a_replay_adds_nothing(target: Target, values: DataFrame) -> None:
    target.append(values)
    target.append(values)
    assert target.rows().count() == 20


def test_a_part_that_delta_wrote_is_not_added_again_nor_the_other_way(target: Target, values: DataFrame) -> None:
    """Both ways use the same transactions."""
    target.append(values)
    (transaction,) = target.actions("txn")
    before = target.rows().count()
    writer = values.write.format("delta").mode("append").option("txnAppId", transaction["appId"])
    writer.option("txnVersion", 1).save(target.path)
    assert target.rows().count() == before
    writer.option("txnVersion", 2).save(target.path)
    with pytest.raises(BackfillError):
        target.append(values, epoch=2)
    assert target.rows().count() == before + 20
    stored = {add["path"] for version in (1, 2) for add in _added(target.path, version)}
    assert {file.name for file in Path(target.path).glob("*.parquet")} >= stored


def _added(path: str, version: int) -> list[dict[str, Any]]:
    found = DeltaLog(path).actions(version)
    assert found is not None
    return [action["add"] for action in found if "add" in action]


def test_no_rows_leave_a_commit_without_files(target: Target, values: DataFrame) -> None:
    target.append(values.filter("id < 0"))
    assert target.actions("add") == []
    assert target.actions("txn")


def test_delta_appends_to_a_table_that_asks_for_more(target: Target, values: DataFrame) -> None:
    target.spark.sql(f"ALTER TABLE delta.`{target.path}` ADD CONSTRAINT few CHECK (id < 10)")
    with pytest.raises(Exception, match="few"):
        target.append(values)
    assert target.rows().count() == 0
    target.append(values.filter("id < 10"))
    assert target.engine().startswith("Apache-Spark")


def test_what_killed_attempts_left_is_removed_once_their_epoch_is_over(spark_remote: str, lakehouse: Lakehouse) -> None:
    lakehouse.make_upstream("id BIGINT, name STRING")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, concat('n', id) FROM range(30)")
    settings = lakehouse.create(rate_limit=10)
    staging = Path(settings.definition.view_location, STAGING)
    job = lakehouse.job
    assert job is not None
    assert is_killed(spark_remote, job.state, CrashPoint.BEFORE_FILES_COMMIT)
    assert len([*staging.glob("*-1-*")]) == 1
    lakehouse.epoch()
    assert len([*staging.glob("*-1-*")]) == 1, "an attempt of this epoch may still run"
    lakehouse.epoch()
    assert [*staging.iterdir()] == []
    lakehouse.finish()
    lakehouse.assert_equals_query("SELECT * FROM {upstream}")
