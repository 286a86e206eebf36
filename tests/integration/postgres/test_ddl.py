"""DDL while epochs run: on a column that the view does not use it goes through, on a used one it is refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import UpstreamError, UpstreamSchemaChangedError
from tests.integration.postgres.shop import Shop
from tests.integration.postgres.test_debezium import EventShop, events

pytestmark = pytest.mark.spark

__all__ = ["events"]

UNUSED = (
    "ALTER TABLE orders DROP gone",
    "ALTER TABLE orders ADD more text DEFAULT 'x', ADD doubled int GENERATED ALWAYS AS (id * 2) STORED",
    "ALTER TABLE orders RENAME note TO remark",
    "ALTER TABLE orders ALTER price TYPE text",
    "ALTER TABLE orders DROP mood",
    "DROP TYPE mood",
)
"""Statements about columns that the view does not use; the last one takes the type of an earlier change with it."""


@contextmanager
def running_at(point: CrashPoint, shop: Shop, *statements: str) -> Iterator[None]:
    """Run statements when an attempt first reaches a point."""

    def run(reached: CrashPoint) -> None:
        if reached is point:
            crash_points.install(None)
            shop.run_sql(*statements)

    crash_points.install(run)
    try:
        yield
    finally:
        crash_points.install(None)


@pytest.fixture
def wide(shop: Shop) -> Shop:
    """A table of which the view uses two columns."""
    shop.run_sql(
        "CREATE TYPE mood AS ENUM ('sad')",
        "CREATE TABLE orders (id int PRIMARY KEY, gone int, name text, note text, price numeric(10, 2), mood mood)",
        "INSERT INTO orders SELECT i, i, 'n' || i, 'x', i, 'sad' FROM generate_series(1, 80) i",
        "ANALYZE orders",
    )
    return shop


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "point",
    [CrashPoint.BEFORE_READ_AHEAD_COMMIT, CrashPoint.BEFORE_LANDING_COMMIT],
)
def test_ddl_on_columns_that_the_view_does_not_use_fails_no_attempt(wide: Shop, point: CrashPoint) -> None:
    """It comes when the table was looked at, and its rows are about to be read; and between two changes of a window."""
    wide.create(query="SELECT id, name FROM upstream", rate_limit=20)
    wide.epoch()
    for number, statement in enumerate(UNUSED):
        wide.run_sql(f"UPDATE orders SET name = name || '.' WHERE id % 6 = {number}")
        wide.run_sql(f"INSERT INTO orders (id, name) VALUES ({100 + number}, 'late')")
        with running_at(point, wide, statement):
            assert wide.epoch() is not None
    wide.finish()
    assert wide.rows("id", "name") == wide.table("SELECT id, name FROM orders")
    wide.assert_truth()


@pytest.mark.exhaustive
def test_a_used_column_that_changes_while_an_epoch_waits_is_refused_by_name(wide: Shop) -> None:
    """I6: by the epoch that reads rows; one that has all it needs in the lake is completed, and the next is refused."""
    wide.create(query="SELECT id, name FROM upstream", rate_limit=20)
    barrier = wide.inject()
    assert barrier is not None
    wide.run_sql("ALTER TABLE orders RENAME name TO title")
    with pytest.raises(UpstreamSchemaChangedError, match="column name is gone"):
        wide.run(barrier)
    assert_refused_until_it_is_back(wide)

    assert wide.epoch() is not None
    wide.run_sql("UPDATE orders SET name = 'changed' WHERE id < 5")
    barrier = wide.inject()
    assert barrier is not None
    wide.run_sql("ALTER TABLE orders RENAME name TO title")
    assert wide.run(barrier).rows_read > 0
    assert ("changed",) in wide.rows("name")
    assert_refused_until_it_is_back(wide)

    wide.finish()
    assert wide.rows("id", "name") == wide.table("SELECT id, name FROM orders")


def assert_refused_until_it_is_back(shop: Shop) -> None:
    with pytest.raises(UpstreamSchemaChangedError, match="column name is gone"):
        shop.epoch()
    shop.run_sql("ALTER TABLE orders RENAME title TO name")


@pytest.mark.exhaustive
@pytest.mark.parametrize("change", ["DELETE FROM orders WHERE id = 3", "UPDATE orders SET id = 300 WHERE id = 3"])
def test_changes_that_were_logged_under_another_identity_are_refused(shop: Shop, change: str) -> None:
    """I6: nobody knows which rows they are about, even if the identity is the right one again."""
    shop.run_sql("CREATE TABLE orders (id int PRIMARY KEY, name text, code int NOT NULL UNIQUE)")
    shop.run_sql("INSERT INTO orders SELECT i, 'n' || i, -i FROM generate_series(1, 5) i")
    shop.create(query="SELECT id, name FROM upstream")
    shop.finish()
    shop.run_sql("ALTER TABLE orders REPLICA IDENTITY USING INDEX orders_code_key")
    shop.run_sql(change)
    shop.run_sql("ALTER TABLE orders REPLICA IDENTITY DEFAULT")
    with pytest.raises(UpstreamError, match="logged without key column id.*rebuild the job"):
        shop.epoch()
    shop.rebuild_with(query="SELECT id, name FROM upstream")
    shop.finish()
    assert shop.rows("id", "name") == shop.table("SELECT id, name FROM orders")


@pytest.mark.exhaustive
def test_ddl_on_unused_columns_of_a_database_whose_events_are_landed(events: EventShop) -> None:
    events.begin(fill=40)
    events.create(query="SELECT id, name FROM upstream", rate_limit=15)
    for statement in ("ALTER TABLE orders DROP price", "ALTER TABLE orders RENAME mood TO feeling"):
        events.run_sql("UPDATE orders SET name = name || '.' WHERE id % 2 = 0")
        events.connector.land_all()
        with running_at(CrashPoint.BEFORE_READ_AHEAD_COMMIT, events, statement):
            assert events.epoch() is not None
    events.connector.land_all()
    events.finish()
    assert events.rows("id", "name") == events.table("SELECT id, name FROM orders")
