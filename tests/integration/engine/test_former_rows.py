"""Views that keep former rows, on real Spark and Delta: each row from the version that wrote it to its end."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import LongType, StringType, StructField, StructType

from airflow_backfill_provider.core.job.keep import Keep
from airflow_backfill_provider.spark.former_rows import FormerRows, broken_keys, with_columns_of
from airflow_backfill_provider.spark.spark_errors import DUPLICATE_KEY
from tests.integration.engine.lakehouse import Lakehouse
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
    schema = with_columns_of(COLUMNS, keep)
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
    old = spark.createDataFrame([Row(1, "a", 1, 3, None, True)], with_columns_of(COLUMNS, Keep.HISTORY))
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
    assert sorted(row.id for row in broken_keys(view, Keep.HISTORY, ["id"], 10).collect()) == [3, 4, 5, 6, 7, 8]
    marked = spark.createDataFrame([(1, 3), (2, None), (3, 4), (3, None), (4, 11)], "id BIGINT, _deleted_at BIGINT")
    assert sorted(row.id for row in broken_keys(marked, Keep.DELETED, ["id"], 10).collect()) == [3, 4]


def kept(lakehouse: Lakehouse) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in lakehouse.view().collect()), key=repr)


def begin(lakehouse: Lakehouse, **fields: Any) -> None:
    lakehouse.make_upstream("id BIGINT, amount INT, note STRING")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, CAST(id + 1 AS INT), 'a' FROM range(6)")
    query = "SELECT amount * 10 AS cents FROM upstream WHERE amount > 0"
    lakehouse.create(**{"query": query, "strategy": "snapshot", "keep": "history", **fields})


def change(lakehouse: Lakehouse) -> None:
    """Commit versions 2 to 7 of the upstream."""
    lakehouse.change("UPDATE {upstream} SET amount = 50 WHERE id = 1", "UPDATE {upstream} SET amount = 51 WHERE id = 1")
    lakehouse.change("UPDATE {upstream} SET note = 'b'", "DELETE FROM {upstream} WHERE id = 2")
    lakehouse.sql("INSERT INTO {upstream} VALUES (2, 3, 'c'), (9, 9, 'c')")
    lakehouse.sql(
        "MERGE INTO {upstream} AS u USING (SELECT 9 AS old, 9 AS id, -1 AS amount UNION ALL SELECT 3, 20, 4) AS c "
        "ON u.id = c.old WHEN MATCHED THEN UPDATE SET id = c.id, amount = c.amount"
    )


AFTERWARDS = [
    (10, 0, 1, None, True),
    (20, 1, 1, 2, False),
    (500, 1, 2, 3, False),
    (510, 1, 3, None, True),
    (30, 2, 1, 5, False),
    (30, 2, 6, None, True),
    (90, 9, 6, 7, False),
    (40, 3, 1, 7, False),
    (40, 20, 7, None, True),
    (50, 4, 1, None, True),
    (60, 5, 1, None, True),
]


@pytest.mark.parametrize(
    "fields", [{}, exhaustive({"strategy": "no_shuffle"}), exhaustive({"strategy": "arrangement"})], ids=str
)
def test_two_changes_in_one_window_are_two_rows(lakehouse: Lakehouse, fields: dict[str, Any]) -> None:
    """I1, and I7: each change is a row, the key's change is an end and a beginning, and the epoch makes one commit."""
    begin(lakehouse, **fields)
    lakehouse.finish()
    version = lakehouse.view_events().index("finish")
    change(lakehouse)
    lakehouse.finish()
    assert kept(lakehouse) == sorted(AFTERWARDS, key=repr)
    assert lakehouse.view_events(after=version) == ["epoch"]
    lakehouse.assert_truth()
