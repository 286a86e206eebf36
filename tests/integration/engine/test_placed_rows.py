"""Rows of a view whose places are known are replaced without a MERGE, and Spark reads what came of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.lake.log.replaced_rows import replace_rows
from airflow_backfill_provider.lake.tables.rows_by_value import rows_by_value
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity
from airflow_backfill_provider.spark import placed_rows
from airflow_backfill_provider.spark.placed_rows import KnownTable
from airflow_backfill_provider.spark.stamps import CHANGES
from airflow_backfill_provider.spark.touched_units import TouchedUnits
from airflow_backfill_provider.spark.view import MaterializedView
from tests.builders import barrier_of
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

IDENTITY = ViewIdentity("totals", "incarnation")
COLUMNS = (
    "shop STRING, day INT, n BIGINT, mean DOUBLE, total DECIMAL(38,2), at TIMESTAMP, local TIMESTAMP_NTZ, on_day DATE, "
    "tiny TINYINT, small SMALLINT, ratio FLOAT, is_open BOOLEAN, code BINARY"
)
VALUES = (
    "CAST('NaN' AS DOUBLE), -12345678901234567890123456789012345.67BD, TIMESTAMP'1500-01-01 00:00:00.000001Z', "
    "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999', DATE'0001-01-01', -128Y, 32767S, CAST('-Infinity' AS FLOAT), true, "
    "X'00FF'"
)
NULLS = ", ".join(["NULL"] * 10)

BEFORE = (
    f"('stays', 1, 1L, {VALUES})",
    f"('changes', 1, 1L, {VALUES})",
    f"('changes', 1, 2L, {NULLS})",
    f"(NULL, 1, 1L, {NULLS})",
    f"(NULL, NULL, 1L, {VALUES})",
    f"('goes', NULL, 1L, {NULLS})",
    f"('twice', 1, 1L, {NULLS})",
    f"('twice', 1, 1L, {NULLS})",
    f"('untouched', 1, 1L, {NULLS})",
)
AFTER = (
    f"('stays', 1, 1L, {VALUES})",
    f"('changes', 1, 1L, {NULLS})",
    f"('changes', 1, 2L, {NULLS})",
    f"(NULL, 1, 7L, {VALUES})",
    f"(NULL, NULL, 1L, {VALUES})",
    f"('twice', 1, 1L, {NULLS})",
    f"('new', 1, 1L, {VALUES})",
)
UNITS = "('stays', 1), ('changes', 1), (NULL, 1), (NULL, NULL), ('goes', NULL), ('twice', 1), ('new', 1)"


@pytest.fixture(params=[pytest.param(True, id="with a feed"), exhaustive(False, name="without a feed")])
def view(request: pytest.FixtureRequest, spark: SparkSession, lake: Path) -> MaterializedView:
    """A view with deletion vectors, in two files."""
    path = str(lake / "totals")
    feed = ", 'delta.enableChangeDataFeed' = 'true'" if request.param else ""
    spark.sql(
        f"CREATE TABLE delta.{quote(path)} ({COLUMNS}) USING delta TBLPROPERTIES "
        f"('delta.enableDeletionVectors' = 'true'{feed})"
    )
    for rows in (BEFORE[:4], BEFORE[4:]):
        of(spark, rows).coalesce(1).write.format("delta").mode("append").save(path)
    return MaterializedView(spark, path)


def of(spark: SparkSession, rows: Sequence[str]) -> DataFrame:
    """Return rows in the view's columns."""
    names = [column.split()[0] for column in COLUMNS.split(", ")]
    types = [column.split()[1] for column in COLUMNS.split(", ")]
    casts = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in zip(names, types, strict=True))
    values = ", ".join(rows) or f"(NULL, NULL, NULL, {NULLS})"
    found = spark.sql(f"SELECT {casts} FROM VALUES {values} AS t({', '.join(names)})")
    return found if rows else found.limit(0)


def replace(view: MaterializedView, epoch: int, rows: Sequence[str] = AFTER, units: str = UNITS) -> int | None:
    spark = view.table.spark
    touched = spark.sql(f"SELECT * FROM VALUES {units} AS t(shop, day)")
    return view.replace_units(of(spark, rows), touched, ["shop", "day"], CHANGES, IDENTITY, barrier_of(epoch))


def texts(rows: DataFrame) -> list[str]:
    return sorted(map(repr, rows.collect()))


def newest_info(view: MaterializedView) -> dict[str, object]:
    version = view.table.log.newest().version
    actions = view.table.log.actions(version) or []
    return next(action["commitInfo"] for action in actions if "commitInfo" in action)


def changes_in(view: MaterializedView, version: int) -> list[str]:
    feed = view.table.spark.read.option("readChangeFeed", "true").option("startingVersion", version)
    return texts(feed.format("delta").load(view.path).select("_change_type", "shop", "day", "n"))


CHANGED = sorted(
    str(Row(_change_type=kind, shop=shop, day=day, n=n))
    for kind, shop, day, n in [
        ("delete", "changes", 1, 1),
        ("update_preimage", None, 1, 1),
        ("delete", "goes", None, 1),
        ("delete", "twice", 1, 1),
        ("delete", "twice", 1, 1),
        ("insert", "changes", 1, 1),
        ("update_postimage", None, 1, 7),
        ("insert", "twice", 1, 1),
        ("insert", "new", 1, 1),
    ]
)


def test_rows_are_replaced_at_their_places(view: MaterializedView) -> None:
    """I2, I7: every type, nulls in units, equal rows, and rows that stay; twice, so that rows are hidden before."""
    spark = view.table.spark
    assert replace(view, 2) == 7
    assert newest_info(view)["engineInfo"] == "airflow-backfill-provider"
    assert texts(view.table.read()) == texts(of(spark, [*AFTER, BEFORE[-1]]))
    version = view.table.log.newest().version
    if "enableChangeDataFeed" in json.dumps(view.table.log.actions(0)):
        assert changes_in(view, version) == CHANGED
    assert replace(view, 2) is None
    assert view.table.log.newest().version == version
    assert replace(view, 3, AFTER[1:]) == 7
    assert newest_info(view)["engineInfo"] == "airflow-backfill-provider"
    assert texts(view.table.read()) == texts(of(spark, [*AFTER[1:], BEFORE[-1]]))
    spark.sql(f"OPTIMIZE {view.table.sql_name}")
    assert texts(view.table.read()) == texts(of(spark, [*AFTER[1:], BEFORE[-1]]))


EXACT = (
    *(("shop", "day"), ("n",), ("total",), ("at",), ("local", "tiny"), ("on_day",), ("small",), ("is_open",)),
    ("code",),
)
INEXACT = (("mean",), ("ratio", "shop"))


def test_rows_are_found_as_spark_finds_them(view: MaterializedView, monkeypatch: pytest.MonkeyPatch) -> None:
    """I1: by values of each type, by several together and by nulls, after rows were hidden."""
    replace(view, 2)
    spark, known = view.table.spark, KnownTable.of(view.table, view.table.log.newest().version)
    places = known.places
    assert places is not None
    by_spark = []

    def noted(*arguments):
        found = rows_by_value(*arguments)
        by_spark.append(found is None)
        return found

    def found_by(find, units: TouchedUnits) -> list[str]:
        monkeypatch.setattr(placed_rows, "rows_by_value", find)
        rows = known.of_units(units).rows
        name = F.substring_index(places.file, "/", -1).alias(places.file)
        return texts(rows.select(*(column for column in rows.columns if column != places.file), name))

    # Of the last ones, all rows in the first file are hidden.
    wanted = [*((AFTER[::2], columns) for columns in (*EXACT, *INEXACT)), (AFTER[3:4], ("shop", "day"))]
    for rows, columns in wanted:
        units = TouchedUnits.of(of(spark, rows).select(*columns), columns)
        assert found_by(noted, units) == found_by(lambda *_: None, units) != []
    assert by_spark == [False] * len(EXACT) + [True] * len(INEXACT) + [False]


@pytest.mark.exhaustive
def test_a_view_that_was_compacted_meanwhile_is_merged(view: MaterializedView, monkeypatch: pytest.MonkeyPatch) -> None:
    """I1: the rows lie in other files by now."""
    spark = view.table.spark

    def compacted(*arguments):
        spark.sql(f"OPTIMIZE {view.table.sql_name}")
        return replace_rows(*arguments)

    monkeypatch.setattr(placed_rows, "replace_rows", compacted)
    assert replace(view, 2) == 7
    assert "airflow-backfill-provider" not in str(newest_info(view)["engineInfo"])
    assert texts(view.table.read()) == texts(of(spark, [*AFTER, BEFORE[-1]]))


@pytest.mark.exhaustive
def test_a_view_without_deletion_vectors_is_merged(view: MaterializedView) -> None:
    spark = view.table.spark
    spark.sql(f"ALTER TABLE {view.table.sql_name} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')")
    assert replace(view, 2) == 7
    assert "airflow-backfill-provider" not in str(newest_info(view)["engineInfo"])
    assert texts(view.table.read()) == texts(of(spark, [*AFTER, BEFORE[-1]]))
