"""
Bugs that other engines had in views of joins, by their meaning.

After each window the view is compared with the query over the whole tables, which Spark runs without the package.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.integration.engine.lakehouse import Lakehouse
from tests.integration.engine.star_shop import StarShop

pytestmark = [pytest.mark.spark, pytest.mark.exhaustive]

BIGGER = "SELECT o.id, o.amount, c.id AS c, c.name FROM orders AS o LEFT JOIN customers AS c ON o.customer = c.id AND "
BY_NAME = "SELECT o.amount, c.name FROM orders AS o JOIN customers AS c ON c.id = o.customer"

BUGS = {
    # A row of the dimension came and went before the lead's row came: it has no match.
    "risingwave-2420": (
        BY_NAME.replace("JOIN", "LEFT JOIN"),
        (
            ["INSERT INTO {customers} VALUES (50, 'brief', NULL)"],
            ["DELETE FROM {customers} WHERE id = 50"],
            ["INSERT INTO {orders} VALUES (50, 50, NULL, 50)"],
        ),
    ),
    # One of two rows of the lead meets the further condition of ON, and both stay.
    "risingwave-15257": (
        f"{BIGGER}o.amount > 12",
        (["UPDATE {orders} SET amount = 10 WHERE id = 1", "UPDATE {orders} SET amount = 11 WHERE id = 7"],),
    ),
    # The condition holds for the old row of the dimension alone, and then for the new one alone.
    "FLINK-40841": (
        "SELECT o.id, c.name FROM orders AS o LEFT JOIN customers AS c ON o.customer = c.id AND c.name > 'm'",
        (["UPDATE {customers} SET name = 'z'"], ["UPDATE {customers} SET name = 'a' WHERE id > 1"]),
    ),
    # A dimension is renamed, and one of the rows of the lead that have it is deleted, in one window.
    "pg-trickle-409": (
        BY_NAME,
        (["UPDATE {customers} SET name = 'renamed' WHERE id = 2", "DELETE FROM {orders} WHERE id = 8"],),
    ),
    # Both sides change in each of many windows, and the view does not select the keys.
    "pg-trickle-464": (
        BY_NAME,
        tuple(
            [
                f"UPDATE {{orders}} SET customer = (id + {n}) % 5, amount = {n}",
                f"UPDATE {{customers}} SET name = 'n{n}'",
            ]
            for n in range(5)
        ),
    ),
    # The view is by an attribute of the dimension, and its old value must go.
    "FLINK-20370": (
        "SELECT c.name, o.id AS o FROM customers AS c JOIN orders AS o ON o.customer = c.id",
        (["UPDATE {customers} SET name = 'renamed' WHERE id = 1"], ["DELETE FROM {customers} WHERE id = 1"]),
    ),
    # Nulls on both sides of two dimensions match nothing.
    "materialize-26352": (
        "SELECT o.id, c.name, l.product FROM orders AS o LEFT JOIN customers AS c ON c.id = o.customer "
        "LEFT JOIN lines AS l ON l.order_id = o.parent",
        (
            ["UPDATE {orders} SET customer = NULL, parent = NULL WHERE id % 2 = 0"],
            ["INSERT INTO {lines} VALUES (NULL, 1, 'of nothing', 1)", "UPDATE {orders} SET parent = 2 WHERE id = 4"],
        ),
    ),
}


@pytest.mark.parametrize(("query", "windows"), BUGS.values(), ids=BUGS)
def test_a_view_of_a_join_does_not_have_a_bug_of_another_engine(
    lakehouse: Lakehouse, query: str, windows: Sequence[Sequence[str]]
) -> None:
    shop = StarShop.of(lakehouse)
    shop.fill()
    shop.start(query)
    shop.finish()
    shop.assert_joined()
    for changes in windows:
        shop.change(*changes)
        shop.epoch()
        shop.assert_joined()
