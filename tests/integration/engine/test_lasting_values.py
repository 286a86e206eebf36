"""A query means the same in every epoch, whatever the session, the catalog and the day."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.shapes import functions, query_of
from airflow_backfill_provider.shapes.function_arguments import FORMAT_FUNCTIONS
from airflow_backfill_provider.shapes.job_query import JobQuery
from airflow_backfill_provider.spark import lasting_values
from airflow_backfill_provider.spark.lasting_values import require_lasting_values
from airflow_backfill_provider.spark.session import prepare_session
from tests.integration.engine.lakehouse import Lakehouse
from tests.known_settings import KNOWN_SETTINGS
from tests.variants import mostly_exhaustive

pytestmark = pytest.mark.spark

COLUMNS = """
    id BIGINT, t STRING, d DATE, ts TIMESTAMP, n TIMESTAMP_NTZ, b BOOLEAN, s STRUCT<a: STRING, b: DATE>,
    arr ARRAY<STRING>
"""

MOVING = """
cast(t as timestamp)
t::timestamp
timestamp(t)
to_timestamp(t)
try_cast(upper(t) as timestamp)
ts > t
ts > '10:15'
ts = concat('to', 'day')
hour(t)
coalesce(ts, t)
nvl(ts, '10:15')
t between ts and ts
cast(coalesce('2020', t) as timestamp)
cast(case when b then '2020' else t end as timestamp)
cast(s.a as timestamp)
cast(arr as array<timestamp>)
transform(arr, x -> cast(x as timestamp))
cast(concat('to', 'day') as date)
cast(concat('10', ':15') as timestamp)
nvl(d, concat('to', 'day'))
d = 'today'
n > 'now'
from_json(t, 'a TIMESTAMP')
try_variant_get(parse_json(t), '$', 'timestamp')
""".strip().splitlines()

LASTING = """
t <> 'today' AND t NOT IN ('10:15', 'now')
cast(d as timestamp)
ts > date_add(d, 1)
ts > '2020-01-01' AND ts > '2020'
to_timestamp(t, 'yyyy-MM-dd HH:mm')
cast(t as date)
cast(cast(t as date) as timestamp)
cast(t as timestamp_ntz)
cast(id as timestamp)
cast(case when b then d end as timestamp)
ts >= d - interval 1 day
from_json(t, 'a TIMESTAMP', map('timestampFormat', 'yyyy'))
concat(t, '') = ') as timestamp)'
(id << 2) >> 1
IDENTIFIER('t')
""".strip().splitlines()


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """A separate session with a variable."""
    session = prepare_session(spark.newSession())
    session.sql("DECLARE OR REPLACE VARIABLE a_variable INT DEFAULT 5")
    return session


def check(session: SparkSession, expression: str) -> None:
    check_query_text(session, f"SELECT id, {expression} AS x FROM upstream")


def check_query_text(session: SparkSession, query: str) -> None:
    job = BackfillJob(
        name="job",
        upstream={"path": "/lake/upstream", "key": ["id"]},
        materialized_view="/lake/view",
        query=query,
    )
    asked = JobQuery(query_of(job), ("id",), frozenset())
    require_lasting_values(session, asked, session.createDataFrame([], COLUMNS))


@pytest.mark.parametrize("expression", mostly_exhaustive(MOVING, MOVING[::3]))
def test_a_value_that_may_differ_tomorrow_is_refused(session: SparkSession, expression: str) -> None:
    with pytest.raises(InvalidJobError, match="query: .*(tomorrow|each day)"):
        check(session, expression)


@pytest.mark.parametrize("expression", mostly_exhaustive(LASTING, LASTING[::3]))
def test_a_value_that_lasts_is_accepted(session: SparkSession, expression: str) -> None:
    check(session, expression)


def literals_of(day: dt.date) -> list[str]:
    """Return texts of dates and times that Spark shows as a date close to a day."""
    return [
        f"TIMESTAMP '{day - dt.timedelta(days=1)} 22:00:00-05:00'",
        f"TIMESTAMP '{day - dt.timedelta(days=1)}T20:30:00.25 America/New_York'",
        f"TIMESTAMP_LTZ '{day + dt.timedelta(days=1)} 05:00:00+09:00'",
        f'TIMESTAMP "{day.year}-{day.month}-{day.day} 1:00:00+14:00"',
        f"TIMESTAMP r'{day + dt.timedelta(days=2)} 05:00:00+09:00'",
        rf"TIMESTAMP '\u00{ord(str(day)[0]):02x}{str(day - dt.timedelta(days=1))[1:]} 22:00:00-05:00'",
    ]


def test_a_date_close_to_today_is_accepted_however_it_is_written(session: SparkSession) -> None:
    """Spark shows these in UTC, as a date that the query does not contain."""
    today = dt.datetime.now(dt.UTC).date()
    check(session, f"ts IN ({', '.join(literals_of(today))})")
    with pytest.raises(InvalidJobError, match="each day"):
        check(session, f"ts = {literals_of(today)[0]} OR d = concat('to', 'day')")


def test_a_month_that_has_just_begun_is_accepted(session: SparkSession) -> None:
    """DATE '2026-11' is 2026-11-01, which is close to today on that day."""
    texts = lasting_values._values_of_dates(session, "SELECT DATE '2026-11', TIMESTAMP '2026', 'today', '10:15', 'x'")
    assert texts == ["2026-01-01 00:00:00", "2026-11-01 00:00:00", "2026-01-01", "2026-11-01"]


def test_a_variable_of_the_session_is_refused_by_name(session: SparkSession) -> None:
    with pytest.raises(InvalidJobError, match="a_variable is a variable of the session"):
        check(session, "id + a_variable")


def test_a_view_has_one_meaning_though_the_session_changes_between_epochs(lakehouse: Lakehouse) -> None:
    """I2: each of these settings gives another result for the same text."""
    changed = {
        "spark.sql.parser.escapedStringLiterals": "true",
        "spark.sql.ansi.doubleQuotedIdentifiers": "true",
        "spark.sql.caseSensitive": "true",
        "spark.sql.chunkBase64String.enabled": "false",
    }
    lakehouse.make_upstream("id BIGINT, name STRING")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, concat('n', id) FROM range(9)")
    lakehouse.create(
        rate_limit=3,
        query=r"""SELECT id, length('a\nb') AS escaped, upper("name") AS quoted, NAME IS NULL AS cased,
            length(base64(repeat('x', 200))) AS chunked FROM upstream""",
    )
    assert lakehouse.epoch()
    try:
        for name, value in changed.items():
            lakehouse.spark.conf.set(name, value)
        assert lakehouse.epoch()
        lakehouse.finish()
    finally:
        for name in changed:
            lakehouse.spark.conf.unset(name)
    columns = ["escaped", "quoted", "cased", "chunked"]
    assert [tuple(row) for row in lakehouse.view().select(columns).distinct().collect()] == [(3, "NAME", False, 274)]
    assert lakehouse.view().count() == 9
    lakehouse.assert_truth()


def test_a_function_of_the_catalog_cannot_replace_a_built_in_one(session: SparkSession) -> None:
    """So a name on the list of Spark's functions can be trusted."""
    session.sql("CREATE TEMPORARY FUNCTION upper(x STRING) RETURNS STRING RETURN concat('theirs', x)")
    assert session.sql("SELECT upper('a')").head() == ("A",)


def test_every_function_of_spark_is_classified(spark: SparkSession) -> None:
    """Unclassified functions are refused; this test finds them before a user does."""
    ours = {"table_changes", "table_changes_by_path"}
    names = {row.function for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()} | ours
    lists = (
        functions.ROW_FUNCTIONS,
        functions.NON_DETERMINISTIC,
        functions.AGGREGATES,
        functions.GENERATORS,
        functions.WINDOW_FUNCTIONS,
        functions.TABLE_FUNCTIONS,
    )
    grammar = {"and", "between", "case", "in", "not", "or", "when"}
    found = {name: sum(name in names for names in lists) for name in names if re.fullmatch(r"[a-z]\w*", name)}
    assert {name for name, times in found.items() if times != 1} == grammar


def test_every_function_with_options_has_a_list_of_them(spark: SparkSession) -> None:
    """An option may name a file; this test finds the functions that a new version of Spark adds."""
    found = {row.function for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()} & functions.ROW_FUNCTIONS
    usages = {
        name: "\n".join(row[0] for row in spark.sql(f"DESCRIBE FUNCTION `{name}`").collect()).lower() for name in found
    }
    with_options = {name for name, usage in usages.items() if re.search(r"options|descriptor|file ?path|url", usage)}
    assert with_options - {"parse_url", "try_parse_url", "try_url_decode", "url_decode", "url_encode"} <= set(
        FORMAT_FUNCTIONS
    )
    assert len(with_options) > 9


def test_every_setting_of_spark_is_classified(spark: SparkSession, tmp_path: Path) -> None:
    """Unclassified settings are unset in every session; this test finds them before a user misses one."""
    spark.range(1).write.format("delta").save(str(tmp_path / "table"))
    java = spark._jvm
    assert java is not None
    known = getattr(getattr(java.org.apache.spark.sql.internal, "SQLConf$"), "MODULE$").getConfigEntries().toArray()
    names = {entry.key() for entry in known if entry.key().startswith(("spark.sql.", "spark.databricks.delta."))}
    assert names - KNOWN_SETTINGS.keys() == set()
    assert len(names) > 700


@pytest.mark.parametrize(
    "query",
    [
        # Not what the upstream calls d, which is a DATE.
        "SELECT id, CAST(d AS TIMESTAMP) AS x FROM (SELECT id, t AS d FROM upstream)",
        "WITH a AS (SELECT * EXCEPT (d), upper(t) AS d FROM upstream) SELECT id FROM a WHERE ts > d",
        "FROM upstream |> SET d = t |> SELECT id, hour(d) AS x",
        "SELECT x FROM (SELECT id, CAST(concat('to', 'day') AS DATE) AS x FROM upstream)",
    ],
)
def test_a_value_of_another_day_is_refused_through_every_level(session: SparkSession, query: str) -> None:
    with pytest.raises(InvalidJobError, match=r"differ tomorrow|changes each day"):
        check_query_text(session, query)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, CAST(x AS TIMESTAMP) AS x FROM (SELECT id, d AS x FROM upstream)",
        "WITH a AS (SELECT * EXCEPT (t), d AS t FROM upstream) SELECT id FROM a WHERE ts > t",
        "FROM upstream |> SET t = date_add(d, 1) |> WHERE ts > t |> SELECT id",
    ],
)
def test_a_lasting_value_is_accepted_through_every_level(session: SparkSession, query: str) -> None:
    check_query_text(session, query)
