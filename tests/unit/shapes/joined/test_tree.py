"""How the relations of a join hang on each other, from the lead down."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.shapes.joined.relations import Relation, RelationColumn
from tests.unit.shapes.joined.shop import relation, resolved, tree_text

ACCEPTED = [
    (
        "SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer_id = c.id",
        "o; o inner c (one) on customer_id = id",
    ),
    (
        "SELECT o.id, c.name FROM orders AS o LEFT OUTER JOIN customers AS c ON (c.id = o.customer_id)",
        "o; o left c (one) on customer_id = id",
    ),
    (
        "SELECT orders.id, customers.name FROM orders INNER JOIN customers ON orders.customer_id = customers.id",
        "orders; orders inner customers (one) on customer_id = id",
    ),
    (
        "select O.ID, C.NAME from ORDERS o join CUSTOMERS c on O.Customer_Id = c.Id",
        "o; o inner c (one) on customer_id = id",
    ),
    (
        "SELECT `o`.`id`, c.name FROM `orders` `o` JOIN customers c ON o.customer_id == c.id",
        "o; o inner c (one) on customer_id = id",
    ),
    (
        "SELECT o.id, name FROM orders o JOIN customers c ON customer_id = c.id",
        "o; o inner c (one) on customer_id = id",
    ),
    (
        "SELECT o.id, c.name FROM customers c RIGHT JOIN orders o ON o.customer_id = c.id",
        "o; o left c (one) on customer_id = id",
    ),
    (
        "SELECT o.id, k.name FROM orders o JOIN customers c ON o.customer_id = c.id JOIN countries k ON k.code = "
        "c.country",
        "o; o inner c (one) on customer_id = id; c inner k (one) on country = code",
    ),
    (
        "SELECT o.id, k.name FROM orders o LEFT JOIN customers c ON o.customer_id = c.id LEFT JOIN countries k ON "
        "k.code = c.country AND k.name <> 'x'",
        "o; o left c (one) on customer_id = id; c left k (one) on country = code …",
    ),
    (
        "SELECT o.id, l.product FROM orders o LEFT JOIN lines l ON l.order_id = o.id",
        "o; o left l (many) on id = order_id",
    ),
    (
        "SELECT o.id, l.number, p.name FROM orders o JOIN lines l ON l.order_id = o.id JOIN products p ON p.id = "
        "l.product",
        "o; o inner l (many) on id = order_id; l inner p (one) on product = id",
    ),
    (
        "SELECT o.id, p.day AS before FROM orders o LEFT JOIN orders p ON p.id = o.parent_id",
        "o; o left p (one) on parent_id = id",
    ),
    (
        "SELECT o.id, c.name FROM orders o JOIN customers c ON c.code = o.customer_id",
        "o; o inner c (many) on customer_id = code",
    ),
    (
        "SELECT id, name FROM orders LEFT JOIN (SELECT id AS customer_id, name FROM customers) USING (customer_id)",
        "orders; orders left __relation_1 (one) on customer_id = id",
    ),
    (
        "SELECT order_id, l.number, r.day FROM lines l JOIN returns r USING (order_id)",
        "l; l inner r (many) on order_id = order_id",
    ),
    ("SELECT o.id FROM orders o LEFT SEMI JOIN lines l ON l.order_id = o.id", "o; o semi l (many) on id = order_id"),
    (
        "SELECT o.id FROM orders o ANTI JOIN customers c ON c.id = o.customer_id AND c.vip",
        "o; o anti c (one) on customer_id = id …",
    ),
    (
        "SELECT o.id FROM orders o WHERE EXISTS (SELECT 1 FROM lines l WHERE l.order_id = o.id AND l.price > o.amount)",
        "o; o semi l (many) on id = order_id …",
    ),
    (
        "SELECT o.id FROM orders o WHERE NOT EXISTS (SELECT * FROM customers WHERE id = customer_id)",
        "o; o anti customers (one) on customer_id = id",
    ),
    (
        "SELECT o.id FROM orders o WHERE o.day > 1 AND (o.customer_id IN (SELECT id FROM customers WHERE vip))",
        "o; o semi customers (one) on customer_id = id …",
    ),
    (
        "SELECT o.id FROM orders o WHERE (o.id, o.day) IN (SELECT order_id, r.day FROM returns r)",
        "o; o semi r (many) on id = order_id and day = day",
    ),
    (
        "SELECT o.id FROM orders o WHERE o.id NOT IN (SELECT order_id FROM lines)",
        "o; o anti lines (many) on id = order_id",
    ),
    (
        "SELECT o.id FROM orders o WHERE NOT (o.id IN (SELECT order_id FROM lines))",
        "o; o anti lines (many) on id = order_id",
    ),
    (
        "SELECT o.id FROM orders o WHERE EXISTS (SELECT 1 FROM lines l JOIN products p ON p.id = l.product WHERE "
        "l.order_id = o.id AND p.kind = 'x')",
        "o; o semi l (many) on id = order_id …; l semi p (one) on product = id",
    ),
    (
        "SELECT o.id FROM orders o JOIN customers c ON c.id = o.customer_id WHERE NOT EXISTS (SELECT 1 FROM "
        "countries k WHERE k.code = c.country)",
        "o; o inner c (one) on customer_id = id; c anti k (one) on country = code",
    ),
    (
        "SELECT o.id FROM orders o WHERE EXISTS (SELECT 1 FROM orders p WHERE p.parent_id = o.id) AND o.customer_id "
        "IN (SELECT id FROM customers)",
        "o; o semi customers (one) on customer_id = id; o semi p (many) on id = parent_id",
    ),
    (
        "SELECT o.id, c.name FROM orders o, customers c WHERE o.customer_id = c.id AND o.amount > 3",
        "o; o inner c (one) on customer_id = id",
    ),
    (
        "SELECT o.id, c.name FROM orders o CROSS JOIN customers c WHERE o.customer_id = c.id",
        "o; o inner c (one) on customer_id = id",
    ),
    (
        "SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer_id <=> c.id",
        "o; o inner c (one) on customer_id <=> id",
    ),
    (
        "SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer_id IS NOT DISTINCT FROM c.id",
        "o; o inner c (one) on customer_id <=> id",
    ),
    (
        "SELECT o.id, r.id AS r, p.name FROM orders o JOIN returns r ON r.order_id = o.id JOIN products p ON p.id = "
        "r.day AND p.kind = o.day",
        "o; o inner r (many) on id = order_id; r inner p (one) on day = id …",
    ),
    (
        "SELECT o.id, l.price FROM orders o JOIN returns r ON r.order_id = o.id JOIN lines l ON l.order_id = "
        "r.order_id AND l.number = o.day",
        "o; o inner r (many) on id = order_id; o inner l (one) on day = number …",
    ),
    (
        "SELECT o.id, c.name FROM (SELECT * FROM orders WHERE amount > 1) o JOIN (SELECT id, upper(name) AS name "
        "FROM customers) c ON c.id = o.customer_id",
        "o; o inner c (one) on customer_id = id",
    ),
    (
        "WITH big AS (SELECT id, customer_id AS c FROM orders), c AS (SELECT * FROM customers WHERE vip) SELECT "
        "big.id, c.name FROM big JOIN c ON c.id = big.c",
        "big; big inner c (one) on customer_id = id",
    ),
    (
        "WITH j AS (SELECT o.id, c.name FROM orders o JOIN customers c ON c.id = o.customer_id) SELECT id, "
        "upper(name) AS n FROM j WHERE name <> 'x'",
        "o; o inner c (one) on customer_id = id",
    ),
    (
        "FROM orders o JOIN customers c ON c.id = o.customer_id |> SELECT o.id, name |> WHERE name <> 'x'",
        "o; o inner c (one) on customer_id = id",
    ),
    (
        "SELECT /*+ BROADCAST(c) */ o.id, c.name FROM orders o JOIN customers c ON c.id = o.customer_id",
        "o; o inner c (one) on customer_id = id",
    ),
    (
        "SELECT o.id, c.name FROM customers c JOIN orders o ON o.customer_id = c.id",
        "c; c inner o (many) on id = customer_id",
    ),
]


@pytest.mark.parametrize(("text", "tree"), ACCEPTED)
def test_a_join_is_a_tree_of_lookups_and_fan_outs(text, tree):
    """A lookup has one match at most, by the dimension's key; three dots stand for further conditions."""
    assert tree_text(text) == tree


@pytest.mark.parametrize(
    ("lead", "tree"),
    [
        ("", "c; c inner o (many) on id = customer_id; o inner l (many) on id = order_id"),
        ("lines", "l; l inner o (one) on order_id = id; o inner c (one) on customer_id = id"),
        ("O", "o; o inner c (one) on customer_id = id; o inner l (many) on id = order_id"),
    ],
)
def test_the_first_relation_leads_unless_the_job_names_another_one(lead, tree):
    """Inner joins may hang on each other the other way around; the text that runs is the same."""
    text = "SELECT l.price, c.name FROM customers c, orders o, lines l WHERE c.id = o.customer_id AND l.order_id = o.id"
    assert tree_text(text, lead) == tree


@pytest.mark.parametrize(
    ("lead", "said"),
    [
        ("c", "lead: c is joined so that rows of o without a match are kept.*use lead: orders"),
        ("products", "lead: the query does not read products"),
        ("orders", "lead: the query reads orders several times; name the alias"),
    ],
)
def test_a_lead_that_cannot_lead_is_refused(lead, said):
    """I6: a unit of the view is a row of the lead, so all rows of the lead count."""
    text = "SELECT o.id FROM orders o JOIN orders p ON p.id = o.parent_id LEFT JOIN customers c ON c.id = o.customer_id"
    with pytest.raises(InvalidJobError, match=said):
        resolved(text, lead)


def test_a_relation_hangs_on_the_role_that_gives_it_most_columns():
    """A change of the other role's column is found by that role's own hop."""
    text = (
        "SELECT o.id FROM orders o JOIN returns r ON r.order_id = o.id JOIN lines l ON l.order_id = r.order_id AND "
        "l.price = r.day AND l.number = o.day"
    )
    assert tree_text(text) == (
        "o; o inner r (many) on id = order_id; r inner l (one) on order_id = order_id and day = price …"
    )


def test_an_equality_with_nulls_does_not_lead_through_a_left_join():
    """Without a match, the dimension's columns are null, and <=> would find rows from no row of it."""
    left = "SELECT o.id FROM orders o LEFT JOIN customers c ON c.id = o.customer_id "
    with pytest.raises(InvalidJobError, match=r"<=> with c.country.*write = there"):
        resolved(left + "JOIN countries k ON k.code <=> c.country")
    assert tree_text(left.replace("LEFT", "INNER") + "JOIN countries k ON k.code <=> c.country").endswith(
        "c inner k (one) on country <=> code"
    )


def test_a_table_without_a_key_is_never_a_lookup():
    """Only a declared key says that there is one match at most: never the data."""
    tables = {"a": relation("a", "id! b_id", "id"), "b": relation("b", "id!", "")}
    assert tree_text("SELECT a.id FROM a JOIN b ON b.id = a.b_id", tables=tables) == "a; a inner b (many) on b_id = id"


@pytest.mark.parametrize(
    ("referring", "key", "matches"),
    [
        ("BIGINT", "BIGINT", "one"),
        ("int", "bigint", "one"),
        ("STRING", "STRING", "one"),
        ("BIGINT", "STRING", "many"),
        ("STRING", "BIGINT", "many"),
        ("DOUBLE", "BIGINT", "many"),
        ("DECIMAL(10,2)", "DECIMAL(12,2)", "many"),
    ],
)
def test_a_key_that_is_compared_in_another_type_is_no_lookup(referring, key, matches):
    """I2: the texts '1' and '01' are different keys, and both are equal to the number 1."""
    tables = {
        "a": Relation("a", (RelationColumn("id", "BIGINT"), RelationColumn("b_id", referring)), ("id",)),
        "b": Relation("b", (RelationColumn("id", key),), ("id",)),
    }
    found = tree_text("SELECT a.id FROM a JOIN b ON b.id = a.b_id", tables=tables)
    assert found == f"a; a inner b ({matches}) on b_id = id"


# TPC-H, with its columns, tables and keys.
TPCH = {
    "customer": relation(
        "customer", "c_custkey! c_name c_address c_nationkey c_phone c_acctbal c_mktsegment c_comment", "c_custkey"
    ),
    "orders": relation("orders", "o_orderkey! o_custkey o_orderdate o_orderpriority o_shippriority", "o_orderkey"),
    "lineitem": relation(
        "lineitem",
        "l_orderkey! l_partkey l_suppkey l_linenumber! l_extendedprice l_discount l_returnflag l_shipdate "
        "l_commitdate "
        "l_receiptdate l_shipmode",
        "l_orderkey l_linenumber",
    ),
    "supplier": relation("supplier", "s_suppkey! s_name s_nationkey", "s_suppkey"),
    "nation": relation("nation", "n_nationkey! n_name n_regionkey", "n_nationkey"),
    "region": relation("region", "r_regionkey! r_name", "r_regionkey"),
    "part": relation("part", "p_partkey! p_type", "p_partkey"),
}
Q3 = """SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
FROM customer, orders, lineitem
WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
  AND o_orderdate < date '1995-03-15' AND l_shipdate > date '1995-03-15'
GROUP BY l_orderkey, o_orderdate, o_shippriority"""
Q5 = """SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM customer, orders, lineitem, supplier, nation, region
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey AND c_nationkey = s_nationkey
  AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'ASIA'
  AND o_orderdate >= date '1994-01-01' AND o_orderdate < date '1994-01-01' + interval '1' year
GROUP BY n_name"""
Q10 = """SELECT c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) AS revenue, c_acctbal, n_name, c_address,
  c_phone, c_comment
FROM customer, orders, lineitem, nation
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate >= date '1993-10-01'
  AND o_orderdate < date '1993-10-01' + interval '3' month AND l_returnflag = 'R' AND c_nationkey = n_nationkey
GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment"""
Q12 = """SELECT l_shipmode, sum(CASE WHEN o_orderpriority = '1-URGENT' OR o_orderpriority = '2-HIGH' THEN 1 ELSE 0 END)
  AS high_line_count
FROM orders, lineitem
WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate
  AND l_shipdate < l_commitdate AND l_receiptdate >= date '1994-01-01'
  AND l_receiptdate < date '1994-01-01' + interval '1' year
GROUP BY l_shipmode"""
Q14 = """SELECT 100.00 * sum(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
  / sum(l_extendedprice * (1 - l_discount)) AS promo_revenue
FROM lineitem, part
WHERE l_partkey = p_partkey AND l_shipdate >= date '1995-09-01'
  AND l_shipdate < date '1995-09-01' + interval '1' month"""
LINES = "lineitem; lineitem inner orders (one) on l_orderkey = o_orderkey"


@pytest.mark.parametrize(
    ("text", "lead", "tree", "groups"),
    [
        (
            Q3,
            "",
            "customer; customer inner orders (many) on c_custkey = o_custkey; "
            "orders inner lineitem (many) on o_orderkey = l_orderkey",
            ("l_orderkey", "o_orderdate", "o_shippriority"),
        ),
        (
            Q3,
            "lineitem",
            f"{LINES}; orders inner customer (one) on o_custkey = c_custkey",
            ("l_orderkey", "o_orderdate", "o_shippriority"),
        ),
        (
            Q5,
            "lineitem",
            f"{LINES}; orders inner customer (one) on o_custkey = c_custkey; "
            "lineitem inner supplier (one) on l_suppkey = s_suppkey; "
            "supplier inner nation (one) on s_nationkey = n_nationkey; "
            "nation inner region (one) on n_regionkey = r_regionkey",
            ("n_name",),
        ),
        (
            Q10,
            "lineitem",
            f"{LINES}; orders inner customer (one) on o_custkey = c_custkey; "
            "customer inner nation (one) on c_nationkey = n_nationkey",
            ("c_custkey", "c_name", "c_acctbal", "c_phone", "n_name", "c_address", "c_comment"),
        ),
        (Q12, "lineitem", LINES, ("l_shipmode",)),
        (Q12, "", "orders; orders inner lineitem (many) on o_orderkey = l_orderkey", ("l_shipmode",)),
        (Q14, "", "lineitem; lineitem inner part (one) on l_partkey = p_partkey", ()),
    ],
)
def test_the_joins_of_tpch_are_trees_of_lookups(text, lead, tree, groups):
    """Q3, Q5, Q10, Q12 and Q14, without their ORDER BY and LIMIT."""
    found = resolved(text, lead, tables=TPCH)
    assert tree_text(text, lead, tables=TPCH) == tree
    assert found.group_columns() == groups
