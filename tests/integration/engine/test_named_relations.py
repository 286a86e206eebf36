"""SQL over data frames, in a driver's own session and in one of a client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_backfill_provider.applications.connect import connected
from airflow_backfill_provider.core.remote import Remote
from airflow_backfill_provider.sources.shared.kept_rows import KEPT
from airflow_backfill_provider.spark.named_relations import sql_over

pytestmark = pytest.mark.spark


@pytest.fixture(params=["driver", "client"])
def session(request: pytest.FixtureRequest, spark: SparkSession, spark_remote: str) -> Iterator[SparkSession]:
    """A session of each kind."""
    if request.param == "driver":
        yield spark
        return
    with connected(Remote.parse(spark_remote), what="test") as connection:
        yield connection.spark


def plan_of(rows: DataFrame, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    rows.explain()
    return capsys.readouterr().out


def names_of_views(session: SparkSession) -> list[str]:
    """Return the names only: Spark's catalog would resolve each view, and fail at one over a table that is gone."""
    return sorted(row["viewName"] for row in session.sql("SHOW VIEWS").collect())


def test_rows_that_are_kept_are_not_read_again(session: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither by this query, nor by a later one, nor by another use of the rows."""
    rows = session.range(0, 20, 1, 2).selectExpr("id", "id % 3 AS `g`").persist(KEPT)
    try:
        assert rows.count() == 20
        first, second = (
            sql_over(session, "SELECT g, count(*) AS n, '{x}' AS x FROM `all rows` GROUP BY g", {"`all rows`": rows})
            for _ in range(2)
        )
        assert {(row["g"], row["n"], row["x"]) for row in first.collect()} == {
            (0, 7, "{x}"),
            (1, 7, "{x}"),
            (2, 6, "{x}"),
        }
        for found in (first, second, rows.filter("g = 1")):
            assert "InMemoryTableScan" in plan_of(found, capsys)
        assert rows.storageLevel == KEPT
    finally:
        rows.unpersist()


def test_several_relations_are_read_and_no_name_is_left(session: SparkSession) -> None:
    before = names_of_views(session)
    relations = {"`one`": session.range(3), "`two`": session.range(2, 5)}
    found = sql_over(session, "SELECT a.id FROM `one` AS a JOIN `two` AS b ON a.id = b.id", relations)
    assert [row["id"] for row in found.collect()] == [2]
    assert names_of_views(session) == before
