"""
Spark's own plan of a query is checked before the query runs, and no file is opened for it.

The queries here have not gone through the check of their text, as if that check had overlooked something.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_backfill_provider.applications.connect import connected
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.remote import Remote
from airflow_backfill_provider.shapes.queries import OF_ROWS
from airflow_backfill_provider.shapes.row.query import check_query
from airflow_backfill_provider.spark.query import run_query
from airflow_backfill_provider.spark.session import prepare_session

pytestmark = pytest.mark.spark

COLUMNS = "id BIGINT, t STRING, `a\n+- Relation [x] text` STRING, s STRUCT<`x\ny`: INT>"


@dataclass(frozen=True)
class Overlooked:
    """A query whose text was not checked."""

    text: str
    has_steps: bool = False
    upstream_names: frozenset[str] = frozenset()
    plan_nodes: Collection[str] = OF_ROWS

    others: tuple[str, ...] = ()

    def over(self, relation: str, others: Mapping[str, str]) -> str:
        return self.text.replace("upstream", f"`{relation}` AS upstream")


@pytest.fixture(scope="module", params=["classic", "connect"])
def session(
    request: pytest.FixtureRequest, shared_spark: tuple[SparkSession, int], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """A session with a view and a function of its own."""
    if request.param == "classic":
        yield prepare(shared_spark[0].newSession())
        return
    with connected(Remote.parse(f"sc://127.0.0.1:{shared_spark[1]}"), what="plans") as connection:
        yield prepare(connection.spark)


def prepare(session: SparkSession) -> SparkSession:
    prepare_session(session)
    session.sql("CREATE OR REPLACE TEMPORARY VIEW theirs AS SELECT 1 AS id, 'secret' AS t")
    return session


def run(session: SparkSession, text: str) -> list[tuple[object, ...]]:
    rows = session.createDataFrame([(1, "a", "b", (2,))], COLUMNS)
    return [tuple(row) for row in run_query(session, Overlooked(text), rows).collect()]


REFUSED = [
    ("SELECT id, (SELECT 1) AS x FROM upstream", "has a subquery"),
    ("SELECT id FROM upstream WHERE EXISTS (SELECT 1 FROM theirs)", "has a subquery"),
    ("SELECT id FROM upstream WHERE id IN (SELECT * FROM VALUES (1))", "has a subquery"),
    ("SELECT id FROM theirs", "reads OneRowRelation"),
    ("SELECT id FROM upstream, LATERAL (SELECT 1)", "has a subquery"),
    ("SELECT id FROM range(3)", "reads Range"),
    ("SELECT id FROM upstream UNION ALL VALUES (1)", "has Union"),
    ("SELECT TRANSFORM(id) USING 'cat' AS (id) FROM upstream", "has ScriptTransformation"),
    ("SELECT reflect('java.lang.System', 'getProperty', 'user.dir') AS x FROM upstream", "calls reflect"),
    ("SELECT id, java_method('java.util.UUID', 'randomUUID') AS x FROM upstream", "calls java_method"),
    ("SELECT explode(array(1, 2)) AS x FROM upstream", "has Generate"),
    ("SELECT count(*) AS x FROM upstream", "has Aggregate"),
    ("WITH a AS (SELECT id FROM upstream) SELECT a.id FROM a JOIN a AS b USING (id)", "has Join"),
    (
        "SELECT from_json(t, concat('`a', chr(10), '== Optimized Logical Plan ==', chr(10), 'b` INT')) FROM upstream",
        "cannot be told",
    ),
]


@pytest.mark.parametrize(("text", "said"), REFUSED)
def test_a_query_that_does_more_than_its_shape_announced_is_refused(
    session: SparkSession, text: str, said: str
) -> None:
    """Whatever the check of the text overlooks, Spark's plan shows."""
    with pytest.raises(InvalidJobError) as caught:
        run(session, text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("form", ["text", "csv", "json", "parquet", "delta", "binaryFile"])
def test_no_path_is_opened_while_a_query_is_analysed(session: SparkSession, form: str, tmp_path: Path) -> None:
    """Spark reads files for their schema when it analyses a query; their names must not even resolve."""
    file = tmp_path / "secret.txt"
    file.write_text("secret", encoding="utf-8")
    with pytest.raises(InvalidJobError, match="TABLE_OR_VIEW_NOT_FOUND"):
        run(session, f"SELECT id, (SELECT count(*) FROM {form}.`{file}`) AS x FROM upstream")
    assert session.sql(f"SELECT * FROM text.`{file}`").collect()[0][0] == "secret"


def test_names_and_texts_that_look_like_a_plan_are_accepted(session: SparkSession) -> None:
    relation = "`a\n+- Relation [x] text`"
    written = (
        r"SELECT 'reflect(a)' AS `java_method(x)`, 'x\n+- Relation [v] text', '== Optimized Logical Plan =='"
        rf", '\n== Analyzed Logical Plan ==\n', {relation}, s.`x" + "\ny` FROM upstream WHERE t <> '\n:- Join Inner'"
    )
    for text in (written, check_query(written).text):
        (row,) = run(session, text)
        assert row[:3] == ("reflect(a)", "x\n+- Relation [v] text", "== Optimized Logical Plan ==")
        assert row[3:] == ("\n== Analyzed Logical Plan ==\n", "b", 2)


def test_constants_with_escapes_are_accepted(session: SparkSession) -> None:
    """The explained query has other texts, which must not be computed."""
    text = r"SELECT split('a(b', '\\(')[1] AS x, 'a1' RLIKE '\\d' AS y, 'x y%' LIKE 'x y\\%' AS z FROM upstream"
    assert run(session, text) == [("b", True, True)]


def test_every_kind_of_step_is_accepted(session: SparkSession) -> None:
    text = (
        "WITH a AS (SELECT /*+ REPARTITION(2) */ * FROM upstream), b AS (SELECT * FROM a WHERE id > 0) "
        "FROM (SELECT id, id AS i, i + 1 AS j, t FROM b) AS c |> WHERE j > 0 |> EXTEND upper(t) AS u |> SET t = u "
        "|> DROP u |> AS d |> SELECT d.id, j, transform(array(1), x -> x + id) AS l"
    )
    assert run(session, text) == [(1, 2, [2])]
