"""Connections that cannot be used, each refused in one line with what to do; and databases of any name."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from psycopg import sql
from pyspark.sql import SparkSession

from airflow_backfill_provider.core.errors import BackfillError, DatabaseRefusedError, InvalidJobError
from airflow_backfill_provider.core.scan.keys import EVERYTHING
from airflow_backfill_provider.sources.postgres import Postgres
from airflow_backfill_provider.sources.postgres.definition import PostgresUpstream
from airflow_backfill_provider.sources.postgres.source import PostgresSource
from airflow_backfill_provider.sources.postgres.table import PostgresTable
from airflow_backfill_provider.sources.shared.postgresql.database import Database
from demo.postgres.cluster import HOST, SUPERUSER, give, run_program
from tests.postgres_server import PASSWORD, PostgresServer
from tests.variants import exhaustive

pytestmark = pytest.mark.spark


def source_of(table: str = "public.orders") -> PostgresSource:
    return PostgresSource(PostgresTable(PostgresUpstream(connection="shop_db", table=table, slot="x", key=["id"])))


def refusal(uri: str, monkeypatch: pytest.MonkeyPatch, table: str = "public.orders") -> str:
    """Return why a table cannot be described; in one line, without the password."""
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", uri)
    with pytest.raises(BackfillError) as refused:
        source_of(table).at()
    assert isinstance(refused.value, DatabaseRefusedError | InvalidJobError)
    message = str(refused.value)
    assert "\n" not in message
    assert PASSWORD not in message
    return message


@pytest.mark.parametrize(
    "name", ["my db/1?x=%2&y", exhaustive("shop?socketFactory=x&a=b"), exhaustive("größe;#+@:[]\\ '\"")]
)
def test_a_database_of_any_name_is_read_by_both_drivers(
    postgres: PostgresServer, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """And its name adds no option to the JDBC driver's address."""
    postgres.create_database(name)
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", postgres.uri(quote(name, safe="")))
    with postgres.connect(name) as connection:
        connection.execute("CREATE TABLE orders (id int PRIMARY KEY)")
        connection.execute("INSERT INTO orders VALUES (1), (2)")
    source = source_of()
    assert source.at().types == {"id": "integer"}
    assert sorted(map(tuple, Postgres().reader(spark, source).present_rows([EVERYTHING]).collect())) == [(1,), (2,)]


def test_a_unix_socket_is_refused_also_by_a_plan(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """libpq reaches the server there, and Spark does not."""
    with tempfile.TemporaryDirectory(prefix="pg-") as folder:
        give(Path(folder))
        postgres.stop()
        postgres.start(unix_socket_directories=folder)
        try:
            uri = f"postgres://{SUPERUSER}:{quote(PASSWORD)}@{quote(folder, safe='')}:{postgres.port}/postgres"
            message = refusal(uri, monkeypatch)
        finally:
            postgres.stop()
            postgres.start()
    assert message.startswith(f"shop_db: the connection leads to a Unix socket ({folder})")


def test_a_missing_database_is_no_outage(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    message = refusal(postgres.uri("missing"), monkeypatch)
    assert message.startswith("shop_db: there is no such database (")
    assert 'FATAL:  database "missing" does not exist' in message


@pytest.mark.parametrize(
    "table", ["a.b.c.d", "postgres.public.orders.x", "a.b.c", '"orders', "public.", "", "my orders", "public.orders x"]
)
def test_a_text_that_names_no_table_is_refused_with_how_to_write_one(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    message = refusal(postgres.uri(), monkeypatch, table or " ")
    assert message.startswith(f"upstream.postgres.table: {table or ' '!r} does not name a table of database postgres")
    assert "such as public.orders" in message


@pytest.fixture(scope="module")
def standby(postgres: PostgresServer) -> Iterator[PostgresServer]:
    """A standby of the server, for reading."""
    folder = Path(tempfile.mkdtemp(prefix="postgres-standby-"))
    folder.chmod(0o755)
    give(folder)
    copy = PostgresServer(folder / "data")
    postgres.put_rules_first(f"host replication {SUPERUSER} {HOST}/32 trust")
    with postgres.connect() as connection:
        connection.execute("SELECT pg_reload_conf()")
    source = ["-h", HOST, "-p", postgres.port, "-U", SUPERUSER]
    run_program("pg_basebackup", "-D", copy.folder, *source, "-R", "--checkpoint=fast", "-X", "stream")
    copy.start()
    try:
        yield copy
    finally:
        copy.stop()
        shutil.rmtree(folder)


@pytest.mark.exhaustive
def test_a_standby_is_refused_and_named(standby: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot take the marks of a reading."""
    message = refusal(standby.uri(), monkeypatch)
    assert message == (
        "shop_db: the server at 127.0.0.1 is a standby, and a job writes marks into the log, which only the primary "
        "does; let the connection name the primary"
    )


def test_a_standby_may_be_read_where_nothing_is_written(
    standby: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of Debezium's events, only the present rows come from the database."""
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", standby.uri())
    with Database("shop_db").session() as connection:
        assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_the_environment_of_the_process_changes_no_session(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libpq sends what it finds there after the options."""
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", postgres.uri())
    for name, value in {"PGDATESTYLE": "German", "PGTZ": "Asia/Tokyo", "PGCLIENTENCODING": "LATIN1"}.items():
        monkeypatch.setenv(name, value)
    with Database("shop_db").session() as connection:
        shown = connection.execute(sql.SQL("SELECT '2024-01-02 00:00+00'::timestamptz::text, 'ä'")).fetchall()
        assert (shown, connection.info.encoding) == ([("2024-01-02 00:00:00+00", "ä")], "utf-8")
    assert os.environ["PGTZ"] == "Asia/Tokyo"
