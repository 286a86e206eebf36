"""Databases in other encodings than UTF-8, and bytes that are no text: nothing is stuck, no text becomes another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from pyspark.sql import SparkSession

from airflow_backfill_provider.core.errors import InvalidJobError, UnsupportedValueError
from tests.integration.postgres.shop import Shop
from tests.postgres_server import PostgresServer
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

Encoded = Callable[[str], Shop]


@pytest.fixture
def encoded(
    postgres: PostgresServer, spark: SparkSession, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Encoded]:
    """Make a shop whose database has an encoding."""
    shops: list[Shop] = []

    def make(encoding: str) -> Shop:
        name = f"in_{encoding.lower()}_{id(shops)}"
        with postgres.connect() as connection:
            connection.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE template0 ENCODING {} LOCALE 'C'").format(
                    sql.Identifier(name), encoding
                )
            )
        monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", postgres.uri(name))
        shops.append(Shop(spark, lake, postgres.connect(name)))
        return shops[-1]

    try:
        yield make
    finally:
        for shop in shops:
            drop_slots = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s"
            shop.database.execute(drop_slots, [shop.database.info.dbname])
            shop.database.close()


def write_bytes(connection: psycopg.Connection[object], value: bytes, statement: str) -> None:
    """Let the server take bytes as they are: a client without an encoding converts nothing."""
    with connection.transaction():
        connection.execute("SET LOCAL client_encoding TO 'SQL_ASCII'")
        connection.execute(statement.encode().replace(b"?", b"'" + value + b"'"))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("encoding", "text"), [("LATIN1", "Größe ÿ"), exhaustive("WIN1252", "€ „ž“"), exhaustive("EUC_JP", "日本 語")]
)
def test_texts_of_another_encoding_are_the_same_from_the_table_and_from_the_log(
    encoded: Encoded, encoding: str, text: str
) -> None:
    """I1: also names of columns and of the publication."""
    shop = encoded(encoding)
    name = sql.Identifier(text)
    shop.database.execute(sql.SQL("CREATE TABLE orders (id int PRIMARY KEY, {} text)").format(name))
    shop.database.execute("INSERT INTO orders VALUES (1, %s), (2, NULL)", [text])
    shop.create(query=f"SELECT id, `{text}` AS x FROM upstream", postgres={"publication": f"Of {text}"})
    shop.finish()
    shop.database.execute("INSERT INTO orders VALUES (3, %s)", [f"{text}!"])
    assert shop.epoch() is not None
    assert shop.rows("id", "x") == [(1, text), (2, None), (3, f"{text}!")]
    shop.assert_truth()


@pytest.mark.exhaustive
def test_a_byte_that_is_no_character_blocks_no_column_but_its_own(encoded: Encoded) -> None:
    """I6: 0x81 is no character of WIN1252, and the server takes it. Other values come as the server converts them."""
    shop = encoded("WIN1252")
    shop.run_sql("CREATE TABLE orders (id int PRIMARY KEY, used text, unused text)")
    shop.database.execute("INSERT INTO orders VALUES (1, '€', 'ž')")
    shop.create(query="SELECT id, used FROM upstream", postgres={"publication": "Of größe"})
    shop.finish()
    write_bytes(shop.database, b"\x81", "INSERT INTO orders VALUES (2, 'plain', ?)")
    shop.database.execute("INSERT INTO orders VALUES (3, '„€“', 'ž')")
    assert shop.epoch() is not None
    assert shop.rows("id", "used") == [(1, "€"), (2, "plain"), (3, "„€“")]
    write_bytes(shop.database, b"\x81", "UPDATE orders SET used = ? WHERE id = 2")
    with pytest.raises(UnsupportedValueError, match="column used .* run the next epoch"):
        shop.epoch()
    shop.run_sql("UPDATE orders SET used = 'corrected' WHERE id = 2")
    assert shop.epoch() is not None
    assert shop.rows("id", "used") == [(1, "€"), (2, "corrected"), (3, "„€“")]


@pytest.mark.exhaustive
def test_a_byte_that_is_no_character_is_named_when_the_table_is_read(encoded: Encoded) -> None:
    """I6: until the row is corrected."""
    shop = encoded("WIN1252")
    shop.run_sql("CREATE TABLE orders (id int PRIMARY KEY, used text)")
    write_bytes(shop.database, b"\x81", "INSERT INTO orders VALUES (1, ?)")
    shop.create()
    with pytest.raises(UnsupportedValueError, match="bytes without a counterpart in Unicode"):
        shop.finish()
    shop.run_sql("UPDATE orders SET used = 'corrected'")
    shop.finish()
    shop.assert_truth()


@pytest.mark.exhaustive
def test_a_database_without_an_encoding_is_refused_by_its_name(encoded: Encoded) -> None:
    """Nobody knows what its bytes mean, and one of them would end every landing."""
    shop = encoded("SQL_ASCII")
    shop.run_sql("CREATE TABLE orders (id int PRIMARY KEY, note text)")
    with pytest.raises(InvalidJobError, match="is encoded in SQL_ASCII.*copy it into a database in UTF8"):
        shop.create(query="SELECT id FROM upstream")
    assert shop.table("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()") == []
