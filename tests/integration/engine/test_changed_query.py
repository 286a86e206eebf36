"""Another query without another backfill, on real Spark and Delta: I1, I2, I5, I7."""

from __future__ import annotations

from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.jobs import changed_query
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from tests.dying import dies_at
from tests.integration.engine.attempts import Asleep, is_killed
from tests.integration.engine.lakehouse import Lakehouse
from tests.integration.engine.shops import ALL_SALES, SALES, Shops

pytestmark = pytest.mark.spark

FORMER = "SELECT id, name, price FROM upstream WHERE price < 10"
"""Null where the price is null, which is as good as false."""

LATTER = "SELECT id, name, price FROM upstream WHERE price >= 5 OR stock IS NULL"


def served(lake: Lakehouse, query: str = FORMER, rows: int = 20, **fields: Any) -> Lakehouse:
    """Make a finished view over rows of which some have nulls, and change the upstream all over."""
    lake.make_upstream("id BIGINT, name STRING, price INT, stock INT")
    lake.sql(
        "INSERT INTO {upstream} SELECT id, concat('n', id), if(id % 7 = 0, null, CAST(id AS INT)), "
        f"if(id % 5 = 0, null, 1) FROM range({rows})"
    )
    lake.create(query=query, **fields)
    lake.finish()
    protocol.finish_job(store=lake.backfill.store, requested_by="tester")
    lake.change("UPDATE {upstream} SET price = 7 WHERE id IN (1, 12)")
    lake.change("UPDATE {upstream} SET price = 3 WHERE id IN (6, 15)")
    lake.change("DELETE FROM {upstream} WHERE id IN (2, 18)")
    lake.sql("INSERT INTO {upstream} VALUES (30, 'new', 9, 1), (31, 'new', 1, 1), (32, 'new', null, null)")
    return lake


def change(lake: Lakehouse, query: str, **fields: Any) -> JobSettings:
    """Change the job's query."""
    assert lake.job is not None
    lake.define(**{**lake.job.fields, "query": query, **fields, "upstream": lake.job.upstream})
    return lake.start_job(changed_query.change_query, lake.backfill)


def assert_is(lake: Lakehouse, query: str) -> None:
    """Compare the view with a query, and by a verification."""
    lake.assert_equals_query(query.replace("upstream", "{upstream}"))
    lake.assert_truth()


def rows_of(path: str, version: int | None = None) -> list[tuple[Any, ...]]:
    table = DeltaTable(path, version=version).to_pyarrow_table().to_pylist()
    return sorted((tuple(row.values()) for row in table), key=repr)


def test_another_filter_and_the_changes_of_its_epoch_are_one_commit(lakehouse: Lakehouse) -> None:
    """I7: rows leave and come by one commit, together with the changes; only what differs is written."""
    lake = served(lakehouse, table_properties={"delta.enableChangeDataFeed": "true"})
    former = rows_of(lake.view_path)
    settings = change(lake, LATTER)
    assert {column.name for column in settings.upstream.columns} == {"id", "name", "price", "stock"}
    lake.assert_truth()
    assert rows_of(lake.view_path) == former, "the view is that of the former query until an epoch changes it"
    before = DeltaLog(lake.view_path).newest().version
    barrier = lake.inject()
    assert barrier is not None
    assert barrier.filter_change is not None
    assert not barrier.repair
    lake.run(barrier)
    assert_is(lake, LATTER)
    log = DeltaLog(lake.view_path)
    written = [commit for version in log.versions() if version > before and (commit := log.commit(version))]
    assert sum(commit.changes_data for commit in written) == 1
    feed = lake.spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", before + 1)
    touched = {row["id"] for row in feed.load(lake.view_path).collect()}
    kept = {row[0] for row in former} & {row[0] for row in rows_of(lake.view_path)}
    assert touched.isdisjoint(kept - {1, 12, 6, 15}), "rows that stay as they are are not written"
    lake.change("UPDATE {upstream} SET price = 1, stock = 4 WHERE id = 30")
    lake.finish()
    assert_is(lake, LATTER)


@pytest.mark.exhaustive
def test_the_way_back_is_another_change(lakehouse: Lakehouse) -> None:
    lake = served(lakehouse)
    for query in (LATTER, FORMER):
        assert change(lake, query).job["query"] == query
        lake.finish()
        assert_is(lake, query)


@pytest.mark.exhaustive
def test_each_attempt_of_the_change_dies_later_and_a_zombie_wakes_up(spark_remote: str, lakehouse: Lakehouse) -> None:
    """I2, I5: at each version of the view a reader sees the former query or the new one, whole."""
    lake = served(lakehouse)
    change(lake, LATTER)
    barrier = lake.inject()
    assert barrier is not None
    whole = [rows_of(lake.view_path)]
    zombie = Asleep(CrashPoint.BEFORE_CHANGES_COMMIT, lambda: lake.run(barrier, lake.unlocked_engine()))
    for point in (CrashPoint.BEFORE_CHANGES_COMMIT, CrashPoint.AFTER_CHANGES_COMMIT, CrashPoint.BEFORE_LOG_COMMIT):
        assert is_killed(spark_remote, lake.backfill.job.state, point), point
    lake.run(barrier, lake.unlocked_engine())
    assert_is(lake, LATTER)
    whole.append(rows_of(lake.view_path))
    version = DeltaLog(lake.view_path).newest().version
    lake.change("UPDATE {upstream} SET price = 8 WHERE id = 3")
    following = lake.inject()
    assert following is not None
    lake.run(following, lake.unlocked_engine())
    zombie.ends()
    assert zombie.hung
    assert_is(lake, LATTER)
    seen = [rows_of(lake.view_path, found) for found in range(version + 1)]
    finished = next(found for found, rows in enumerate(seen) if rows)
    assert [rows for rows in seen[finished:] if rows not in whole] == []


@pytest.mark.exhaustive
def test_an_epoch_that_was_pinned_before_is_that_of_the_former_query(lakehouse: Lakehouse) -> None:
    """I2: a pinned epoch depends on nothing that comes later, such as another definition."""
    lake = served(lakehouse)
    pinned = lake.inject()
    assert pinned is not None
    with dies_at(CrashPoint.AFTER_CHANGES_COMMIT):
        lake.run(pinned)
    change(lake, LATTER)
    assert lake.inject() == pinned
    lake.run(pinned)
    assert_is(lake, FORMER)
    lake.finish()
    assert_is(lake, LATTER)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("former", "latter"),
    [
        (FORMER, "SELECT id, upper(name) AS name, price + 1 AS price FROM upstream WHERE stock IS NULL"),
        (
            "SELECT price, count(*) AS n, sum(id) AS ids FROM upstream GROUP BY price",
            "SELECT price % 2 AS price, count(*) AS n, sum(id + 1) AS ids FROM upstream WHERE id > 3 GROUP BY 1",
        ),
        (
            "SELECT * FROM upstream QUALIFY rank() OVER (PARTITION BY price ORDER BY id) = 1",
            "SELECT * FROM upstream QUALIFY rank() OVER (PARTITION BY price ORDER BY id DESC) = 1",
        ),
        ("SELECT * FROM upstream WHERE id > 3", "SELECT * FROM upstream"),
    ],
)
def test_what_is_no_filter_is_compared_whole(lakehouse: Lakehouse, former: str, latter: str) -> None:
    """I1: expressions, groups and stars, with the changes of the window."""
    lake = served(lakehouse, former)
    before = DeltaLog(lake.view_path).newest().version
    change(lake, latter)
    lake.epoch()
    assert_is(lake, latter)
    log = DeltaLog(lake.view_path)
    written = [commit for version in log.versions() if version > before and (commit := log.commit(version))]
    assert sum(commit.changes_data for commit in written) == 1
    lake.change("UPDATE {upstream} SET price = 4, stock = null WHERE id IN (3, 30)")
    lake.finish()
    assert_is(lake, latter)


@pytest.mark.exhaustive
def test_a_condition_that_fails_now_is_not_computed_again(lakehouse: Lakehouse) -> None:
    """The former condition divides by nothing since a row came, and the new one is there to avoid that."""
    lake = served(lakehouse, "SELECT id, name FROM upstream WHERE 10 / id > 1", rows=0)
    lake.sql("INSERT INTO {upstream} VALUES (0, 'zero', 0, 0), (4, 'four', 0, 0)")
    change(lake, "SELECT id, name FROM upstream WHERE id <> 0 AND 10 / id > 2")
    with pytest.raises(Exception, match="given up"):
        lake.epoch()
    lake.finish()
    lake.assert_equals_query("SELECT id, name FROM {upstream} WHERE id <> 0 AND 10 / id > 2")
    lake.assert_truth()


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("former", "latter"),
    [
        (
            SALES,
            SALES.replace("amount > 0", "amount > 4").replace(
                "id, amount FROM berlin", "id, amount + 1 AS amount FROM berlin"
            ),
        ),
        (ALL_SALES, ALL_SALES.replace("c.name", "upper(c.name) AS name").replace("'twice'", "'double'")),
        (
            "SELECT c.name, sum(b.amount) AS total FROM berlin AS b JOIN customers AS c ON c.id = b.customer "
            "GROUP BY c.name",
            "SELECT c.name, sum(b.amount * 2) AS total FROM berlin AS b JOIN customers AS c ON c.id = b.customer "
            "WHERE b.amount > 2 GROUP BY c.name",
        ),
    ],
)
def test_views_over_several_tables_follow_another_query(lakehouse: Lakehouse, former: str, latter: str) -> None:
    """I1: joins and unions are compared whole, with the changes of all tables."""
    shops = Shops.of(lakehouse)
    shops.make("berlin", "paris", "online", "customers", rows=12)
    shops.define_sales(former)
    shops.start()
    shops.finish()
    protocol.finish_job(store=shops.backfill.store, requested_by="tester")
    shops.change("UPDATE {berlin} SET amount = 9 WHERE id = 1", "DELETE FROM {berlin} WHERE id = 4")
    shops.define_sales(latter)
    shops.start_job(changed_query.change_query, shops.backfill)
    before = len(shops.view_events())
    shops.epoch()
    assert len(shops.view_events()) == before + 1
    shops.assert_query()
    shops.assert_truth()
    shops.change("UPDATE {berlin} SET amount = 3, customer = 2 WHERE id = 2")
    shops.finish()
    shops.assert_query()
