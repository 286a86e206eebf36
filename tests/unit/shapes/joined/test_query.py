"""Which queries over several relations are accepted, and what is refused of them, each with what to write instead."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.kinds import further_leads
from airflow_backfill_provider.shapes.joined.query import check_joined_query
from airflow_backfill_provider.shapes.joined.resolved import resolve
from tests.unit.shapes.joined.shop import SHOP, placed, resolved

JOINED = "FROM orders o JOIN customers c ON c.id = o.customer_id"

REFUSED = [
    ("SELECT o.id FROM orders o FULL JOIN customers c ON o.id = c.id", "FULL JOIN.*; write two LEFT JOINs"),
    ("SELECT o.id FROM orders o FULL OUTER JOIN customers c USING (id)", "FULL JOIN.*UNION ALL between them"),
    ("SELECT o.id FROM orders o CROSS JOIN customers c", "CROSS JOIN.*; join by an equality of columns"),
    ("SELECT o.id FROM orders o, customers c", "CROSS JOIN.*; join by an equality of columns"),
    ("SELECT o.id FROM orders o JOIN customers c", "CROSS JOIN.*; join by an equality of columns"),
    ("SELECT o.id FROM orders o JOIN customers c ON TRUE", "CROSS JOIN.*; join by an equality of columns"),
    ("SELECT o.id FROM orders o JOIN customers c ON o.day > c.code", "a join of c without an equality of columns"),
    ("SELECT o.id FROM orders o LEFT JOIN customers c ON o.day = c.id OR c.vip", "a join of c without an equality"),
    ("SELECT o.id FROM orders o LEFT JOIN customers c ON c.id = 1", "a join of c without an equality of columns"),
    ("SELECT o.id FROM orders o LEFT JOIN customers c ON lower(c.name) = o.day", "without an equality of columns"),
    ("SELECT o.id FROM orders o LEFT JOIN customers c ON o.day = o.amount", "a join of c without an equality"),
    ("SELECT o.id FROM orders o, customers c, countries k WHERE c.id = o.customer_id", "CROSS JOIN"),
    ("SELECT o.id FROM orders o NATURAL JOIN customers c", r"NATURAL JOIN.*; name the columns: JOIN … USING \(…\)"),
    ("SELECT o.id FROM orders o NATURAL LEFT JOIN customers c", "NATURAL JOIN"),
    ("SELECT o.id FROM orders o ASOF JOIN customers c ON c.id = o.id", "ASOF JOIN"),
    (f"SELECT o.id {JOINED} RIGHT JOIN lines l ON l.order_id = o.id", "RIGHT JOIN.*; swap the sides"),
    ("SELECT o.id FROM orders o LATERAL VIEW explode(x) t AS e", "LATERAL VIEW.*; make a view of the rows first"),
    (f"SELECT o.id {JOINED} LATERAL VIEW explode(x) t AS e", "LATERAL VIEW.*; make a view of the rows first"),
    ("SELECT o.id FROM orders o, LATERAL (SELECT 1 FROM customers WHERE id = o.id)", "LATERAL, .*; write a JOIN … ON"),
    ("SELECT o.id FROM orders o JOIN LATERAL (SELECT 1 FROM customers) ON TRUE", "LATERAL, .*; write a JOIN … ON"),
    (f"SELECT o.id, (SELECT max(day) FROM returns) AS m {JOINED}", "a scalar subquery.*; write a LEFT JOIN"),
    ("SELECT o.id FROM orders o WHERE o.day = (SELECT max(day) FROM orders)", "a scalar subquery"),
    ("SELECT o.id FROM orders o WHERE o.day > ALL (SELECT day FROM returns)", "a scalar subquery"),
    (
        "SELECT o.id FROM orders o WHERE o.customer_id NOT IN (SELECT id FROM customers)",
        "NOT IN over o.customer_id, which may be null.*; write NOT EXISTS",
    ),
    (
        "SELECT o.id FROM orders o WHERE o.id NOT IN (SELECT product FROM lines)",
        "NOT IN over product, which may be null.*; write NOT EXISTS",
    ),
    (
        "SELECT o.id FROM orders o WHERE o.id NOT IN (SELECT order_id + 1 FROM lines)",
        "NOT IN over order_id . 1, which may be null",
    ),
    (
        "SELECT o.id FROM orders o LEFT JOIN customers c ON c.id = o.customer_id WHERE c.id NOT IN (SELECT id FROM "
        "products)",
        "NOT IN over c.id, which may be null",
    ),
    (
        "SELECT o.id FROM orders o WHERE EXISTS (SELECT 1 FROM lines l WHERE l.order_id <> o.id)",
        "EXISTS or IN over l without an equality.*write one in its WHERE, such as l.order_id = o.id",
    ),
    ("SELECT o.id FROM orders o WHERE EXISTS (SELECT 1 FROM lines l)", "EXISTS or IN over l without an equality"),
    (
        "SELECT o.id FROM orders o WHERE o.id + 1 IN (SELECT l.order_id FROM lines l)",
        "EXISTS or IN over l without an equality",
    ),
    (
        "SELECT o.id FROM orders o WHERE o.day > 1 OR EXISTS (SELECT 1 FROM lines l WHERE l.order_id = o.id)",
        "that is not a condition of its own.*; connect it with AND",
    ),
    (
        "SELECT o.id FROM orders o WHERE (o.id IN (SELECT order_id FROM lines)) = TRUE",
        "that is not a condition of its own",
    ),
    (
        "SELECT o.id, EXISTS (SELECT 1 FROM lines l WHERE l.order_id = o.id) AS e FROM orders o",
        r"a subquery in another place than WHERE.*; write a JOIN, or WHERE EXISTS",
    ),
    (
        f"SELECT o.id {JOINED} AND EXISTS (SELECT 1 FROM lines l WHERE l.order_id = o.id)",
        "a subquery in another place than WHERE",
    ),
    (
        "SELECT o.id FROM orders o WHERE EXISTS (SELECT max(price) FROM lines l WHERE l.order_id = o.id)",
        "groups, windows or another clause in EXISTS or IN",
    ),
    (
        "SELECT o.id FROM orders o WHERE o.id IN (SELECT order_id FROM lines GROUP BY order_id HAVING count(*) > 1)",
        "groups, windows or another clause in EXISTS or IN.*make a view of the inner SELECT by a job of its own",
    ),
    (
        "SELECT o.id FROM orders o WHERE EXISTS (SELECT 1 FROM lines l WHERE l.order_id = o.id LIMIT 1)",
        "groups, windows or another clause in EXISTS or IN",
    ),
    (
        "SELECT o.id FROM orders o WHERE o.id IN (SELECT order_id FROM lines UNION SELECT order_id FROM returns)",
        "groups, windows or another clause in EXISTS or IN",
    ),
    (
        "SELECT o.id FROM orders o WHERE EXISTS (SELECT 1 FROM lines l WHERE l.order_id = o.id AND l.product IN "
        "(SELECT "
        "id FROM products))",
        "EXISTS or IN inside EXISTS or IN.*; write a JOIN in the outer one",
    ),
    ("SELECT o.id FROM orders o WHERE o.id IN (SELECT order_id, number FROM lines)", "another number of columns"),
    ("SELECT o.id FROM orders o WHERE o.id IN (SELECT * FROM lines)", "another number of columns"),
    (
        "SELECT o.id FROM orders o JOIN (customers c JOIN countries k ON c.country = k.code) ON c.id = o.id",
        "parentheses around joins.*; write the joins one after the other",
    ),
    (
        "SELECT o.id FROM orders o JOIN (SELECT order_id, count(*) AS n FROM lines GROUP BY order_id) l ON "
        "l.order_id = "
        "o.id",
        "a grouped subquery in FROM.*; make a view of the inner SELECT by a job of its own, and join that view",
    ),
    ("SELECT o.id FROM orders o JOIN (SELECT DISTINCT order_id FROM lines) l ON l.order_id = o.id", "grouped subquery"),
    (
        "WITH l AS (SELECT *, rank() OVER (PARTITION BY order_id ORDER BY price) AS r FROM lines) SELECT o.id FROM "
        "orders o JOIN l ON l.order_id = o.id",
        "grouped subquery",
    ),
    (
        "SELECT o.id FROM orders o JOIN (SELECT c.id FROM customers c JOIN countries k ON k.code = c.country) x ON "
        "x.id "
        "= o.id",
        "a join or a union inside FROM.*; write all joins in one FROM",
    ),
    (
        "SELECT o.id FROM orders o JOIN (SELECT id FROM customers UNION ALL SELECT id FROM products) x ON x.id = o.id",
        "a join or a union inside FROM",
    ),
    ("SELECT o.id FROM orders o JOIN (VALUES (1)) v ON v.col1 = o.id", "VALUES.*; keep these rows in a table"),
    ("SELECT o.id FROM orders o JOIN VALUES (1) v ON v.col1 = o.id", "VALUES.*; keep these rows in a table"),
    ("SELECT o.id FROM orders o JOIN range(3) r ON r.id = o.id", "a table function.*; join a table instead"),
    ("SELECT o.id FROM orders o JOIN lake.customers c ON c.id = o.id", "reads 'lake.customers AS c'.*names under upst"),
    ("SELECT o.id FROM orders o JOIN customers TABLESAMPLE (10 PERCENT) c ON c.id = o.id", "plain customers, without"),
    ("SELECT o.id FROM orders o JOIN customers VERSION AS OF 3 c ON c.id = o.id", "plain customers, without version"),
    ("SELECT o.id FROM orders o JOIN customers AS c(a, b) ON a = o.id", "plain customers, without columns"),
    (f"SELECT id {JOINED}", "the column id of several tables.*; write which one is meant: o.id, c.id"),
    ("SELECT o.id FROM orders o JOIN customers c ON id = o.customer_id", "the column id of several tables"),
    (f"SELECT o.id {JOINED} WHERE id > 1", "the column id of several tables"),
    (f"SELECT o.id {JOINED} JOIN products p USING (id)", "the column id of several tables"),
    ("SELECT o.id FROM orders o JOIN customers c USING (day)", r"USING \(day\), which is no column of both sides"),
    (f"SELECT * {JOINED}", r"two columns named id.*; give one of them an alias, or name the columns instead of \*"),
    (f"SELECT o.day, c.name AS DAY {JOINED}", "two columns named day"),
    ("SELECT orders.id FROM orders JOIN orders ON orders.id = orders.parent_id", "the name orders for two relations"),
    (f"SELECT o.id {JOINED} ORDER BY 1", "ORDER BY.*; sort the view when you read it"),
    (f"SELECT o.id {JOINED} LIMIT 3", "LIMIT.*; number the rows with rank"),
    (f"SELECT o.id, rand() AS r {JOINED}", "rand, which is not deterministic"),
    (f"SELECT o.id, user AS u {JOINED}", "user, which is not deterministic.*; remove it"),
    (
        "SELECT o.id FROM orders o WHERE EXISTS (SELECT 1 FROM lines l WHERE l.order_id = o.id AND l.product = user)",
        "user, which is not deterministic",
    ),
    (f"SELECT o.id, explode(array(1)) AS e {JOINED}", "explode, which returns several rows for one"),
    (f"SELECT o.id, my(1) AS e {JOINED}", "my, which is not a built-in function"),
    (f"SELECT o.id, `using`(1) AS e {JOINED}", "using, which is not a built-in function"),
    (f"SELECT o.id, current_date() AS d {JOINED}", "current_date, which is not deterministic"),
    (f"SELECT o.id {JOINED} AND c.name = ${{x}}", "parameters|syntax error|character"),
    ("SELECT id FROM orders INTERSECT SELECT id FROM products", "INTERSECT.*WHERE EXISTS"),
    ("SELECT id FROM orders EXCEPT SELECT id FROM products", "EXCEPT.*WHERE NOT EXISTS"),
    ("SELECT id FROM orders MINUS SELECT id FROM products", "EXCEPT.*WHERE NOT EXISTS"),
    (
        "SELECT id FROM orders UNION SELECT id FROM products UNION ALL SELECT id FROM customers",
        "UNION before UNION ALL.*; write UNION last",
    ),
    ("SELECT id FROM (SELECT id FROM orders UNION SELECT id FROM products)", "UNION without ALL inside FROM"),
    ("SELECT id, day FROM orders UNION ALL SELECT id FROM products", "branches with 2 and 1 columns"),
    (
        "SELECT id FROM orders UNION ALL SELECT count(*) FROM products",
        "groups in a branch of a union.*; group the unio",
    ),
    ("SELECT id FROM orders UNION ALL SELECT id FROM products ORDER BY id", "ORDER BY.*; sort the view"),
    ("SELECT id FROM orders UNION ALL BY NAME SELECT id FROM products", "UNION BY NAME.*columns in the same order"),
    ("SELECT id + 1 FROM orders UNION SELECT id FROM products", "a column without a name.*; give each expression"),
    ("SELECT id FROM orders UNION ALL SELECT id FROM products |> WHERE id > 1", "pipe operators after a union"),
    ("SELECT id FROM orders", "one relation alone"),
    (f"SELECT c.name, row_number() OVER (PARTITION BY c.name ORDER BY o.day) AS n {JOINED}", "such as o.id"),
    (f"SELECT c.name, sum(o.day) OVER () AS n {JOINED}", "OVER a window without PARTITION BY"),
    (f"SELECT c.name, count(*) AS n {JOINED} GROUP BY ROLLUP (c.name)", "ROLLUP.*; make one job for each list"),
    (f"SELECT o.day + 1 AS name, count(*) AS n {JOINED} GROUP BY name", "a column and the alias of another expression"),
    (
        "SELECT d, first(d) AS f FROM (SELECT day AS d FROM orders UNION ALL SELECT day FROM returns) GROUP BY d",
        "first",
    ),
    ("FROM orders |> JOIN customers c ON c.id = customer_id", "the pipe operator JOIN"),
    (f"WITH x AS (SELECT 1 FROM lines) SELECT o.id {JOINED}", "WITH x, which is never read.*; remove it"),
    (
        "WITH o AS (SELECT * FROM orders) SELECT a.id FROM o a JOIN o b ON a.parent_id = b.id",
        "a SELECT over orders in WITH that two places read, of which one leads.*; write that SELECT a second time",
    ),
    (
        "WITH o AS (SELECT * FROM orders) SELECT id FROM o UNION ALL SELECT o.id FROM o JOIN returns r ON r.id = o.id",
        "a SELECT over orders in WITH that two places read",
    ),
    (
        "SELECT * FROM (SELECT customer_id FROM orders) o JOIN customers c ON c.id = o.customer_id",
        "o, a SELECT that drops the key id.*; select the key there, too",
    ),
    (
        "SELECT o.id FROM (SELECT id, day + 1 AS day FROM orders) o LEFT JOIN customers c ON c.id = o.day",
        "o.day to join by, which is computed",
    ),
    (
        "SELECT o.id FROM orders o JOIN customers c ON o.day.year = c.id",
        "o.day to join by, which is computed, or is a f",
    ),
    ("SELECT o.id FROM orders o LATERAL |> VIEW explode(x) t AS e", "LATERAL, "),
    ("SELECT o.id FROM orders o JOIN", "syntax error"),
    ("SELECT id JOIN FROM orders WHERE id IN (SELECT order_id FROM lines)", "parentheses around joins|syntax error"),
    ("SELECT o.id FROM orders o JOIN customers c ON c.id = o.id UNION ALL", "syntax error"),
    (f"SELECT o.id {JOINED}; DROP TABLE orders", "must be one SELECT"),
]


@pytest.mark.parametrize(("text", "said"), REFUSED)
def test_a_construct_that_cannot_be_kept_up_to_date_is_refused_by_name(text, said):
    """I6: before anything is written, with what to write instead."""
    with pytest.raises(InvalidJobError, match=said) as refused:
        resolved(text)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("upstreams", "said"),
    [
        (["orders"], "the query reads customers, which is not under upstreams; it may read orders"),
        (["orders", "customers", "lines"], "the query does not read lines; remove it"),
    ],
)
def test_the_relations_of_a_query_are_the_upstreams_of_its_job(upstreams, said):
    """An upstream that nothing reads would be watched and kept for nothing."""
    with pytest.raises(InvalidJobError, match=said):
        check_joined_query(f"SELECT o.id {JOINED}").require_relations(upstreams)


def test_names_of_upstreams_do_not_distinguish_case():
    """Spark does not, either."""
    query = check_joined_query("SELECT a.id FROM Orders a JOIN ORDERS b ON a.id = b.parent_id JOIN Lines USING (x)")
    assert query.relations == ("Orders", "Lines")
    query.require_relations(["orders", "lines"])


@pytest.mark.parametrize(
    ("text", "relations"),
    [
        ("SELECT o.id FROM lines l JOIN orders o ON o.id = l.order_id", ("lines", "orders")),
        ("SELECT o.id FROM lines l RIGHT JOIN orders o ON o.id = l.order_id", ("orders", "lines")),
        (
            "SELECT o.id FROM lines l RIGHT JOIN orders o ON o.id = l.order_id UNION ALL SELECT id FROM customers",
            ("orders", "lines", "customers"),
        ),
    ],
)
def test_the_relation_that_leads_is_the_first_one(text, relations):
    """Of a RIGHT JOIN, it is the right one: a job that names no lead takes the first one."""
    query = check_joined_query(text)
    assert query.relations == relations
    tables = [SHOP[name] for name in relations]
    assert resolve(query, tables).trees[0].lead.relation == relations[0]


def test_a_job_of_a_join_has_one_lead_also_if_it_is_not_the_first_relation():
    """The history of the first one is not read in chunks, too."""
    job = BackfillJob(
        name="joined",
        upstreams={name: {"path": f"/lake/{name}", "key": ["id"]} for name in ("customers", "orders")},
        lead="orders",
        materialized_view="/lake/joined",
        query="SELECT o.id, c.name FROM customers AS c JOIN orders AS o ON c.id = o.customer_id",
    )
    assert (job.lead_name, further_leads(job)) == ("orders", ())


def test_a_lead_is_refused_for_a_union():
    """Each branch has its own."""
    with pytest.raises(InvalidJobError, match="lead: each branch of a union has a lead"):
        resolved("SELECT id FROM orders UNION ALL SELECT id FROM products", "orders")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM (SELECT * FROM orders o JOIN lines l ON o.id = l.order_id) j",
        "((SELECT id FROM orders) UNION ALL (SELECT id FROM products UNION ALL SELECT id FROM customers))",
        "SELECT id FROM orders UNION ALL SELECT id FROM products UNION SELECT id FROM customers",
        "SELECT id FROM orders UNION DISTINCT SELECT id FROM products",
        f"SELECT c.name, count(*) AS n {JOINED} GROUP BY name",
        f"SELECT c.name, count(*) AS n {JOINED} GROUP BY 1 HAVING count(*) > 1",
        f"SELECT o.id, row_number() OVER (PARTITION BY c.name ORDER BY o.day, o.id) AS n {JOINED}",
        f"SELECT o.id, filter(array(1), x -> x > o.day) AS f {JOINED}",
        f"SELECT o.* EXCEPT (day), c.name {JOINED}",
        "SELECT o.id -- the order\nFROM orders o /* with */ JOIN customers c\n  ON c.id = o.customer_id;",
    ],
)
def test_a_query_is_accepted_in_other_forms(text):
    """Of unions, of stars, of groups, with comments."""
    assert resolved(text).render(placed)
