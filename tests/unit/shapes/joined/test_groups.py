"""The second stage of a query that groups rows of joins and unions: its units, and the texts of both stages."""

from __future__ import annotations

import pytest

from tests.unit.shapes.joined.shop import placed, resolved

JOINED = "FROM orders o JOIN customers c ON c.id = o.customer_id"
PLACED = "FROM `lead_o` o JOIN `all_c` c ON c.id = o.customer_id"


def one_line(text):
    return " ".join(text.split()).replace(" ,", ",")


SPLIT = [
    (
        f"SELECT c.country, sum(o.amount) AS s {JOINED} WHERE o.day > 1 GROUP BY c.country HAVING sum(o.amount) > 1",
        ("country",),
        f"SELECT (c.country) AS `u0` {PLACED} WHERE o.day > 1",
        f"SELECT c.country, sum(o.amount) AS s {PLACED} LEFT SEMI JOIN `touched` AS backfill_touched ON (c.country) "
        f"<=> "
        "backfill_touched.`u0` WHERE o.day > 1 GROUP BY c.country HAVING sum(o.amount) > 1",
    ),
    (
        f"SELECT sum(o.amount) AS s {JOINED} GROUP BY c.country, o.day + 1",
        ("__unit_0", "__unit_1"),
        f"SELECT (c.country) AS `u0`, (o.day + 1) AS `u1` {PLACED}",
        "SELECT sum(o.amount) AS s, (c.country) AS `__unit_0`, (o.day + 1) AS `__unit_1` "
        f"{PLACED} LEFT SEMI JOIN `touched` AS backfill_touched ON (c.country) <=> backfill_touched.`u0` AND (o.day "
        f"+ 1) "
        "<=> backfill_touched.`u1` GROUP BY c.country, o.day + 1",
    ),
    # The join and the groups in two steps; common table expressions stand where they are read.
    (
        f"WITH c AS (SELECT id, country FROM customers), j AS (SELECT country AS k, amount "
        f"{JOINED.replace('customers c', 'c')})"
        " SELECT k, count(*) AS n FROM j WHERE amount > 1 GROUP BY k",
        ("k",),
        "SELECT (k) AS `u0` FROM (SELECT country AS k, amount FROM `lead_o` o JOIN (SELECT id, country FROM `all_c` "
        "AS "
        "`customers`) AS `c` ON c.id = o.customer_id) AS `j` WHERE amount > 1",
        "WITH c AS (SELECT id, country FROM `all_c` AS `customers`), j AS (SELECT country AS k, amount FROM "
        "`lead_o` o "
        "JOIN c ON c.id = o.customer_id) SELECT k, count(*) AS n FROM j LEFT SEMI JOIN `touched` AS "
        "backfill_touched ON "
        "(k) <=> backfill_touched.`u0` WHERE amount > 1 GROUP BY k",
    ),
    (
        "SELECT d, count(*) AS n FROM (SELECT day AS d FROM orders UNION ALL SELECT day FROM returns) AS u GROUP BY d",
        ("d",),
        "SELECT (d) AS `u0` FROM (SELECT day AS d FROM `lead_orders` AS `orders` UNION ALL SELECT day FROM "
        "`lead_returns` "
        "AS `returns`) AS u",
        "SELECT d, count(*) AS n FROM (SELECT day AS d FROM `lead_orders` AS `orders` UNION ALL SELECT day FROM "
        "`lead_returns` AS `returns`) AS u LEFT SEMI JOIN `touched` AS backfill_touched ON (d) <=> "
        "backfill_touched.`u0` "
        "GROUP BY d",
    ),
    (
        f"{JOINED} |> WHERE o.day > 1 |> AGGREGATE count(*) AS n GROUP BY name",
        ("name",),
        f"{PLACED} |> WHERE o.day > 1 |> SELECT (name) AS `u0`",
        f"{PLACED} |> WHERE o.day > 1 |> LEFT SEMI JOIN `touched` AS backfill_touched ON (name) <=> "
        f"backfill_touched.`u0` "
        "|> AGGREGATE count(*) AS n GROUP BY name",
    ),
    (
        f"SELECT o.id, row_number() OVER (PARTITION BY c.name ORDER BY o.id) AS n {JOINED}",
        ("__unit_0",),
        f"SELECT (c.name) AS `u0` {PLACED}",
        "SELECT o.id, row_number() OVER (PARTITION BY c.name ORDER BY o.id) AS n, (c.name) AS `__unit_0` "
        f"{PLACED} LEFT SEMI JOIN `touched` AS backfill_touched ON (c.name) <=> backfill_touched.`u0`",
    ),
    (
        "SELECT id FROM orders UNION SELECT id FROM returns",
        ("id",),
        "SELECT `id` AS `u0` FROM (SELECT id FROM `lead_orders` AS `orders` UNION ALL SELECT id FROM `lead_returns` "
        "AS "
        "`returns`) AS backfill_rows",
        "SELECT backfill_rows.* FROM (SELECT id FROM `lead_orders` AS `orders` UNION SELECT id FROM `lead_returns` "
        "AS `returns`) "
        "AS "
        "backfill_rows LEFT SEMI JOIN `touched` AS backfill_touched ON backfill_rows.`id` <=> backfill_touched.`u0`",
    ),
]


@pytest.mark.parametrize(("text", "outputs", "units", "touched"), SPLIT)
def test_a_query_is_split_where_it_groups(text, outputs, units, touched):
    """The first stage gives the units of affected rows; the second one computes these units by the user's text."""
    found = resolved(text)
    names = [f"u{number}" for number in range(len(outputs))]
    assert found.group_columns() == outputs
    assert one_line(found.render_units(placed, names)) == units
    assert one_line(found.render_slice(placed, "touched", names)) == touched


def test_the_rows_of_the_first_stage_are_read_with_any_columns():
    """A fold reads the arguments of its aggregates from them, before the window and after it."""
    found = resolved(f"SELECT c.country, sum(o.amount) AS s {JOINED} GROUP BY c.country")
    assert (
        one_line(found.render_rows(placed, "o.amount AS x, 1 AS plus")) == f"SELECT o.amount AS x, 1 AS plus {PLACED}"
    )


def test_a_query_without_groups_has_one():
    """Over a join, too: its view has one row, also without any match."""
    found = resolved(f"SELECT sum(o.amount) AS s {JOINED}")
    assert found.query.grouping.is_global
    assert found.group_columns() == ()


@pytest.mark.parametrize(
    "by",
    ["c.country", "country", "COUNTRY", "1", "ALL", "`c`.`country`"],
)
def test_what_a_query_groups_by_may_be_written_in_any_way(by):
    """An alias that is the plain column itself leaves no doubt."""
    assert resolved(f"SELECT c.country, count(*) AS n {JOINED} GROUP BY {by}").group_columns() == ("country",)
