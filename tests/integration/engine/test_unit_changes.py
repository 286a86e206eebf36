"""
Units of a view are replaced by one commit, on real Spark and Delta.

The view has a top list for each shop and day: a unit of several rows with two columns, each of which may be null.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity
from airflow_backfill_provider.spark.stamps import CHANGES, transaction_id
from airflow_backfill_provider.spark.view import MaterializedView
from tests.builders import barrier_of
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

IDENTITY = ViewIdentity("tops", "incarnation")
COLUMNS = "shop STRING, day INT, place INT, score DOUBLE, tags MAP<STRING, INT>"
Top = tuple[str | None, int | None, int | None, float, dict[str, int] | None]

BEFORE: list[Top] = [
    ("stays", 1, 1, 9.0, {"a": 1, "b": 2}),
    ("stays", 1, 2, 8.0, None),
    ("changes", 1, 1, 9.0, {"a": 1}),
    ("changes", 1, 2, 8.0, {"a": 1}),
    ("changes", 1, 3, 7.0, None),
    (None, 1, 1, 5.0, None),
    (None, None, 1, 4.0, None),
    ("goes", None, 1, 3.0, None),
    ("twice", 1, 1, 2.0, None),
    ("twice", 1, 1, 2.0, None),
    ("signed", 1, 1, 0.0, None),
    ("untouched", 1, 1, 1.0, None),
]
AFTER: list[Top] = [
    ("stays", 1, 1, 9.0, {"b": 2, "a": 1}),
    ("stays", 1, 2, 8.0, None),
    ("changes", 1, 1, 9.0, {"a": 1}),
    ("changes", 1, 2, 8.5, {"a": 1}),
    (None, 1, 1, 6.0, None),
    (None, None, 1, 4.0, None),
    ("twice", 1, 1, 2.0, None),
    ("signed", 1, 1, -0.0, None),
    ("new", 1, None, 1.0, None),
    ("new", 1, None, 1.0, None),
]
UNITS = {(shop, day) for shop, day, *_ in (*BEFORE, *AFTER)} - {("untouched", 1)}


@pytest.fixture
def view(spark: SparkSession, lake: Path) -> MaterializedView:
    """A view with deletion vectors and a change feed."""
    path = str(lake / "tops")
    spark.sql(
        f"CREATE TABLE delta.{quote(path)} ({COLUMNS}) USING delta TBLPROPERTIES "
        "('delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true')"
    )
    spark.createDataFrame(BEFORE, COLUMNS).write.format("delta").mode("append").save(path)
    return MaterializedView(spark, path)


def replace(view: MaterializedView, fresh: Sequence[Top], units: set[tuple[str | None, int | None]], epoch: int) -> int:
    """Replace units, and return by how many versions the view has moved on."""
    spark, before = view.table.spark, view.table.log.newest().version
    touched = spark.createDataFrame([*units, *units], "shop STRING, day INT")
    rows = spark.createDataFrame([*fresh], COLUMNS)
    view.replace_units(rows, touched, ["shop", "day"], CHANGES, IDENTITY, barrier_of(epoch))
    return view.table.log.newest().version - before


def sorted_rows(rows: Sequence[Sequence[object]]) -> list[str]:
    return sorted(repr([sorted(value.items()) if isinstance(value, dict) else value for value in row]) for row in rows)


def test_units_are_replaced_in_one_commit_and_rows_that_stay_are_not_written(view: MaterializedView) -> None:
    """I2, I7: with nulls in units, several rows of a unit, equal rows, and signs of zero."""
    assert replace(view, AFTER, UNITS, 2) == 1
    assert sorted_rows(view.table.read().collect()) == sorted_rows([*AFTER, BEFORE[-1]])
    commit = view.table.log.commit(view.table.log.newest().version)
    assert commit is not None
    assert (commit.operation, commit.transactions) == ("MERGE", {transaction_id(IDENTITY, CHANGES): 2})
    feed = view.table.spark.read.option("readChangeFeed", "true").option("startingVersion", commit.version)
    written = feed.format("delta").load(view.path).filter("_change_type = 'insert'").select("shop", "place", "score")
    assert sorted_rows(written.collect()) == sorted_rows(
        [
            ("changes", 2, 8.5),
            (None, 1, 6.0),
            ("twice", 1, 2.0),
            ("signed", 1, -0.0),
            ("new", None, 1.0),
            ("new", None, 1.0),
        ]
    )
    # Another attempt writes nothing, whatever it computes.
    assert replace(view, [], UNITS, 2) == 0
    # A commit without rows uses up the transaction, too.
    assert replace(view, AFTER, UNITS, 3) == 1
    assert view.table.is_written(CHANGES, IDENTITY, barrier_of(3))


@pytest.mark.exhaustive
def test_a_unit_of_nulls_that_the_view_does_not_have_is_no_removal(view: MaterializedView) -> None:
    """With deletion vectors, Delta fails on a tombstone that matches nothing, if all of its columns are null."""
    replace(view, [], {(None, None), ("goes", None)}, 2)
    assert replace(view, [], {(None, None), ("stays", 1)}, 3) == 1
    assert {row["shop"] for row in view.table.read().collect()} == {"changes", None, "twice", "signed", "untouched"}


def test_the_whole_view_is_one_unit_if_no_columns_identify_it(view: MaterializedView) -> None:
    spark = view.table.spark
    rows = spark.createDataFrame([BEFORE[0], AFTER[-1]], COLUMNS)
    view.replace_units(rows, rows.select(), [], CHANGES, IDENTITY, barrier_of(2))
    assert sorted_rows(view.table.read().collect()) == sorted_rows([BEFORE[0], AFTER[-1]])


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        pytest.param("DATE", [f"DATE'2026-01-0{day}'" for day in (1, 2, 3)], id="dates"),
        exhaustive("BIGINT", ["-9223372036854775808L", "-5L", "9223372036854775807L"], name="numbers"),
        exhaustive(
            "TIMESTAMP",
            [
                f"TIMESTAMP'{at}Z'"
                for at in ("1500-01-01 00:00:00.000001", "1500-01-01 00:00:00.002", "9999-12-31 23:00:00")
            ],
            name="timestamps",
        ),
    ],
)
def test_files_that_have_other_units_only_are_not_opened(
    spark: SparkSession, lake: Path, kind: str, values: Sequence[str]
) -> None:
    """The middle one of three units is replaced, and so is the unit NULL; the files of the others are gone."""
    path = lake / "totals"
    spark.sql(f"CREATE TABLE delta.{quote(str(path))} (unit {kind}, n INT) USING delta")
    least, middle, most = values
    for value in (least, middle, most, "NULL"):
        spark.sql(f"INSERT INTO delta.{quote(str(path))} VALUES ({value}, 1)")
        if value in (least, most):
            max(path.glob("*.parquet"), key=lambda file: file.stat().st_mtime_ns).unlink()
    view = MaterializedView(spark, str(path))

    def replaced(*units: str, number: int) -> int | None:
        touched = spark.sql(
            f"SELECT CAST(unit AS {kind}) AS unit FROM VALUES {', '.join(f'({unit})' for unit in units)} AS t(unit)"
        )
        fresh = touched.selectExpr("unit", f"{number} AS n")
        return view.replace_units(fresh, touched, ["unit"], CHANGES, IDENTITY, barrier_of(number))

    assert replaced(middle, number=2) == 1
    assert replaced(middle, "NULL", number=3) == 2
    assert replaced(middle, number=3) is None
    found = view.table.read().filter(f"unit IS NULL OR unit = {middle}")
    assert [row["n"] for row in found.collect()] == [3, 3]


def test_a_unit_that_moves_to_another_partition_is_removed_where_it_was(spark: SparkSession, lake: Path) -> None:
    """I1: the merge names the partitions of the rows that go. Those of new rows, and all others, stay closed."""
    path = str(lake / "moving")
    spark.sql(f"CREATE TABLE delta.{quote(path)} (unit INT, kind STRING) USING delta PARTITIONED BY (kind)")
    spark.sql(f"INSERT INTO delta.{quote(path)} VALUES (1, 'a'), (2, 'a'), (3, 'b'), (4, NULL), (5, 'o\\'x')")
    view = MaterializedView(spark, path, None, ["Kind"])
    fresh = spark.createDataFrame([(1, "c"), (4, "b"), (5, None)], "unit INT, kind STRING")
    touched = spark.createDataFrame([(1,), (4,), (5,)], "unit INT")
    view.replace_units(fresh, touched, ["unit"], CHANGES, IDENTITY, barrier_of(2))
    found = {(row["unit"], row["kind"]) for row in view.table.read().collect()}
    assert found == {(1, "c"), (2, "a"), (3, "b"), (4, "b"), (5, None)}
    [merge] = spark.sql(f"DESCRIBE HISTORY delta.{quote(path)}").filter("operation = 'MERGE'").collect()
    assert "'c'" not in merge["operationParameters"]["predicate"]
