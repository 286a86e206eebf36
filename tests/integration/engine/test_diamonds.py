"""A diamond on real Spark: orders, two views of their rows, and a join of both, each version of it of one version."""

from __future__ import annotations

import copy

import pytest

from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.engine.spark_engine import SparkEngine
from airflow_backfill_provider.jobs import creation
from tests.integration.engine.lakehouse import Lakehouse

pytestmark = pytest.mark.spark

BIG = "SELECT id, customer FROM {source} WHERE amount > 10"
NAMED = "SELECT id, concat('n', amount) AS name FROM {source}"
JOIN = "SELECT l.id, l.customer, d.name FROM {big} AS l LEFT JOIN {named} AS d ON d.id = l.customer"


@pytest.fixture
def orders(lakehouse: Lakehouse) -> Lakehouse:
    lakehouse.make_upstream("id BIGINT, customer BIGINT, amount BIGINT")
    lakehouse.sql("INSERT INTO {upstream} SELECT id, (id * 7) % 40, id FROM range(40)")
    return lakehouse


def beside(orders: Lakehouse, name: str) -> Lakehouse:
    """Return a job of the same folder."""
    made = copy.copy(orders)
    made.engine = SparkEngine(orders.spark, orders.storage_options)
    made.view_path, made._beginning = f"{orders.folder}/{name}", None
    return made


def assert_of_one_version(joined: Lakehouse, version: int) -> None:
    """Compare with the whole query over one version of the table, by Spark alone."""
    table = f"{{upstream}} VERSION AS OF {version}"
    sides = {name: f"({query.format(source=table)})" for name, query in {"big": BIG, "named": NAMED}.items()}
    joined.assert_equals_query(JOIN.format(**sides))


@pytest.mark.exhaustive
def test_a_join_of_two_views_of_a_table_has_one_version_of_it(orders: Lakehouse) -> None:
    """I1: also while one view is ahead of the other; and it goes on once they have met."""
    big, named, joined = (beside(orders, name) for name in ("big", "named", "joined"))
    big.create(name="big", query=BIG.format(source="upstream"))
    named.create(name="named", query=NAMED.format(source="upstream"))
    for view in (big, named):
        view.finish()
    views = {name: {"path": f"{orders.folder}/{name}", "key": ["id"]} for name in ("big", "named")}
    joined.job = BackfillJob(
        name="joined",
        upstreams=views,
        materialized_view=joined.view_path,
        query=JOIN.format(big="big", named="named"),
        vnode_count=4,
    )
    joined.start_job(creation.create_job, joined.backfill)
    joined.finish()
    assert_of_one_version(joined, 1)

    orders.sql("UPDATE {upstream} SET amount = amount + 5, customer = id WHERE id % 3 = 0")
    big.finish()
    assert joined.epoch() is None
    assert (joined.backfill.status().waits_for or "").startswith("waits for job named, which has not read as far")
    orders.sql("DELETE FROM {upstream} WHERE id = 21")
    named.finish()
    assert joined.epoch() is None, "one view has version 2 of the table, and the other version 3"
    big.finish()
    joined.finish()
    assert_of_one_version(joined, 3)
    joined.assert_truth()
