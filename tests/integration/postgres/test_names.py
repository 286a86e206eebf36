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

SOME_NAMES = ["a.b", "a`b", 'a"b', "Größe", "a?b", "a\\b", "--a", "_row", "key_0"]

SCHEMA, TABLE = 'My "s.', "o`r'd.e?r%s"
ORDERS = sql.Identifier(SCHEMA, TABLE)
PUBLICATION = 'My "Pub", a'
"""PostgreSQL's plugin reads a list of names in SQL."""


def spark_name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@pytest.mark.parametrize(
    ("names", "of_key"),
    [
        pytest.param(SOME_NAMES, False, id="some"),
        exhaustive(NAMES, False, name="all"),
        exhaustive(NAMES, True, name="of a key"),
    ],
)
def test_columns_of_any_name_come_from_the_table_and_from_the_log(shop: Shop, names: list[str], of_key: bool) -> None:
    """I1: dots, quotes, backticks and blanks in names, also of columns whose long values the log leaves out."""
    columns = sql.SQL(", ").join(sql.SQL("{} text NOT NULL").format(sql.Identifier(name)) for name in names)
    key = ["a.b", "a`b", 'a"b', "Größe"] if of_key else ["id"]
    shop.database.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(SCHEMA)))
    shop.database.execute(
        sql.SQL("CREATE TABLE {} (id int, {}, PRIMARY KEY ({}))").format(
            ORDERS, columns, sql.SQL(", ").join(map(sql.Identifier, key))
        )
    )
    shop.database.execute(sql.SQL("ALTER TABLE {} REPLICA IDENTITY FULL").format(ORDERS))

    def insert(id_: int) -> None:
        values = [id_, *(f"{id_} {number}" for number in range(len(names)))]
        # Not as parameters: psycopg would take a part of the table's name for a placeholder.
        literals = sql.SQL(", ").join(map(sql.Literal, values))
        shop.database.execute(sql.SQL("INSERT INTO {} VALUES ({})").format(ORDERS, literals))

    for id_ in range(3):
        insert(id_)
    outputs = [f"c{number}" for number in range(len(names))]
    keys = ", ".join(f"{spark_name(name)} AS k{number}" for number, name in enumerate(key))
    selected = ", ".join(f"{spark_name(name)} AS {output}" for name, output in zip(names, outputs, strict=True))
    shop.create(
        query=f"SELECT {keys}, {selected} FROM upstream",
        key=key,
        rate_limit=1,
        table=ORDERS.as_string(),
        postgres={"publication": PUBLICATION},
    )
    assert shop.epoch() is not None
    insert(7)
    name = sql.Identifier("a?b")
    shop.database.execute(sql.SQL("UPDATE {} SET {} = 'changed' WHERE id = 1").format(ORDERS, name))
    shop.database.execute(sql.SQL("DELETE FROM {} WHERE id = 2").format(ORDERS))
    shop.finish()
    insert(8)
    shop.database.execute(sql.SQL("UPDATE {} SET {} = 'changed again' WHERE id = 1").format(ORDERS, name))
    assert shop.epoch() is not None
    expected = shop.database.execute(
        sql.SQL("SELECT {} FROM {}").format(sql.SQL(", ").join(map(sql.Identifier, names)), ORDERS)
    ).fetchall()
    assert shop.rows(*outputs) == sorted(expected)
    shop.assert_truth()
