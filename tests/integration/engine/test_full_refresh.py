"""
Jobs with ``refresh: full`` on real Spark: after every epoch the view is the query over the whole upstream.

The upstream records no changes, so nothing but its rows and its log can be read.
"""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.jobs.verification import verifier
from airflow_backfill_provider.protocol import repairs
from tests.integration.engine.grouped_orders import die_at_each
from tests.integration.engine.lakehouse import TESTER, Lakehouse

pytestmark = pytest.mark.spark

COLUMNS = "id BIGINT, customer STRING, product STRING, amount INT"
ROLLUP = (
    "SELECT customer, product, grouping_id() AS level, count(*) AS n, sum(amount) AS total FROM upstream "
    "GROUP BY ROLLUP (customer, product)"
)


@pytest.fixture
def orders(lakehouse: Lakehouse) -> Lakehouse:
    lakehouse.make_upstream(COLUMNS, properties={"delta.enableChangeDataFeed": "false"})
    lakehouse.sql(
        "INSERT INTO {upstream} SELECT id, concat('c', id % 5), concat('p', id % 3), CAST(id % 4 AS INT) FROM range(40)"
    )
    return lakehouse


def truth(query: str) -> str:
    return query.replace("FROM upstream", "FROM {upstream} AS upstream").replace(
        "JOIN upstream", "JOIN {upstream} AS upstream"
    )


def view_id(orders: Lakehouse) -> str:
    return str(DeltaTable(orders.view_path).metadata().id)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "query",
    [
        ROLLUP,
        pytest.param("SELECT count(*) AS n, max(amount) AS most FROM upstream", id="one-row"),
        pytest.param("SELECT id, row_number() OVER (ORDER BY amount DESC, id) AS place FROM upstream", id="one-window"),
        pytest.param(
            "WITH few AS (SELECT id, amount FROM upstream WHERE id % 3 = 0) SELECT a.id, b.id AS other "
            "FROM few a FULL JOIN few b ON a.id = b.amount",
            id="full-join",
        ),
        pytest.param("SELECT customer AS name FROM upstream UNION ALL SELECT product FROM upstream", id="union"),
        pytest.param("SELECT DISTINCT * FROM upstream WHERE amount > 1", id="distinct"),
        pytest.param(
            "SELECT id, part FROM upstream LATERAL VIEW explode(split(product, '')) t AS part", id="generator"
        ),
    ],
)
def test_a_view_that_is_computed_whole_follows_the_upstream_through_changes_and_crashes(
    orders: Lakehouse, query: str
) -> None:
    """I1 and I2, without a change feed, for queries that no other shape accepts."""
    settings = orders.create(query=query, refresh="full")
    assert (settings.shape, settings.strategy) == ("full", "snapshot")
    orders.change("UPDATE {upstream} SET customer = 'c1' WHERE id IN (7, 8)")
    orders.finish()
    orders.assert_equals_query(truth(query))
    before = view_id(orders)
    orders.change("DELETE FROM {upstream} WHERE customer = 'c2'")
    orders.change("UPDATE {upstream} SET customer = NULL, amount = 9 WHERE id IN (1, 3)")
    die_at_each(orders, CrashPoint.BEFORE_CHANGES_COMMIT, CrashPoint.AFTER_CHANGES_COMMIT)
    orders.epoch()
    orders.assert_equals_query(truth(query))
    orders.assert_truth()
    orders.change("INSERT INTO {upstream} VALUES (90, 'new', 'p1', 2), (91, NULL, NULL, NULL)")
    orders.epoch()
    orders.assert_equals_query(truth(query))
    assert orders.epoch() is None
    assert view_id(orders) == before


@pytest.mark.exhaustive
def test_only_the_rows_that_differ_are_written_to_a_view_with_a_change_feed_and_a_repair_computes_it(
    orders: Lakehouse,
) -> None:
    """Readers of the view's changes see no row that stays as it is; a repair mends whatever was written."""
    orders.create(query=ROLLUP, refresh="full", table_properties={"delta.enableChangeDataFeed": "true"})
    orders.finish()
    orders.change("UPDATE {upstream} SET amount = amount + 1 WHERE id = 5")
    commit = orders.epoch()
    assert commit is not None
    orders.assert_equals_query(truth(ROLLUP))
    feed = orders.spark.read.format("delta").option("readChangeFeed", "true")
    changes = feed.option("startingVersion", commit.view_version).load(orders.view_path)
    # The total of the product, of its customer, and of all.
    assert changes.filter("_change_type = 'insert'").count() == changes.filter("_change_type = 'delete'").count() == 3
    orders.sql("UPDATE {view} SET n = 99 WHERE customer IS NULL")
    orders.sql("INSERT INTO {view} VALUES ('stray', NULL, 1, 1, 1)")
    verifier.verify_job(orders.backfill, engine=lambda: orders.engine, requester=TESTER)
    assert repairs.ask_for_repair(orders.backfill, requested_by="tester") is not None
    orders.epoch()
    orders.assert_equals_query(truth(ROLLUP))
    orders.assert_truth()
