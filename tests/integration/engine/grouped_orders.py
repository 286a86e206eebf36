"""Orders for tests of groups, attempts of theirs that die, and what every view of groups must follow."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from tests.integration.engine.lakehouse import Lakehouse

COLUMNS = "id BIGINT, customer STRING, product STRING, amount INT, at TIMESTAMP_NTZ"


class DiedError(Exception):
    """An attempt died."""


def die_at(point: CrashPoint) -> Callable[[CrashPoint], None]:
    def die(reached: CrashPoint) -> None:
        if reached is point:
            raise DiedError

    return die


def die_at_each(lakehouse: Lakehouse, *points: CrashPoint) -> None:
    """Let one attempt of the next epoch die at each point."""
    for point in points:
        crash_points.install(die_at(point))
        try:
            with pytest.raises(DiedError):
                lakehouse.epoch()
        finally:
            crash_points.install(None)


def make_orders(lakehouse: Lakehouse) -> None:
    lakehouse.make_upstream(COLUMNS)
    lakehouse.change(
        "INSERT INTO {upstream} SELECT id, concat('c', id % 5), concat('p', id % 3), "
        "CAST(id % 4 AS INT), TIMESTAMP_NTZ'2026-01-30 00:00:00' + make_dt_interval(id) FROM range(40)"
    )


def truth(query: str) -> str:
    return query.replace("FROM upstream", "FROM {upstream} AS upstream")


def assert_follows(orders: Lakehouse, query: str, *, gone: str) -> None:
    """
    Finish a job, change its upstream twice, and kill an attempt; after every epoch the view is the query.

    :param gone: the condition of the rows that go first.
    """
    orders.change("UPDATE {upstream} SET customer = 'c1' WHERE id IN (7, 8)")
    orders.finish()
    orders.assert_equals_query(truth(query))
    orders.change(f"DELETE FROM {{upstream}} WHERE {gone}")
    orders.change("UPDATE {upstream} SET customer = NULL, amount = 9 WHERE id IN (1, 3)")
    orders.change("UPDATE {upstream} SET id = 95, product = 'p9' WHERE id = 4")
    orders.change("INSERT INTO {upstream} VALUES (90, 'new', 'p1', 2, NULL), (91, NULL, NULL, NULL, NULL)")
    die_at_each(orders, CrashPoint.AFTER_CHANGES_COMMIT)
    orders.epoch()
    orders.assert_equals_query(truth(query))
    orders.change("DELETE FROM {upstream} WHERE customer IS NULL OR customer = 'new'")
    orders.change("INSERT INTO {upstream} SELECT 100 + id, 'c2', 'p2', 1, NULL FROM range(3)")
    orders.epoch()
    orders.assert_equals_query(truth(query))
    orders.assert_truth()
