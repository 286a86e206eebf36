"""How far a view over a real PostgreSQL lags behind: the age of the oldest change that it lacks, and the kept log."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from airflow_backfill_provider.core.status.job_status import JobStatus
from airflow_backfill_provider.sources.postgres import table_feed
from tests.integration.postgres.shop import Shop

pytestmark = pytest.mark.spark

LATER = dt.timedelta(hours=1)


@pytest.fixture
def finished(shop: Shop) -> Shop:
    """A finished view, and another table that the job does not read."""
    shop.run_sql("CREATE TABLE orders (id int PRIMARY KEY, name text)", "CREATE TABLE others (id int)")
    shop.run_sql("INSERT INTO orders VALUES (1, 'a')")
    shop.create()
    shop.finish()
    return shop


@contextmanager
def committed_between(shop: Shop) -> Iterator[list[dt.datetime]]:
    """The server's time before and after the block."""
    now = "SELECT clock_timestamp()"
    times = [shop.database.execute(now).fetchall()[0][0]]
    yield times
    times.append(shop.database.execute(now).fetchall()[0][0])


def an_hour_after(shop: Shop, times: list[dt.datetime]) -> JobStatus:
    return shop.backfill.status(lambda: times[-1] + LATER)


def assert_as_old_as(status: JobStatus, times: list[dt.datetime]) -> None:
    assert status.lag_versions > 0
    assert status.lag_seconds is not None
    assert LATER <= dt.timedelta(seconds=status.lag_seconds) <= times[-1] + LATER - times[0]


@pytest.mark.exhaustive
def test_a_view_does_not_lag_behind_a_table_that_did_not_change(finished: Shop) -> None:
    """Whatever the server writes into its log about other tables, and the job itself."""
    finished.run_sql("INSERT INTO others SELECT generate_series(1, 1000)")
    status = finished.backfill.status()
    assert (status.lag_versions, status.lag_seconds, status.behind_since) == (0, 0.0, None)
    assert status.upstream_latest_version == status.upstream_version
    assert status.kept_bytes is not None
    assert status.kept_bytes > 0
    assert status.kept_bytes_left is None


def test_the_lag_is_the_age_of_the_oldest_change_that_the_view_lacks(finished: Shop) -> None:
    """First no epoch has landed it; then one has landed it, and died."""
    with committed_between(finished) as times:
        finished.run_sql("UPDATE orders SET name = 'b'")
    finished.run_sql("INSERT INTO orders VALUES (2, 'c')")
    assert_as_old_as(an_hour_after(finished, times), times)
    finished.backfill.upstream.refresh()
    assert_as_old_as(an_hour_after(finished, times), times)
    assert finished.epoch() is not None
    assert an_hour_after(finished, times).lag_seconds == 0.0


@pytest.mark.exhaustive
def test_of_much_log_the_age_is_what_it_can_be_at_most(finished: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody goes through gigabytes of log to show a number."""
    with committed_between(finished) as times:
        finished.run_sql("INSERT INTO orders VALUES (2, 'c')")
    finished.epoch()
    finished.run_sql("INSERT INTO orders VALUES (3, 'd')")
    monkeypatch.setattr(table_feed, "MOST_LOOKED_THROUGH", 0)
    assert_as_old_as(an_hour_after(finished, times), times)
