"""Errors contain no values of rows, although Spark and Delta quote them in many errors."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from pyspark.sql import SparkSession

from airflow_backfill_provider.core.errors import BackfillError
from airflow_backfill_provider.spark.spark_errors import comparison_errors, epoch_errors, view_errors
from tests.integration.engine.lakehouse import Lakehouse
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

CANARY = "Canary-4111"

Translate = Callable[[str], AbstractContextManager[None]]

EXPRESSIONS = [
    "CAST(s AS INT)",
    "CAST(s AS DATE)",
    "CAST(s AS BOOLEAN)",
    "CAST(s AS INTERVAL DAY)",
    "CAST(s AS DECIMAL(5, 2))",
    "CAST(n AS TINYINT)",
    "CAST(CAST(n AS STRING) AS DECIMAL(3, 0))",
    "n * 9223372036854775807",
    "to_timestamp(s, 'yyyy')",
    "to_date(s, 'yyyy-MM-dd')",
    "to_number(s, '999')",
    "date_format(TIMESTAMP'2026-01-01', s)",
    "raise_error(s)",
    "assert_true(n < 0, s)",
    "map(s, 1, concat(s, ''), 2)",
    "map('a', 1)[s] + array(1)[n]",
    "element_at(array(1), CAST(n AS INT))",
    "parse_json(s)",
    "from_json(s, 'x INT', map('mode', 'FAILFAST'))",
    "from_csv(s, 'x INT', map('mode', 'FAILFAST'))",
    "regexp_extract(s, concat('(', s))",
    "s RLIKE concat('[', s)",
    "encode(s, s)",
    "parse_url(s || '^', 'HOST')",
    "url_decode(s || '%zz')",
    "format_string('%' || s, 1)",
    "make_date(CAST(n AS INT), 99, 99)",
    "to_binary(s, 'hex')",
    "unbase64(s || '!')",
    "aes_decrypt(CAST(s AS BINARY), CAST(s AS BINARY))",
    "sequence(n, 1, CAST(1 AS BIGINT))",
    "xpath_int(s, 'a/b')",
    "convert_timezone(s, TIMESTAMP_NTZ'2026-01-01 00:00:00')",
    "timestampadd(YEAR, CAST(n AS INT), TIMESTAMP'2026-01-01')",
    "repeat(s, CAST(1e9 AS INT))",
]


def has_no_canary(error: BaseException, log: str) -> bool:
    text = "".join(traceback.format_exception(error)) + log
    return CANARY.lower() not in text.lower() and "41114111" not in text


@pytest.fixture
def rows(spark: SparkSession) -> SparkSession:
    """A session with the view ``rows`` of one row."""
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", "true")
    session.sql(f"SELECT '{CANARY}' || id AS s, 41114111 + id AS n FROM range(1)").createOrReplaceTempView("rows")
    return session


@pytest.mark.exhaustive
@pytest.mark.parametrize("translate", [epoch_errors, comparison_errors])
def test_no_expression_quotes_a_row(rows: SparkSession, caplog: pytest.LogCaptureFixture, translate: Translate) -> None:
    caplog.set_level(logging.DEBUG, "airflow_backfill_provider")
    raised = [error for error in (failure_of(rows, expression, translate) for expression in EXPRESSIONS) if error]
    for error in raised:
        assert has_no_canary(error, caplog.text)
    assert len(raised) > 2 * len(EXPRESSIONS) / 3


def failure_of(rows: SparkSession, expression: str, translate: Translate) -> BackfillError | None:
    """Return how an expression fails on the row, ``None`` if it does not."""
    try:
        with translate("epoch 3"):
            rows.sql(f"SELECT {expression} AS x FROM rows").write.format("noop").mode("overwrite").save()
    except BackfillError as error:
        return error
    return None


@pytest.mark.parametrize(
    ("columns", "after", "condition"),
    [
        ("s VARCHAR(3), n BIGINT", "", "EXCEED"),
        exhaustive("s STRING, n BIGINT", "ADD CONSTRAINT small CHECK (n < 10)", "the constraint small"),
        exhaustive("s STRING, n TINYINT", "", "OVERFLOW|TASK_WRITE_FAILED"),
    ],
)
def test_no_table_quotes_what_it_refuses(
    lakehouse: Lakehouse, rows: SparkSession, columns: str, after: str, condition: str
) -> None:
    table = lakehouse.view_name
    with view_errors(lakehouse.view_path):
        rows.sql(f"CREATE TABLE {table} ({columns}) USING delta")
        if after:
            rows.sql(f"ALTER TABLE {table} {after}")
    statements = (
        f"INSERT INTO {table} SELECT * FROM rows",
        f"MERGE INTO {table} t USING rows r ON t.s <=> r.s WHEN NOT MATCHED THEN INSERT *",
    )
    for statement in statements:
        with pytest.raises(BackfillError, match=condition) as caught, epoch_errors("epoch 3"):
            rows.sql(statement)
        assert has_no_canary(caught.value, "")


def test_an_epoch_does_not_quote_the_row_that_it_fails_on(
    lakehouse: Lakehouse, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "airflow_backfill_provider")
    lakehouse.make_upstream("id BIGINT, s STRING")
    lakehouse.sql(f"INSERT INTO {{upstream}} VALUES (1, '{CANARY}')")
    lakehouse.create(query="SELECT id, CAST(s AS INT) AS n FROM upstream")
    with pytest.raises(BackfillError, match="CAST_INVALID_INPUT") as caught:
        lakehouse.epoch()
    assert has_no_canary(caught.value, caplog.text)


def test_no_expression_quotes_a_row_through_connect(spark_remote: str) -> None:
    from airflow_backfill_provider.applications.connect import connected
    from airflow_backfill_provider.core.remote import Remote

    with connected(Remote.parse(spark_remote), what="canary") as connection:
        for expression in ("CAST(s AS INT)", "raise_error(s)", "map(s, 1, concat(s, ''), 2)", "to_number(s, '999')"):
            with pytest.raises(BackfillError) as caught, epoch_errors("epoch 3"):
                connection.spark.sql(
                    f"SELECT {expression} AS x FROM (SELECT '{CANARY}' || id AS s FROM range(1))"
                ).collect()
            assert has_no_canary(caught.value, "")
