"""Whatever is set for the role, the database or the process: sessions set their own, so nothing ends or changes."""

from __future__ import annotations

import pytest
from psycopg import sql

from tests.integration.postgres.shop import Shop
from tests.postgres_server import PostgresServer

pytestmark = pytest.mark.spark

SETTINGS = {
    "statement_timeout": "1ms",
    "lock_timeout": "1ms",
    "idle_in_transaction_session_timeout": "1ms",
    "idle_session_timeout": "1ms",
    "default_transaction_isolation": "serializable",
    "default_transaction_read_only": "on",
    "default_transaction_deferrable": "on",
    "search_path": "elsewhere",
    "DateStyle": "German",
    "IntervalStyle": "postgres_verbose",
    "TimeZone": "Asia/Tokyo",
    "bytea_output": "escape",
    "extra_float_digits": "-5",
    "standard_conforming_strings": "off",
    "array_nulls": "off",
    "client_encoding": "LATIN1",
    "quote_all_identifiers": "on",
    "xmloption": "document",
    "transform_null_equals": "on",
    "synchronous_commit": "off",
}
ENVIRONMENT = {"PGDATESTYLE": "German", "PGTZ": "Asia/Tokyo", "PGCLIENTENCODING": "LATIN1", "PGOPTIONS": "-c geqo=off"}

COLUMNS = "at timestamptz, day date, lasts interval, bytes bytea, number float8, names text[], doc xml, note text"
VALUES = (
    r"'2026-03-29 02:30+01'::timestamptz, '2026-03-04'::date, '1 day 2 hours'::interval, '\x00ff'::bytea, "
    r"""0.30000000000000004::float8, '{a,"NULL",NULL}'::text[], XMLPARSE(CONTENT 'a<b/>'), 'ä\b'"""
)


@pytest.mark.exhaustive
def test_no_setting_of_a_role_ends_a_reading_or_changes_a_value(
    shop: Shop, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I1, I6: from the table and from the log, also with settings in the environment of the process."""
    shop.run_sql(
        f"CREATE TABLE orders (id int PRIMARY KEY, {COLUMNS})",
        f"INSERT INTO orders SELECT i, {VALUES} FROM generate_series(1, 2000) i",
        "CREATE ROLE busy LOGIN SUPERUSER PASSWORD 'x'",
    )
    try:
        for name, value in SETTINGS.items():
            shop.database.execute(sql.SQL("ALTER ROLE busy SET {} = {}").format(sql.Identifier(name), value))
        for name, value in ENVIRONMENT.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", postgres.uri(shop.database.info.dbname, "busy", "x"))
        shop.create(rate_limit=1500)
        shop.run_sql(f"INSERT INTO orders SELECT i, {VALUES} FROM generate_series(3001, 3003) i")
        shop.finish()
        shop.run_sql(f"INSERT INTO orders SELECT i, {VALUES} FROM generate_series(5001, 5003) i")
        assert shop.epoch() is not None
        shop.assert_truth()
        columns = [column.split()[0] for column in COLUMNS.split(", ")]
        rows = shop.view().select(*columns).distinct().collect()
        assert [row["number"] for row in rows] == [0.30000000000000004]
        assert (bytes(rows[0]["bytes"]), rows[0]["names"], rows[0]["note"]) == (
            b"\x00\xff",
            ["a", "NULL", None],
            r"ä\b",
        )
        assert (rows[0]["lasts"], str(rows[0]["day"]), rows[0]["doc"]) == ("P1DT2H", "2026-03-04", "a<b/>")
    finally:
        monkeypatch.undo()
        shop.database.execute("DROP OWNED BY busy CASCADE; DROP ROLE busy")
