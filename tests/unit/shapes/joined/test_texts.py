"""The texts that run: the user's own, cut at positions of tokens."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.shapes.joined.texts import Reading
from tests.unit.shapes.joined.shop import placed, resolved


def one_line(text):
    return " ".join(text.split()).replace(" ,", ",")


RENDERED = [
    (
        "SELECT o.day, c.name FROM orders o JOIN customers c ON c.id = o.customer_id WHERE o.day > 1",
        "SELECT o.day, c.name, `o`.`id` AS `__key_id` FROM `lead_o` o JOIN `all_c` c ON c.id = o.customer_id WHERE "
        "o.day > 1",
    ),
    (
        "SELECT orders.id FROM orders JOIN customers ON customers.id = customer_id",
        "SELECT orders.id FROM `lead_orders` AS `orders` JOIN `all_customers` AS `customers` ON customers.id = "
        "customer_id",
    ),
    (
        "SELECT a.id FROM orders a JOIN orders b ON b.id = a.parent_id WHERE EXISTS (SELECT 1 FROM orders WHERE "
        "parent_id = a.id)",
        "SELECT a.id FROM `lead_a` a JOIN `all_b` b ON b.id = a.parent_id WHERE EXISTS (SELECT 1 FROM `all_orders` "
        "AS "
        "`orders` WHERE parent_id = a.id)",
    ),
    (
        "SELECT x.name FROM (SELECT customer_id FROM orders WHERE day > 1) o JOIN customers x ON x.id = o.customer_id",
        "SELECT x.name, `o`.`__key_id` AS `__key_id` FROM (SELECT customer_id, `orders`.`id` AS `__key_id` FROM "
        "`lead_o` "
        "AS `orders` WHERE day > 1) o JOIN `all_x` x ON x.id = o.customer_id",
    ),
    (
        "SELECT name FROM (SELECT customer_id FROM orders) JOIN customers c ON c.id = customer_id",
        "SELECT name, `__relation_0`.`__key_id` AS `__key_id` FROM (SELECT customer_id, `orders`.`id` AS `__key_id` "
        "FROM "
        "`lead___relation_0` AS `orders`) AS `__relation_0` JOIN `all_c` c ON c.id = customer_id",
    ),
    (
        "WITH c AS (SELECT * FROM customers) SELECT o.id, a.name, b.code FROM orders o JOIN c a ON a.id = "
        "o.customer_id "
        "JOIN c b ON b.id = o.day",
        "WITH c AS (SELECT * FROM `all_a` AS `customers`) SELECT o.id, a.name, b.code FROM `lead_o` o JOIN c a ON "
        "a.id = "
        "o.customer_id JOIN c b ON b.id = o.day",
    ),
    (
        "FROM orders o JOIN customers c ON c.id = o.customer_id |> SELECT name |> WHERE name <> 'x'",
        "FROM `lead_o` o JOIN `all_c` c ON c.id = o.customer_id |> EXTEND `o`.`id` AS `__key_id` |> SELECT name, "
        "`__key_id` |> WHERE name <> 'x'",
    ),
    (
        "SELECT day FROM orders UNION ALL (SELECT l.price FROM lines l JOIN orders o ON o.id = l.order_id)",
        "SELECT day, 0 AS `__branch`, `orders`.`id` AS `__key_0`, CAST(NULL AS BIGINT) AS `__key_1` FROM "
        "`lead_orders` AS "
        "`orders` UNION ALL (SELECT l.price, 1 AS `__branch`, `l`.`order_id` AS `__key_0`, `l`.`number` AS "
        "`__key_1` FROM "
        "`lead_l` l JOIN `all_o` o ON o.id = l.order_id)",
    ),
    (
        "SELECT d FROM (SELECT day AS d FROM orders UNION ALL SELECT day FROM returns) WHERE d > 1",
        "SELECT d, `__branch`, `__key_0` FROM (SELECT day AS d, 0 AS `__branch`, `orders`.`id` AS `__key_0` FROM "
        "`lead_orders` AS `orders` UNION ALL SELECT day, 1 AS `__branch`, `returns`.`id` AS `__key_0` FROM "
        "`lead_returns` "
        "AS `returns`) WHERE d > 1",
    ),
]


@pytest.mark.parametrize(("text", "rendered"), RENDERED)
def test_the_users_text_runs_over_other_relations_with_hidden_columns(text, rendered):
    """Nothing is printed from a tree; each place has a relation of its own, and the lead's is another one."""
    assert one_line(resolved(text).render(placed)) == rendered


def test_each_place_says_what_is_read_there():
    """An engine gives the lead's place of each branch the affected rows, and all others the whole tables."""
    places = []
    resolved(
        "SELECT o.id FROM orders o JOIN orders p ON p.id = o.parent_id UNION ALL SELECT r.id FROM returns r JOIN "
        "orders o "
        "ON o.id = r.order_id"
    ).render(lambda reading: places.append(reading) or "x")
    assert places == [
        Reading(0, "o", "orders", leads=True),
        Reading(0, "p", "orders", leads=False),
        Reading(1, "r", "returns", leads=True),
        Reading(1, "o", "orders", leads=False),
    ]


def test_a_lead_that_the_job_chooses_changes_no_text():
    """Only the relation at its place is another one."""
    text = "SELECT o.id FROM customers c JOIN orders o ON o.customer_id = c.id"
    assert resolved(text, "orders").render(placed) == (
        "SELECT o.id FROM `all_c` c JOIN `lead_o` o ON o.customer_id = c.id"
    )
