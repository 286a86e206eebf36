"""A changed query that gives the view other columns, on real Spark and Delta: I1, I2, I5, I6, I7."""

from __future__ import annotations

import copy

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import DuplicateKeyError, InvalidJobError, UpstreamSchemaChangedError
from airflow_backfill_provider.core.job.definition_change import ColumnsChange
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.engine.spark_engine import SparkEngine
from airflow_backfill_provider.jobs import changed_query
from airflow_backfill_provider.jobs.followed_stars import follow_stars
from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from tests.integration.engine.attempts import Asleep, is_killed
from tests.integration.engine.lakehouse import Lakehouse
from tests.integration.engine.shops import ALL_SALES, SALES, Shops
from tests.integration.engine.test_changed_query import FORMER, assert_is, change, rows_of, served
from tests.integration.engine.test_cut_over import approve, compared

pytestmark = pytest.mark.spark

LATTER = "SELECT stock, price / 2 AS price, id FROM upstream WHERE price >= 5 OR stock IS NULL"
"""Without a name, with a stock, with another type of price, and in another order."""

PARTITIONS = ", id % 3 AS part FROM"


def columns_of(lake: Lakehouse, version: int | None = None) -> list[str]:
    return [field.name for field in DeltaTable(lake.view_path, version=version).schema().fields]


def test_other_columns_come_with_all_rows_in_one_commit_whatever_dies(spark_remote: str, lakehouse: Lakehouse) -> None:
    """I2, I5, I7: each version has the former columns with the former rows, or the new ones with the new rows."""
    lake = served(lakehouse, FORMER.replace(" FROM", PARTITIONS), partition_by=["part"])
    lake.sql(f"ALTER TABLE delta.{quote(lake.view_path)} CHANGE COLUMN price COMMENT 'in euros'")
    before, table_id = DeltaLog(lake.view_path).newest().version, DeltaTable(lake.view_path).metadata().id
    latter = LATTER.replace(" FROM", PARTITIONS)
    change(lake, latter)
    lake.assert_truth()
    barrier = given_up_for_a_key_of_two_rows(lake)
    assert barrier.columns_change == ColumnsChange(
        added=("stock",), dropped=("name",), retyped={"price": "integer to double"}, reordered=True
    )
    whole = [(columns_of(lake), rows_of(lake.view_path))]
    zombie = Asleep(CrashPoint.BEFORE_CHANGES_COMMIT, lambda: lake.run(barrier, lake.unlocked_engine()))
    for point in (CrashPoint.BEFORE_CHANGES_COMMIT, CrashPoint.AFTER_CHANGES_COMMIT):
        assert is_killed(spark_remote, lake.backfill.job.state, point), point
    lake.run(barrier, lake.unlocked_engine())
    assert_is(lake, latter)
    whole.append((columns_of(lake), rows_of(lake.view_path)))
    version = DeltaLog(lake.view_path).newest().version
    lake.change("UPDATE {upstream} SET price = 8 WHERE id = 3")
    following = lake.inject()
    assert following is not None
    assert not following.computes_whole
    lake.run(following, lake.unlocked_engine())
    zombie.ends()
    assert zombie.hung
    assert_is(lake, latter)
    seen = [(columns_of(lake, found), rows_of(lake.view_path, found)) for found in range(before, version + 1)]
    assert [found for found in seen if found not in whole] == []
    log = DeltaLog(lake.view_path)
    commits = [commit for found in range(before + 1, version + 1) if (commit := log.commit(found))]
    assert sum(commit.changes_data for commit in commits) == 1
    table = DeltaTable(lake.view_path)
    assert (table.metadata().id, table.metadata().partition_columns) == (table_id, ["part"])
    assert table.metadata().configuration["backfill.finished"] == "true"
    assert table.schema().fields[1].metadata == {"comment": "in euros"}


def test_a_star_that_follows_its_upstream_gets_the_column_after_the_epoch_that_meets_it(lakehouse: Lakehouse) -> None:
    """I1: of the query as it was, and then of the query with the column, in the old rows, too."""
    lake = served(lakehouse, "SELECT * FROM upstream", star="follow")
    lake.sql("ALTER TABLE {upstream} ADD COLUMN note STRING")
    lake.change("UPDATE {upstream} SET note = 'new', price = 8 WHERE id = 3", "DELETE FROM {upstream} WHERE id = 4")
    lake.epoch()
    assert_is(lake, "SELECT id, name, price, stock FROM upstream")
    assert follow_stars(lake.backfill, lake.engine).startswith("note came to the upstream")
    lake.finish()
    assert_is(lake, "SELECT * FROM upstream")
    assert columns_of(lake)[-1] == "note"
    assert follow_stars(lake.backfill, lake.engine) == ""


def given_up_for_a_key_of_two_rows(lake: Lakehouse) -> Barrier:
    """I6: no merge would find such a key, because the epoch reads no changes; return the barrier after it is gone."""
    lake.sql("INSERT INTO {upstream} VALUES (3, 'twice', 9, 1)")
    with pytest.raises(DuplicateKeyError, match="is given up"):
        lake.epoch()
    lake.sql("DELETE FROM {upstream} WHERE name = 'twice'")
    barrier = lake.inject()
    assert barrier is not None
    return barrier


def downstream_of(lake: Lakehouse, name: str, query: str) -> Lakehouse:
    """Create and finish a job over the view of another one."""
    second = copy.copy(lake)
    second.engine = SparkEngine(lake.spark, lake.storage_options)
    second.upstream_path, second.view_path, second._beginning = lake.view_path, f"{lake.folder}/{name}", None
    second.create(name=name, query=query)
    second.finish()
    protocol.finish_job(store=second.backfill.store, requested_by="tester")
    return second


@pytest.mark.exhaustive
def test_a_job_downstream_gets_all_rows_or_is_told_of_the_column_that_it_uses(lakehouse: Lakehouse) -> None:
    """I1, I6: what reads a column that went fails by name, and follows once its own query is changed."""
    lake = served(lakehouse)
    unaffected = downstream_of(lake, "unaffected", "SELECT id, id % 2 AS odd FROM upstream")
    affected = downstream_of(lake, "affected", "SELECT id, name, price FROM upstream WHERE price > 4")
    change(lake, LATTER)
    lake.finish()
    lake.change("UPDATE {upstream} SET price = 8 WHERE id IN (3, 4)")
    lake.finish()
    unaffected.finish()
    assert_is(unaffected, "SELECT id, id % 2 AS odd FROM upstream")
    with pytest.raises(UpstreamSchemaChangedError, match=r"'name' is gone; column 'price' was integer and is double"):
        affected.epoch()
    change(affected, "SELECT id, stock, price FROM upstream WHERE price > 3")
    barrier = affected.inject()
    assert barrier is not None
    assert barrier.computes_whole
    affected.run(barrier)
    assert_is(affected, "SELECT id, stock, price FROM upstream WHERE price > 3")
    lake.change("DELETE FROM {upstream} WHERE id IN (5, 6)")
    for job in (lake, unaffected, affected):
        job.finish()
    assert_is(affected, "SELECT id, stock, price FROM upstream WHERE price > 3")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("former", "latter"),
    [
        (FORMER, "SELECT price, name FROM upstream"),  # the key becomes hidden
        ("SELECT * FROM upstream", "SELECT id AS number, upper(name) AS name FROM upstream"),
        (
            "SELECT price, count(*) AS n, sum(id) AS ids FROM upstream GROUP BY price",
            "SELECT price % 2 AS odd, avg(id) AS middle, max(price) AS dearest FROM upstream WHERE id > 3 GROUP BY 1",
        ),
        (
            "SELECT price, count(*) AS n FROM upstream GROUP BY price",
            "SELECT price, count(DISTINCT name) AS names FROM upstream GROUP BY price",
        ),
        (
            "SELECT price, count(DISTINCT name) AS names FROM upstream GROUP BY price",
            "SELECT price, count(*) AS n, min(stock) AS least FROM upstream GROUP BY price",
        ),
        (
            "SELECT id, name FROM upstream QUALIFY rank() OVER (PARTITION BY price ORDER BY id) = 1",
            "SELECT id, price, rank() OVER (PARTITION BY price ORDER BY id DESC) AS place FROM upstream",
        ),
    ],
)
@pytest.mark.parametrize("feed", ["true", "false"])
def test_rows_and_groups_get_other_columns(lakehouse: Lakehouse, former: str, latter: str, feed: str) -> None:
    """I1: with the hidden columns of keys and of folds, which a later epoch needs; and the way back."""
    lake = served(lakehouse, former, table_properties={"delta.enableChangeDataFeed": feed})
    for query in (latter, former):
        before = len(lake.view_events())
        change(lake, query)
        lake.epoch()
        assert len(lake.view_events()) == before + 1
        assert_is(lake, query)
        lake.change("UPDATE {upstream} SET price = 4, stock = null WHERE id IN (3, 30)")
        lake.change("DELETE FROM {upstream} WHERE id IN (7, 9)")
        lake.finish()
        assert_is(lake, query)


@pytest.mark.exhaustive
def test_partitions_stay_and_a_view_cannot_lose_the_column_of_them(lakehouse: Lakehouse) -> None:
    lake = served(lakehouse, "SELECT id, price, name AS part FROM upstream", partition_by=["part"])
    with pytest.raises(InvalidJobError, match="partition_by: the view has no column part"):
        change(lake, "SELECT id, price FROM upstream")
    change(lake, "SELECT id, CAST(id % 3 AS INT) AS part, stock FROM upstream")
    lake.finish()
    assert DeltaTable(lake.view_path).metadata().partition_columns == ["part"]
    lake.change("UPDATE {upstream} SET price = 4, stock = 7 WHERE id IN (3, 30)")
    lake.finish()
    assert_is(lake, "SELECT id, CAST(id % 3 AS INT) AS part, stock FROM upstream")


@pytest.mark.exhaustive
def test_a_view_that_lost_something_with_its_columns_is_refused(lakehouse: Lakehouse) -> None:
    """I6: what an owner added to the table, and types that it does not allow."""
    lake = served(lakehouse)
    table = f"delta.{quote(lake.view_path)}"
    for query, why in {
        "SELECT id, CAST('2020-01-01' AS TIMESTAMP_NTZ) AS at FROM upstream": r"type of the column at \(timestamp_ntz",
        "SELECT id, name AS `the name` FROM upstream": "the name `the name` needs column mapping",
    }.items():
        with pytest.raises(InvalidJobError, match=why):
            change(lake, query)
    lake.sql(f"ALTER TABLE {table} ADD CONSTRAINT named CHECK (name IS NOT NULL)")
    with pytest.raises(InvalidJobError, match="constraint named is about one of them; drop it first"):
        change(lake, LATTER)
    lake.sql(f"ALTER TABLE {table} DROP CONSTRAINT named")
    lake.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.dataSkippingStatsColumns' = 'id,name')")
    with pytest.raises(InvalidJobError, match="property delta.dataSkippingStatsColumns names name"):
        change(lake, LATTER)
    lake.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('delta.dataSkippingStatsColumns')")
    change(lake, LATTER)
    lake.finish()
    assert_is(lake, LATTER)


@pytest.mark.exhaustive
def test_a_renamed_and_a_widened_column_of_the_upstream_are_followed(lakehouse: Lakehouse) -> None:
    """A query that names the column anew, and then the same query with the column's other type."""
    lake = served(lakehouse)
    lake.sql(
        "ALTER TABLE {upstream} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', "
        "'delta.enableTypeWidening' = 'true')"
    )
    lake.finish()
    lake.sql("ALTER TABLE {upstream} RENAME COLUMN price TO cost")
    lake.sql("UPDATE {upstream} SET cost = 2 WHERE id = 4")
    with pytest.raises(UpstreamSchemaChangedError):
        lake.epoch()
    renamed = "SELECT id, name, cost AS price FROM upstream WHERE cost < 10"
    change(lake, renamed)
    lake.finish()
    assert_is(lake, renamed)
    lake.sql("ALTER TABLE {upstream} ALTER COLUMN cost TYPE BIGINT")
    lake.sql("UPDATE {upstream} SET cost = 3 WHERE id = 8")
    with pytest.raises(UpstreamSchemaChangedError, match="airflow-backfill change"):
        lake.epoch()
    change(lake, renamed)
    lake.finish()
    assert_is(lake, renamed)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("former", "latter"),
    [
        (
            SALES,
            "SELECT 'berlin' AS place, id, amount * 1.5 AS amount FROM berlin UNION ALL "
            "SELECT 'paris', id, amount FROM paris",
        ),
        (ALL_SALES, ALL_SALES.replace("c.name", "upper(c.name) AS customer")),
        (
            "SELECT b.id, b.amount, c.name FROM berlin AS b LEFT JOIN customers AS c ON c.id = b.customer",
            "SELECT b.id, c.name, CAST(b.amount AS STRING) AS amount, b.customer FROM berlin AS b "
            "JOIN customers AS c ON c.id = b.customer",
        ),
        (
            "SELECT c.name, sum(b.amount) AS total FROM berlin AS b JOIN customers AS c ON c.id = b.customer "
            "GROUP BY c.name",
            "SELECT c.name, avg(b.amount) AS middle, count(*) AS n FROM berlin AS b JOIN customers AS c "
            "ON c.id = b.customer GROUP BY c.name",
        ),
    ],
)
def test_views_over_several_tables_get_other_columns(lakehouse: Lakehouse, former: str, latter: str) -> None:
    """I1: of joins, unions and groups over them, with the changes of all tables."""
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


@pytest.mark.exhaustive
def test_other_columns_wait_for_an_approval_of_a_difference_that_names_them(lakehouse: Lakehouse) -> None:
    """I1: common columns are compared, and the others are named; nothing is written before."""
    lake = served(lakehouse)
    former = rows_of(lake.view_path)
    change(lake, LATTER, cut_over="on_approval")
    found = compared(lake).recorded.rows
    assert (found.columns_added, found.columns_removed, found.columns_retyped) == (("stock",), ("name",), ("price",))
    assert found.has_key
    assert (found.rows_before, found.added > 0, found.removed > 0, found.changed) == (len(former), True, True, 0)
    assert rows_of(lake.view_path) == former
    approve(lake)
    barrier = lake.inject()
    assert barrier is not None
    assert barrier.columns_change is not None
    lake.run(barrier)
    assert_is(lake, LATTER)
