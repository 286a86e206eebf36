"""Views that keep former rows, on real Spark and Delta: each row from the version that wrote it to its end."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import LongType, StringType, StructField, StructType

from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import MaterializedViewError
from airflow_backfill_provider.core.job.keep import Keep, ValidBy
from airflow_backfill_provider.core.status.row_answer import Reason
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.jobs.maintenance.forgetting import forget_keys
from airflow_backfill_provider.jobs.row_questions import why
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.spark.former_rows import FormerRows, broken_keys, with_columns_of
from airflow_backfill_provider.spark.spark_errors import DUPLICATE_KEY
from docs.blocks import ROOT, run_by
from tests.dying import died
from tests.integration.engine.lakehouse import CHANGE_DATA_FEED, Lakehouse
from tests.kept_histories import deleted_of, history_of, random_states
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

COLUMNS = StructType([StructField("id", LongType()), StructField("name", StringType()), StructField("n", LongType())])
CHANGES = "id BIGINT, name STRING, n BIGINT, version BIGINT, is_upsert BOOLEAN, appeared BOOLEAN"
VERSIONS = 13


def steps(spark: SparkSession, former: FormerRows, changes: list[tuple[Any, ...]]) -> Any:
    """Return changes as the writer hands them over: the rows that are there, and all changed keys."""
    rows = spark.createDataFrame(changes, CHANGES)
    written = former.written(rows.filter("is_upsert"), F.col("version"), F.lit(False))
    return written.unionAll(former.changed(rows, F.col("version"), F.col("appeared")))


@pytest.mark.parametrize("keep", [Keep.DELETED, Keep.HISTORY])
def test_what_is_kept_does_not_depend_on_the_windows(spark: SparkSession, keep: Keep) -> None:
    """Two hundred keys change at random, also into the same row; each window has several versions."""
    chance = random.Random(f"former rows, {keep}")
    versions = random_states(chance, range(200), [("a", 1), ("b", 1), (None, 1), (None, None)], VERSIONS)
    former, view = FormerRows(keep, COLUMNS, ["id"]), []
    schema = with_columns_of(COLUMNS, keep, ValidBy.VERSION)
    ends = [0, *sorted(chance.sample(range(1, VERSIONS - 1), 2)), VERSIONS - 1]
    for after, up_to in itertools.pairwise(ends):
        changes = []
        for version in range(after + 1, up_to + 1):
            before, now = versions[version - 1], versions[version]
            for key in range(200):
                if before.get(key) != now.get(key) or chance.random() < 0.2:
                    name, n = now.get(key, (None, None))
                    changes.append((key, name, n, version, key in now, False))
        touched = {change[0] for change in changes}
        old = [row for row in view if row.id in touched and (keep is Keep.DELETED or row._is_current)]
        left = [row for row in view if row not in old]
        fresh = former.after(spark.createDataFrame(old, schema), steps(spark, former, changes))
        view = left + fresh.collect()
    since = dict.fromkeys(range(200), 0)
    expected = deleted_of(versions, since) if keep is Keep.DELETED else history_of(versions, since)
    assert sorted(((row.id, (row.name, row.n), *row[3:]) for row in view), key=repr) == sorted(expected, key=repr)


def test_a_key_that_appears_twice_fails(spark: SparkSession) -> None:
    """I6: the upstream would have two rows of a key, and the view one."""
    former = FormerRows(Keep.HISTORY, COLUMNS, ["id"])
    old = spark.createDataFrame([(1, "a", 1, 3, None, True)], with_columns_of(COLUMNS, Keep.HISTORY, ValidBy.VERSION))
    with pytest.raises(PySparkException, match=DUPLICATE_KEY):
        former.after(old, steps(spark, former, [(1, "b", 2, 5, True, True)])).collect()


def test_rows_that_contradict_each_other_are_found(spark: SparkSession) -> None:
    kept = [
        (1, 3, 5, False),
        (1, 5, None, True),
        (2, 3, 5, False),
        (2, 8, None, True),
        (3, 3, 6, False),
        (3, 5, None, True),  # overlaps
        (4, 3, None, True),
        (4, 5, None, True),  # never ends
        (5, 5, 5, False),
        (6, 3, 5, True),
        (7, 3, 11, False),  # later than the view
        (8, 3, None, None),
    ]
    view = spark.createDataFrame(kept, "id BIGINT, _valid_from BIGINT, _valid_to BIGINT, _is_current BOOLEAN")
    assert sorted(row.id for row in broken_keys(view, Keep.HISTORY, ["id"], F.lit(10)).collect()) == [3, 4, 5, 6, 7, 8]
    marked = spark.createDataFrame([(1, 3), (2, None), (3, 4), (3, None), (4, 11)], "id BIGINT, _deleted_at BIGINT")
    assert sorted(row.id for row in broken_keys(marked, Keep.DELETED, ["id"], F.lit(10)).collect()) == [3, 4]


PAGE = Path(ROOT, "docs/concepts/former-rows.md")
QUERY = "SELECT order_id, amount FROM upstream WHERE status = 'paid'"


def table_of_page(column: str) -> list[tuple[Any, ...]]:
    """Return the rows of the page's table that has a column."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("| `order_id`") and column in line)
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines[first + 2 :])
    values = {"null": None, "true": True, "false": False}
    return [
        tuple(values[text] if text in values else int(text) for text in map(str.strip, row.strip("| ").split("|")))
        for row in rows
    ]


def kept(lakehouse: Lakehouse) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in lakehouse.view().collect()), key=repr)


def begin(lakehouse: Lakehouse) -> None:
    lakehouse.make_upstream("order_id BIGINT, status STRING, amount INT, note STRING")
    lakehouse.sql("INSERT INTO {upstream} VALUES (1, 'paid', 10, ''), (2, 'paid', 20, ''), (3, 'open', 30, '')")


@pytest.mark.parametrize(
    ("keep", "column", "fields"),
    [
        ("history", "_valid_from", {}),
        exhaustive("history", "_valid_from", {"strategy": "no_shuffle", "partition_by": ["_is_current"]}),
        exhaustive("history", "_valid_from", {"strategy": "arrangement", "cluster_by": ["order_id", "_valid_from"]}),
        exhaustive("history", "_valid_from", {"table_properties": {"delta.enableDeletionVectors": "false"}}),
        exhaustive("deleted", "_deleted_at", {}),
        exhaustive("deleted", "_deleted_at", {"strategy": "no_shuffle", "partition_by": ["amount"]}),
        exhaustive("deleted", "_deleted_at", {"strategy": "arrangement", "row_tracking": True}),
    ],
    ids=str,
)
def test_the_worked_example_of_the_page(lakehouse: Lakehouse, keep: str, column: str, fields: dict[str, Any]) -> None:
    """I1, I2 and I7: an attempt dies after its one commit, and the page's rows are there once."""
    begin(lakehouse)
    lakehouse.create(**{"key": ["order_id"], "query": QUERY, "keep": keep, "strategy": "snapshot", **fields})
    lakehouse.finish()
    (block,) = run_by("tests/integration/engine/test_former_rows.py", "docs/concepts/former-rows.md")
    lakehouse.change(*(statement for statement in block.text.split(";") if statement.strip()))
    before = DeltaLog(lakehouse.view_path).newest().version
    assert died(CrashPoint.AFTER_CHANGES_COMMIT, lakehouse.epoch)
    assert len(lakehouse.finish()) == 1
    assert lakehouse.view_events(after=before) == ["epoch"]
    assert kept(lakehouse) == sorted(table_of_page(column), key=repr)


@pytest.mark.parametrize(
    ("keep", "column"), [("history", "_valid_from"), exhaustive("deleted", "_deleted_at")], ids=str
)
def test_history_from_before_the_job(lakehouse: Lakehouse, keep: str, column: str) -> None:
    """I1: the example's changes were there before the job, and its view has the same rows."""
    begin(lakehouse)
    (block,) = run_by("tests/integration/engine/test_former_rows.py", "docs/concepts/former-rows.md")
    lakehouse.change(*(statement for statement in block.text.split(";") if statement.strip()))
    lakehouse.create(key=["order_id"], query=QUERY, keep=keep, strategy="snapshot", as_of=1)
    died(CrashPoint.AFTER_CHANGES_COMMIT, lakehouse.finish)
    lakehouse.finish()
    assert kept(lakehouse) == sorted(table_of_page(column), key=repr)
    lakehouse.assert_truth()


def mend(lakehouse: Lakehouse) -> None:
    """Something else removes a current row; the repair begins it again."""
    lakehouse.sql("DELETE FROM {view} WHERE order_id = 1 AND _is_current")
    with pytest.raises(MaterializedViewError, match="was not written by job orders_view"):
        lakehouse.epoch()
    mutations.repair_job(store=lakehouse.backfill.store, requested_by="tester", vnodes=["0-3"])
    lakehouse.finish()


def in_versions(lakehouse: Lakehouse) -> list[tuple[Any, ...]]:
    """Return the view's rows with the upstream's versions in place of the times that their commits record."""
    log = DeltaLog(lakehouse.upstream_path)
    times = {log.in_commit_timestamp(version): version for version in log.versions()}
    millis = [f"unix_millis({name}) AS {name}" for name in ("_valid_from", "_valid_to")]
    rows = lakehouse.view().selectExpr("order_id", "amount", *millis, "_is_current").collect()
    return sorted(((*row[:2], times[row[2]], times.get(row[3]), row[4]) for row in rows), key=repr)


@pytest.mark.exhaustive
def test_repairs_and_erasures_leave_other_former_rows(lakehouse: Lakehouse) -> None:
    """Epochs go on after each; the columns have the times of commits."""
    lakehouse.make_upstream(
        "order_id BIGINT, status STRING, amount INT, note STRING",
        {**CHANGE_DATA_FEED, "delta.enableInCommitTimestamps": "true"},
    )
    lakehouse.sql("INSERT INTO {upstream} VALUES (1, 'paid', 10, ''), (2, 'paid', 20, ''), (3, 'open', 30, '')")
    lakehouse.create(key=["order_id"], query=QUERY, keep="history", valid_by="commit_time", strategy="no_shuffle")
    lakehouse.finish()
    lakehouse.change("UPDATE {upstream} SET amount = 12", "DELETE FROM {upstream} WHERE order_id = 2")
    lakehouse.finish()
    assert forget_keys(lakehouse.backfill, [2], engine=lambda: lakehouse.engine) == 2
    lakehouse.change("UPDATE {upstream} SET status = 'paid', order_id = 4 WHERE order_id = 3")
    mend(lakehouse)
    ended = (1, 10, 1, 2, False)
    assert in_versions(lakehouse) == [ended, (1, 12, 4, None, True), (4, 12, 4, None, True)]
    lakehouse.assert_truth()
    # Version 5 has the key twice, so what it had there is not known.
    lakehouse.change("INSERT INTO {upstream} VALUES (1, 'paid', 99, '')")
    lakehouse.change("DELETE FROM {upstream} WHERE order_id = 1 AND amount = 12")
    lakehouse.finish()
    assert in_versions(lakehouse) == [ended, (1, 12, 4, 6, False), (1, 99, 6, None, True), (4, 12, 4, None, True)]
    assert why(lakehouse.backfill, 4).reason is Reason.CHANGE
    assert why(lakehouse.backfill, 2).reason is Reason.DELETED
