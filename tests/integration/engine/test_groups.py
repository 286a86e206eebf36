"""
Views of groups on real Spark: after every epoch the view is the user's query over the upstream.

The query is run by Spark itself over the whole upstream, without any code of the package, and compared with the view's
visible columns.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.jobs.verification import verifier
from airflow_backfill_provider.protocol import repairs
from tests.integration.engine.grouped_orders import COLUMNS, assert_follows, make_orders, truth
from tests.integration.engine.lakehouse import TESTER, Lakehouse
from tests.variants import exhaustive

pytestmark = pytest.mark.spark


@pytest.fixture
def orders(lakehouse: Lakehouse) -> Iterator[Lakehouse]:
    make_orders(lakehouse)
    yield lakehouse
    crash_points.install(None)


QUERIES = [
    exhaustive(
        "SELECT customer, count(*) AS n, sum(amount) AS total, count(DISTINCT product) AS kinds, "
        "percentile(amount, 0.5) AS middle FROM upstream GROUP BY customer",
        name="aggregates",
    ),
    exhaustive(
        "WITH paid AS (SELECT upper(customer) AS who, product, amount FROM upstream WHERE amount > 0) "
        "SELECT max(amount) FILTER (WHERE product = 'p1') AS most, count(*) AS n FROM paid p GROUP BY p.who, product "
        "HAVING count(*) > 1",
        name="hidden-units",
    ),
    pytest.param(
        "SELECT * FROM upstream QUALIFY row_number() OVER (PARTITION BY lower(customer) ORDER BY amount DESC, id) <= 2",
        id="top-two",
    ),
    exhaustive(
        "FROM upstream |> AGGREGATE sum(amount) AS total GROUP BY customer, product "
        "|> EXTEND rank() OVER (PARTITION BY customer ORDER BY total DESC) AS place |> WHERE place = 1",
        name="levels-in-pipes",
    ),
    exhaustive("SELECT date_trunc('month', at) AS month, avg(amount) AS mean FROM upstream GROUP BY 1"),
    exhaustive("SELECT DISTINCT product, amount > 1 AS big FROM upstream"),
    exhaustive("SELECT customer, amount % 2 AS odd, min(at) AS first FROM upstream GROUP BY ALL"),
    exhaustive(
        "SELECT id, customer, sum(amount) OVER w AS so_far FROM upstream WINDOW w AS (PARTITION BY customer "
        "ORDER BY at)"
    ),
]


@pytest.mark.parametrize("query", QUERIES)
def test_groups_follow_the_upstream_through_changes_and_crashes(orders: Lakehouse, query: str) -> None:
    """I1, I2 and I7, where keys change groups, and groups vanish, come back, and are NULL."""
    settings = orders.create(query=query, table_properties={"delta.enableDeletionVectors": "true"})
    assert (settings.shape, settings.strategy) == ("group", "snapshot")
    assert_follows(orders, query, gone="customer = 'c2'")


@pytest.mark.exhaustive
def test_an_aggregate_over_all_rows_has_one_row_even_over_nothing(lakehouse: Lakehouse) -> None:
    """Neither an empty upstream nor the last delete leaves the view without its row."""
    query = "SELECT count(*) AS n, sum(amount) AS total FROM upstream"
    lakehouse.make_upstream(COLUMNS)
    lakehouse.create(query=query)
    lakehouse.finish()
    lakehouse.assert_equals_query(truth(query))
    lakehouse.change("INSERT INTO {upstream} SELECT id, 'c', 'p', 2, NULL FROM range(3)")
    lakehouse.epoch()
    lakehouse.assert_equals_query(truth(query))
    lakehouse.assert_truth()
    lakehouse.change("DELETE FROM {upstream}")
    lakehouse.epoch()
    lakehouse.assert_equals_query(truth(query))


@pytest.mark.parametrize(
    ("before", "aggregates"),
    [
        (3, "count(*) AS n, sum(amount) AS total"),
        exhaustive(0, "count(*) AS n, sum(amount) AS total"),
        # The query uses no column, so all that it needs of a row before a change is that there was one.
        pytest.param(3, "count(*) AS n", id="no-column"),
        exhaustive(3, "nullif(count(*), 2) AS n", name="no-column-and-no-fold"),
    ],
)
def test_an_aggregate_over_all_rows_has_one_row_if_rows_change_while_history_is_read(
    lakehouse: Lakehouse, before: int, aggregates: str
) -> None:
    """The epoch that publishes the view reads no history, and an aggregate over no rows has a row."""
    query = f"SELECT {aggregates} FROM upstream"
    lakehouse.make_upstream(COLUMNS)
    if before:
        lakehouse.change(f"INSERT INTO {{upstream}} SELECT id, 'c', 'p', 2, NULL FROM range({before})")
    lakehouse.create(query=query)
    lakehouse.change("INSERT INTO {upstream} VALUES (90, 'c', 'p', 5, NULL)")
    lakehouse.finish()
    lakehouse.assert_equals_query(truth(query))
    lakehouse.change("DELETE FROM {upstream}")
    lakehouse.epoch()
    lakehouse.assert_equals_query(truth(query))


def test_a_wrong_group_is_found_and_repaired_and_a_right_one_is_not_written(orders: Lakehouse) -> None:
    """I7: a repair names units and joins the changes, and a change that leaves a group as it is writes nothing."""
    query = "SELECT customer, max(amount) AS most FROM upstream GROUP BY customer"
    orders.change("UPDATE {upstream} SET customer = NULL WHERE id IN (20, 21)")
    orders.create(query=query)
    orders.finish()
    files = set(orders.view().inputFiles())
    orders.change("UPDATE {upstream} SET product = 'other' WHERE id < 9")
    orders.epoch()
    assert set(orders.view().inputFiles()) == files
    orders.sql("UPDATE {view} SET most = 99 WHERE customer IS NULL")
    orders.sql("INSERT INTO {view} (customer, most) VALUES ('stray', 1)")
    verifier.verify_job(orders.backfill, engine=lambda: orders.engine, requester=TESTER)
    asked = repairs.ask_for_repair(orders.backfill, requested_by="tester")
    assert asked is not None
    assert set(asked.repair.units) == {(None,), ("stray",)}
    orders.change("UPDATE {upstream} SET amount = 50 WHERE id = 30")
    orders.epoch()
    orders.assert_equals_query(truth(query))


def test_a_view_whose_only_column_is_a_floating_point_aggregate_is_compared_and_repaired(orders: Lakehouse) -> None:
    """I6: no column is left that has to be equal to the last digit."""
    query = "SELECT stddev(amount) AS spread FROM upstream"
    orders.create(query=query)
    orders.finish()
    orders.sql("UPDATE {view} SET spread = spread + 1")
    found = verifier.verify_job(orders.backfill, engine=lambda: orders.engine, requester=TESTER)
    assert [difference.different for step in found.compared for difference in step.differences] == [1]
    assert repairs.ask_for_repair(orders.backfill, requested_by="tester") is not None
    orders.epoch()
    orders.assert_truth()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT CAST(amount AS DOUBLE) AS a, count(*) AS n FROM upstream GROUP BY 1", "groups by `a`, which is a DOU"),
        exhaustive(
            "SELECT customer COLLATE UNICODE_CI AS c, count(*) AS n FROM upstream GROUP BY 1", "collation UNICODE_CI"
        ),
        exhaustive("SELECT array(amount) AS a, count(*) AS n FROM upstream GROUP BY 1", "cannot tell groups apart"),
        exhaustive("SELECT max(customer COLLATE UNICODE_CI) AS c FROM upstream", "several texts that the collation"),
        exhaustive(
            "SELECT lower(customer) AS customer, count(*) AS n FROM upstream GROUP BY customer",
            "a column and the alias",
        ),
        exhaustive("SELECT customer, count(*) FROM upstream GROUP BY customer", "has no alias; give it one"),
    ],
)
def test_what_only_spark_knows_is_refused_before_anything_is_written(orders: Lakehouse, query: str, said: str) -> None:
    """Types and names of columns are known when the job is created."""
    with pytest.raises(InvalidJobError, match=said):
        orders.create(query=query)
    assert not orders.exists(orders.view_path)


@pytest.mark.exhaustive
def test_a_created_job_of_groups_cannot_be_throttled(orders: Lakehouse) -> None:
    """A rate limit would cut groups."""
    orders.create(query="SELECT customer, count(*) AS n FROM upstream GROUP BY customer", paused=True)
    with pytest.raises(
        InvalidJobError, match="rate_limit: a view of shape group is filled under strategy snapshot by one epoch"
    ):
        mutations.throttle_job(10, store=orders.backfill.store, requested_by="tester")
