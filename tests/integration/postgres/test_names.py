"""Columns of any name come through: from the table, from the log, and through every step in between."""

from __future__ import annotations

import pytest
from psycopg import sql

from tests.integration.postgres.shop import Shop
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

NAMES = [
    "a.b",
    "a`b",
    'a"b',
    "a'b",
    "a b",
    "Größe",
    "UPPER",
    "select",
    "a\nb",
    "a\\b",
    "a%sb",
    "a{b}",
    "a,b;c(d)=e\tf",
    "`",
    "``.``",
    "1",
    "$a",
    "a?b",
    ":a",
    "--a",
    "/*a*/",
    "_row",
    "__filled_long",
    "text",
    "key_0",
    "offset",
]


def spark_name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@pytest.mark.parametrize("of_key", [False, exhaustive(True)])
def test_columns_of_any_name_come_from_the_table_and_from_the_log(shop: Shop, of_key: bool) -> None:
    """I1: dots, quotes, backticks and blanks in names, also of columns whose long values the log leaves out."""
    columns = sql.SQL(", ").join(sql.SQL("{} text NOT NULL").format(sql.Identifier(name)) for name in NAMES)
    key = ["a.b", "a`b", 'a"b', "Größe"] if of_key else ["id"]
    shop.database.execute(
        sql.SQL("CREATE TABLE orders (id int, {}, PRIMARY KEY ({}))").format(
            columns, sql.SQL(", ").join(map(sql.Identifier, key))
        )
    )
    shop.database.execute("ALTER TABLE orders REPLICA IDENTITY FULL")

    def insert(id_: int) -> None:
        values = [id_, *(f"{id_} {number}" for number in range(len(NAMES)))]
        shop.database.execute(f"INSERT INTO orders VALUES ({', '.join(['%s'] * len(values))})", values)

    for id_ in range(3):
        insert(id_)
    outputs = [f"c{number}" for number in range(len(NAMES))]
    keys = ", ".join(f"{spark_name(name)} AS k{number}" for number, name in enumerate(key))
    selected = ", ".join(f"{spark_name(name)} AS {output}" for name, output in zip(NAMES, outputs, strict=True))
    shop.create(query=f"SELECT {keys}, {selected} FROM upstream", key=key, rate_limit=1)
    assert shop.epoch() is not None
    insert(7)
    name = sql.Identifier("a?b")
    shop.database.execute(sql.SQL("UPDATE orders SET {} = 'changed' WHERE id = 1").format(name))
    shop.database.execute("DELETE FROM orders WHERE id = 2")
    shop.finish()
    insert(8)
    shop.database.execute(sql.SQL("UPDATE orders SET {} = 'changed again' WHERE id = 1").format(name))
    assert shop.epoch() is not None
    expected = shop.database.execute(
        sql.SQL("SELECT {} FROM orders").format(sql.SQL(", ").join(map(sql.Identifier, NAMES)))
    ).fetchall()
    assert shop.rows(*outputs) == sorted(expected)
    shop.assert_truth()
