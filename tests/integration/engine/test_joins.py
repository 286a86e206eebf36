"""
Views that join tables which all keep changing: each version is the query over all of them as of one instant.

The query is run by Spark itself over the whole tables, without any code of the package.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.epoch.stages import STAGES
from airflow_backfill_provider.core.errors import DuplicateKeyError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.jobs import creation, table_locator
from airflow_backfill_provider.jobs.verification import verifier
from airflow_backfill_provider.protocol import repairs
from tests.integration.engine.attempts import is_killed
from tests.integration.engine.grouped_orders import die_at_each
from tests.integration.engine.lakehouse import TESTER, Lakehouse
from tests.integration.engine.named_lakehouse import NamedLakehouse
from tests.integration.engine.star_shop import STAR, StarShop
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

WIDE = (
    "SELECT o.amount, l.product, p.amount AS before FROM orders AS o JOIN lines AS l ON l.order_id = o.id AND "
    "l.price > -o.amount LEFT JOIN orders AS p ON p.id = o.parent WHERE EXISTS (SELECT 1 FROM customers AS c WHERE "
    "c.id = o.customer AND c.name <> 'gone') AND o.id NOT IN (SELECT n.id FROM customers AS n) AND o.amount < 38 "
    "AND NOT EXISTS (SELECT 1 FROM orders AS r WHERE r.id = o.parent AND r.parent = o.id)"
)
"""A fan-out with a further condition, the lead in other roles, a semi join and anti joins; hidden keys."""

LED = WIDE.replace("FROM orders AS o JOIN lines AS l", "FROM lines AS l JOIN orders AS o")
"""The same, if the job says which one leads: it is not the first one in FROM."""

CHANGES = (
    (
        "UPDATE {customers} SET country = 'es' WHERE id = 1",
        "UPDATE {customers} SET country = 'fr', name = 'moved' WHERE id = 1",
        "DELETE FROM {customers} WHERE id = 2",
        "INSERT INTO {customers} VALUES (5, 'new', 'de'), (12, 'twelve', NULL)",
        "UPDATE {orders} SET customer = 3, parent = 30 WHERE id = 8",
        "UPDATE {orders} SET amount = -1 WHERE id IN (3, 30)",
        "DELETE FROM {orders} WHERE id = 9",
        "INSERT INTO {orders} VALUES (60, 1, 60, 1), (61, NULL, NULL, 2)",
        "UPDATE {lines} SET order_id = 60 WHERE order_id = 7",
        "DELETE FROM {lines} WHERE order_id = 13 AND line = 1",
    ),
    ("DELETE FROM {countries} WHERE code = 'fr'", "INSERT INTO {countries} VALUES ('de', 'Germany')"),
    ("UPDATE {customers} SET name = 'gone' WHERE id IN (1, 4)", "UPDATE {lines} SET price = 1 - price"),
    ("DELETE FROM {customers}", "DELETE FROM {lines} WHERE line = 0"),
    ("INSERT INTO {customers} SELECT id, 'again', 'es' FROM range(6)", "UPDATE {orders} SET id = id + 100"),
)
"""What happens in each window: to every table at once, to some, and to all rows of one."""


@pytest.fixture
def shop(lakehouse: Lakehouse) -> Iterator[StarShop]:
    yield StarShop.of(lakehouse)
    crash_points.install(None)


def changes_of(query: str, number: int) -> list[str]:
    """Return what happens in a window to the tables that a query reads."""
    words = query.split()
    return [
        statement
        for statement in CHANGES[number]
        if any(f"{{{name}}}" in statement and name in words for name in ("orders", "customers", "countries", "lines"))
    ]


def test_a_star_follows_every_table_through_crashes_duplicates_and_a_repair(shop: StarShop) -> None:
    """I1, I2 and I6: a dimension changes twice in a window, dimensions are emptied, and a key is there twice."""
    shop.fill("orders", "customers", "countries")
    shop.start(STAR)
    assert shop.backfill.store.settings().strategy == "snapshot"
    shop.change(*changes_of(STAR, 0))
    shop.finish()
    shop.assert_query()
    shop.change(*changes_of(STAR, 1))
    die_at_each(shop, CrashPoint.AFTER_CHANGES_COMMIT)
    commit = shop.epoch()
    assert commit is not None
    assert commit.upstream_output_row_count == 2, "two countries changed, and no order"
    shop.assert_query()

    shop.change("INSERT INTO {customers} VALUES (4, 'second', 'es')", "UPDATE {orders} SET customer = 4 WHERE id = 1")
    barrier, before = shop.pin(), shop.view().collect()
    with pytest.raises(DuplicateKeyError, match=r"customers has several rows .*\(id\); give upstreams.customers.key"):
        shop.run(barrier)
    assert shop.view().collect() == before
    # The next window begins where that one did. Its first change of the key adds a row, and its last one removes one.
    shop.change("DELETE FROM {customers} WHERE id = 4 AND name = 'c4'")
    shop.sql("UPDATE {view} SET title = 'wrong' WHERE id = 5")
    verifier.verify_job(shop.backfill, engine=lambda: shop.engine, requester=TESTER)
    asked = repairs.ask_for_repair(shop.backfill, requested_by="tester")
    assert asked is not None
    assert asked.repair.keys == (("5",),)
    shop.epoch()
    shop.assert_query()


@pytest.mark.parametrize(
    ("query", "strategy", "parallelism"),
    [
        pytest.param(LED, "no_shuffle", 1, id="wide-no_shuffle-1"),
        exhaustive(STAR, "no_shuffle", 1, name="star-no_shuffle-1"),
        exhaustive(STAR, "arrangement", 1, name="star-arrangement-1"),
        exhaustive(WIDE, "arrangement", 3, name="wide-arrangement-3"),
        exhaustive(STAR, "snapshot", 2, name="star-snapshot-2"),
        exhaustive(WIDE, "snapshot", 1, name="wide-snapshot-1"),
    ],
)
def test_a_view_of_a_join_is_true_while_its_history_is_read_and_after(
    shop: StarShop, query: str, strategy: str, parallelism: int
) -> None:
    """I1 and I4: changes of every table between the chunks of the lead, of rows that are read and of others."""
    shop.fill()
    shop.start(query, lead="orders", strategy=strategy, rate_limit=17, parallelism=parallelism)
    shop.epoch()
    for number in range(3):
        if changes := changes_of(query, number):
            shop.change(*changes)
            shop.epoch()
            shop.assert_truth()
    shop.finish()
    shop.assert_query()
    # The two columns of the roles o and r are compared crosswise. Nothing else changes, and so leads to order 18.
    shop.change("UPDATE {orders} SET parent = 18 WHERE id = 6")
    shop.finish()
    shop.assert_query()


@pytest.mark.exhaustive
def test_a_text_that_a_step_leaves_out_does_not_fail_the_look_up(shop: StarShop) -> None:
    """The rows that are looked up by a number have texts that are none, in changes and between them."""
    query = (
        "SELECT o.id, n.code, n.title FROM orders AS o LEFT JOIN (SELECT code, title FROM countries WHERE code RLIKE "
        "'^[0-9]+$') AS n ON n.code = o.customer"
    )
    shop.fill("orders", "countries")
    shop.start(query)
    shop.finish()
    shop.change("INSERT INTO {countries} VALUES ('1', 'one'), ('01', 'one again'), ('x', 'none')")
    shop.epoch()
    shop.assert_joined()
    shop.change("UPDATE {countries} SET code = '02' WHERE code = '1'", "UPDATE {orders} SET customer = 2 WHERE id = 7")
    shop.epoch()
    shop.assert_joined()


@pytest.mark.exhaustive
def test_the_tables_of_a_join_may_be_named_in_a_catalog(spark: SparkSession, lake: Path) -> None:
    sales = NamedLakehouse(spark, lake)
    try:
        sales.make_orders()
        names = f"{sales.schema}.names"
        feed = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
        sales.sql(f"CREATE TABLE {names} (id BIGINT, name STRING) USING delta {feed}")
        sales.sql(f"INSERT INTO {names} VALUES (1, 'one'), (2, 'two')")
        query = "SELECT o.id, n.name FROM orders AS o LEFT JOIN names AS n ON n.id = o.id"
        sales.job = BackfillJob(
            name="named",
            upstreams={"orders": {"table": sales.upstream, "key": ["id"]}, "names": {"table": names, "key": ["id"]}},
            materialized_view=sales.view_name,
            state=f"{lake}/state",
            query=query,
        )
        sales.start_job(creation.create_job, table_locator.to_create(sales.backfill, lambda: sales.engine))
        sales.finish()
        sales.sql(f"UPDATE {names} SET name = 'new' WHERE id = 2")
        sales.finish()
        sales.assert_truth()
        sales.assert_equals_query(
            query.replace("FROM orders", "FROM {upstream}").replace("JOIN names", f"JOIN {names}")
        )
    finally:
        sales.close()


@pytest.mark.exhaustive
@pytest.mark.parametrize("query", [STAR, WIDE], ids=["star", "wide"])
def test_a_client_of_spark_connect_may_be_killed_at_every_commit(shop: StarShop, spark_remote: str, query: str) -> None:
    """I2: as an attempt runs through Spark Connect, and dies by SIGKILL."""
    shop.fill()
    shop.start(query, strategy="no_shuffle", rate_limit=25)
    points = [point for stage in STAGES for point in (stage.before, stage.after) if point is not None]
    for number in (0, 1):
        for point in points:
            is_killed(spark_remote, shop.job.state, point)
        shop.assert_truth()
        shop.change(*changes_of(query, number))
    while not is_killed(spark_remote, shop.job.state) and shop.inject() is not None:
        pass
    shop.assert_joined()
