"""A query that groups the rows of a join, as a job has it."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.visibility import Visibility
from airflow_backfill_provider.shapes import query_of, shape_of
from airflow_backfill_provider.shapes.joined_groups.query import check_joined_group_query
from airflow_backfill_provider.shapes.several import QueryTable
from tests.several import star

ORDERS = QueryTable(key=("id",), types={"id": "long", "customer": "long", "amount": "integer", "at": "date"})
CUSTOMERS = QueryTable(key=("id",), types={"id": "long", "name": "string", "country": "string"})
TABLES = {"orders": ORDERS, "customers": CUSTOMERS}

JOINED = "FROM orders AS o JOIN customers AS c ON c.id = o.customer"
REVENUE = f"SELECT c.country, sum(o.amount) AS total {JOINED} GROUP BY c.country"

UNITED = f"SELECT c.country, o.amount AS n {JOINED} UNION ALL SELECT name, id FROM customers"
TOTALS = f"SELECT country, sum(n) AS total FROM ({UNITED}) AS u GROUP BY country"
ONCE = f"SELECT c.country {JOINED} UNION ALL SELECT name FROM customers UNION SELECT country FROM customers"


def resolved(text):
    return check_joined_group_query(text).resolved(TABLES)


def one_line(text):
    return " ".join(text.split()).replace(" ,", ",")


def job(query=REVENUE, **fields):
    return BackfillJob(**star(query=query, **fields))


def test_groups_over_several_tables_have_a_shape_of_their_own():
    """Their history is read whole, as of the versions at creation, and then all changes since."""
    assert shape_of(job()).name == "joined_groups"
    assert job().visibility is Visibility.ON_FINISH
    assert shape_of(job("SELECT o.id, c.name FROM orders AS o JOIN customers AS c ON c.id = o.customer")).name == "join"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"strategy": "no_shuffle"}, "strategy: no_shuffle cannot fill .* use auto, or arrangement, snapshot"),
        ({"strategy": "snapshot", "visibility": "every_epoch"}, "on_finish only .*, or use strategy arrangement"),
        ({"strategy": "snapshot", "rate_limit": 10}, "rate_limit: .* one epoch .*, or use strategy arrangement"),
        ({"strategy": "snapshot", "parallelism": 2}, "parallelism: 2 task runs cannot write"),
        ({"query": TOTALS, "rate_limit": 10}, "rate_limit: .* one epoch that reads all of history"),
        ({"query": TOTALS, "visibility": "every_epoch"}, "on_finish only; leave visibility out"),
        ({"query": f"SELECT count(*) AS n {JOINED}", "parallelism": 2}, "parallelism: 2 task runs cannot write"),
        ({"restrict_to": {"vnodes": [1]}}, "restrict_to.vnodes: a group has rows of several vnodes"),
    ],
)
def test_what_the_shape_cannot_do_is_refused(fields, message):
    with pytest.raises(InvalidJobError, match=message):
        job(**fields)


@pytest.mark.parametrize(
    ("query", "is_read"),
    [
        (REVENUE, True),
        (f"SELECT DISTINCT c.country, o.amount {JOINED}", True),
        (f"SELECT o.id, rank() OVER (PARTITION BY c.country ORDER BY o.amount) AS n {JOINED}", True),
        (f"WITH t AS ({REVENUE}) SELECT country FROM t WHERE total > 1", True),
        (
            "SELECT c.country, count(*) AS n FROM (SELECT * FROM orders) AS o JOIN customers AS c ON c.id = o.customer "
            "GROUP BY c.country",
            False,
        ),
        (f"SELECT country, count(*) AS n FROM (SELECT c.country, o.id {JOINED}) AS j GROUP BY country", False),
        (f"{JOINED} |> AGGREGATE sum(o.amount) AS total GROUP BY c.country", False),
        (f"SELECT count(*) AS n {JOINED}", False),
        (TOTALS, False),
        (ONCE, False),
    ],
)
def test_groups_are_read_one_by_one_if_the_join_itself_groups(query, is_read):
    """A row of the lead then tells its groups. A step before would have to pass it on; a union has several leads."""
    assert check_joined_group_query(query).has_row_units is is_read
    if is_read:
        assert job(query, strategy="arrangement", visibility="every_epoch", rate_limit=10, parallelism=2)
        return
    with pytest.raises(InvalidJobError, match="strategy: arrangement .* use strategy snapshot, or auto|on_finish only"):
        job(query, strategy="arrangement", visibility="every_epoch")


def test_the_units_of_a_row_carry_it_along():
    found = resolved(REVENUE)
    text = found.render_units("l", {"customers": "d"}, ["unit"], carried="row")
    assert one_line(text) == "SELECT (c.country) AS `unit`, `row` FROM `l` AS o JOIN `d` AS c ON c.id = o.customer"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "SELECT id FROM orders UNION SELECT id FROM customers UNION ALL SELECT 1 FROM orders",
            "UNION before UNION ALL",
        ),
        ("SELECT id FROM orders UNION ALL (SELECT id FROM orders UNION SELECT 1 FROM customers)", "UNION before UNION"),
        (
            "SELECT id, count(*) AS n FROM (SELECT id FROM orders UNION SELECT id FROM customers) AS u GROUP BY id",
            "UNION without ALL inside FROM.*write SELECT DISTINCT",
        ),
        (f"SELECT c.country, count(*) AS n {JOINED} GROUP BY ROLLUP (c.country)", "ROLLUP"),
        (f"SELECT o.id, rank() OVER (ORDER BY o.amount) AS n {JOINED}", "window without PARTITION BY"),
    ],
)
def test_what_cannot_be_kept_up_to_date_is_refused_by_name(query, message):
    with pytest.raises(InvalidJobError, match=message):
        job(query)


def test_results_by_the_order_of_rows_are_refused_once_the_keys_are_known():
    """The key of the lead breaks ties, and those of tables that fan out."""
    with pytest.raises(InvalidJobError, match=r"first, whose result depends on the order of rows.*o\.id"):
        resolved(f"SELECT c.country, first(o.amount) AS x {JOINED} GROUP BY c.country")
    assert resolved(f"SELECT c.country, max_by(o.amount, o.id) AS x {JOINED} GROUP BY c.country").found
    with pytest.raises(InvalidJobError, match="first, whose result depends on the order of rows"):
        resolved(f"SELECT country, first(n) AS x FROM ({UNITED}) AS u GROUP BY country")


def test_both_stages_run_the_users_text():
    """The lead is restricted where it leads; the state of a fold is added beside the user's columns."""
    query = resolved(REVENUE)
    assert query.read_whole == ("customers",)
    placed = {"customers": "every"}
    joined = "FROM `some` AS o JOIN `every` AS c ON c.id = o.customer"
    assert one_line(query.render_units("some", placed, ["u"])) == f"SELECT (c.country) AS `u` {joined}"
    assert one_line(query.render_rows("some", placed, "o.amount AS x")) == f"SELECT o.amount AS x {joined}"
    folded = query.with_state({"__rows": "count(*)"})
    assert one_line(folded.text_over("some", placed)) == (
        f"SELECT c.country, sum(o.amount) AS total, count(*) AS `__rows` {joined} GROUP BY c.country"
    )
    assert one_line(folded.render_slice("some", placed, "touched", ["u"])) == (
        f"SELECT c.country, sum(o.amount) AS total, count(*) AS `__rows` {joined} LEFT SEMI JOIN `touched` AS "
        "backfill_touched ON (c.country) <=> backfill_touched.`u` GROUP BY c.country"
    )
    assert (query.units_with(()).outputs, folded.technique, query.technique) == (("country",), "fold", "slice")


def test_what_groups_lose_is_joined_from_the_old_rows_of_the_lead():
    """Of the other tables, the values to join by are enough: their rows before the window are read again."""
    query = resolved(REVENUE)
    assert query.old_columns(["id", "customer", "amount"]) == ("id", "customer", "amount")
    assert query.images() == {"customers": ("id",)}
    assert query.used_columns() == {"orders": ("id", "customer", "amount"), "customers": ("id", "country")}


def test_a_plan_tells_how_the_groups_are_kept():
    """What a fold costs over a join is known apart from what it costs over one upstream."""
    maybe = query_of(job()).upkeep(created=False)
    assert (maybe.technique, maybe.reads_all, maybe.cost) == ("fold", False, "fold over a join")
    assert "all rows of a lead, if a table that it is joined with has changes" in maybe.reads
    sliced = query_of(job(f"SELECT c.country, median(o.amount) AS m {JOINED} GROUP BY c.country")).upkeep(created=True)
    assert (sliced.technique, sliced.reads_all) == ("slice", True)
    assert "all rows of all tables again to join and find" in sliced.reads
    whole = query_of(job(f"SELECT count(DISTINCT o.id) AS n {JOINED}")).upkeep(created=True)
    assert "refresh" not in whole.reason
    assert whole.reads == "the changes, and all rows of all tables again"


@pytest.mark.parametrize(
    ("by", "columns"),
    [("o.customer", ("customer",)), ("at, o.customer", ("customer", "at")), ("o.customer + 1", ()), ("c.country", ())],
)
def test_a_plan_counts_the_largest_group_where_the_lead_tells_it(by, columns):
    assert resolved(f"SELECT count(*) AS n {JOINED} GROUP BY {by}").unit_columns(list(ORDERS.types)) == columns


def test_a_plan_does_not_count_groups_of_rows_that_a_join_repeats():
    text = (
        "SELECT c.country, count(*) AS n FROM customers AS c JOIN orders AS o ON o.customer = c.id GROUP BY c.country"
    )
    found = check_joined_group_query(text).resolved({"customers": CUSTOMERS, "orders": ORDERS})
    assert found.unit_columns(list(CUSTOMERS.types)) == ()


def test_the_origins_of_results_are_told_with_their_tables():
    found = resolved(f"{REVENUE.replace(' GROUP', ' WHERE o.at IS NOT NULL GROUP')}").lineage((), (), ())
    assert found.columns["country"].inputs == ("customers.country",)
    assert found.columns["country"].unchanged
    assert found.columns["total"].inputs == ("orders.amount",)
    assert set(found.filtered_by) == {"orders.customer", "orders.at", "customers.id"}


def test_rows_of_a_union_are_grouped_by_the_same_text():
    """A table that leads a branch and is joined to another one is cut to affected rows only where it leads."""
    query = resolved(TOTALS)
    assert (query.leads, query.further, query.read_whole) == (("orders", "customers"), ("customers",), ("customers",))
    placed = {"customers": "every", "customers leading": "led"}
    rows = "SELECT c.country, o.amount AS n FROM `some` AS o JOIN `every` AS c ON c.id = o.customer"
    united = f"({rows} UNION ALL SELECT name, id FROM `led` AS `customers`) AS u"
    assert one_line(query.text_over("some", placed)) == (
        f"SELECT country, sum(n) AS total FROM {united} GROUP BY country"
    )
    assert one_line(query.render_units("some", placed, ["u"])) == f"SELECT (country) AS `u` FROM {united}"
    assert query.unit_columns(list(ORDERS.types)) == (), "rows of several tables are in one group"
    assert query.images() == {"customers": ("id",)}
    assert query.old_columns(["id", "name"]) == ("id", "name"), "what each branch gave before leaves its groups"
    lineage = query.lineage((), (), ())
    assert lineage.columns["total"].inputs == ("orders.amount", "customers.id")


def test_union_makes_a_group_of_each_of_its_rows():
    """UNION removes duplicates of all branches before it, also of those with UNION ALL between them."""
    query = resolved(ONCE)
    assert shape_of(job(ONCE)).name == "joined_groups"
    assert (query.is_global, query.aggregates, query.technique) == (False, False, "slice")
    assert query.units_with(()).outputs == ("country",)
    placed = {"customers": "every", "customers leading": "led"}
    text = query.text_over("some", placed)
    assert one_line(text) == (
        "SELECT c.country FROM `some` AS o JOIN `every` AS c ON c.id = o.customer UNION ALL "
        "SELECT name FROM `led` AS `customers` UNION SELECT country FROM `led` AS `customers`"
    )
    assert query.render_units("some", placed, ["u"]).count("UNION ALL") == 2
    assert one_line(query.render_slice("some", placed, "touched", ["u"])) == (
        f"SELECT backfill_rows.* FROM ({one_line(text)}) AS backfill_rows LEFT SEMI JOIN `touched` AS backfill_touched "
        "ON backfill_rows.`country` <=> backfill_touched.`u`"
    )
    told = query_of(job(ONCE)).upkeep(created=False)
    assert (told.technique, told.cost) == ("slice", "slice of windows over a join")
    assert "write SELECT DISTINCT … FROM (SELECT … UNION ALL SELECT …)" in told.reason
    with pytest.raises(InvalidJobError, match="UNION of a column without a name"):
        resolved("SELECT amount + 1 FROM orders UNION SELECT id FROM customers")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"lead": "nations"}, "lead: nations"),
        ({"restrict_to": {"keys": {"after": [1]}}}, "restrict_to: a union has rows of several leads"),
        ({"upstreams": None, "upstream": {"path": "/lake/orders", "key": ["id"]}}, "upstream"),
    ],
)
def test_groups_over_a_union_refuse_what_a_union_refuses(fields, message):
    with pytest.raises(InvalidJobError, match=message):
        job(TOTALS, **fields)


def test_groups_over_a_union_of_one_upstream_need_no_names():
    text = (
        "SELECT n, count(*) AS c FROM (SELECT id AS n FROM upstream UNION ALL SELECT customer FROM upstream) GROUP BY n"
    )
    found = job(text, upstreams=None, upstream={"path": "/lake/orders", "key": ["id"]})
    assert shape_of(found).name == "joined_groups"
