"""The change log is cleaned up while jobs read it: a job goes on, or it is refused and told what to do."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from deltalake import DeltaTable

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import ChangeFeedGapError
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.sources.postgres.source import PostgresSource
from airflow_backfill_provider.sources.shared.change_log.retention import KEPT_FOR_PROPERTY, ChangeLogRetention
from airflow_backfill_provider.sources.shared.change_log.table import ChangeLog
from airflow_backfill_provider.sources.shared.postgresql.lsn import lsn_of
from tests.dying import died
from tests.integration.postgres.shop import Shop

pytestmark = pytest.mark.spark

DAY = dt.timedelta(days=1)


@pytest.fixture
def filled(shop: Shop) -> Shop:
    shop.run_sql("CREATE TABLE orders (id int PRIMARY KEY, name text)")
    fill(shop, 1, 30)
    return shop


@pytest.fixture
def shared(filled: Shop) -> dict[str, str]:
    """A slot and a change log that two jobs share."""
    return {"slot": f"shared_{filled.database.info.dbname}", "change_log": str(filled.folder / "shared_log")}


@pytest.fixture
def second(filled: Shop, shared: dict[str, str]) -> Shop:
    """Another job, which is finished."""
    second = Shop(filled.spark, filled.folder / "second", filled.database)
    second.create(postgres=shared, name="second_view")
    second.finish()
    return second


@pytest.fixture
def no_crash_points() -> Iterator[None]:
    yield
    crash_points.install(None)


def fill(shop: Shop, first: int, last: int) -> None:
    shop.run_sql(f"INSERT INTO orders SELECT i, 'n' || i FROM generate_series({first}, {last}) i")


def source_of(shop: Shop) -> PostgresSource:
    source = shop.backfill.upstream
    assert isinstance(source, PostgresSource)
    return source


def log_of(shop: Shop) -> ChangeLog:
    return source_of(shop).log


def keep_nothing(shop: Shop) -> None:
    """Let a clean-up remove what the last one found."""
    set_property(shop, "interval 0 hours")


def set_property(shop: Shop, value: str) -> None:
    shop.sql(f"ALTER TABLE delta.{quote(log_of(shop).location)} SET TBLPROPERTIES ('{KEPT_FOR_PROPERTY}' = '{value}')")


def clean_up(shop: Shop) -> None:
    """Do what a request does once a day."""
    source_of(shop)._clean_up(dt.datetime.now(dt.UTC))


def assert_equal(shop: Shop) -> None:
    assert shop.rows("id", "name") == shop.table("SELECT id, name FROM orders")


@pytest.mark.exhaustive
def test_a_job_goes_on_over_clean_ups(filled: Shop) -> None:
    """I1: in the middle of its snapshot, and once it is finished."""
    filled.create(rate_limit=10)
    keep_nothing(filled)
    for number in range(6):
        filled.run_sql(f"UPDATE orders SET name = name || '.' WHERE id % 6 = {number}")
        filled.epoch()
        clean_up(filled)
    filled.finish()
    assert_equal(filled)
    assert log_of(filled).queries.complete_after() > lsn_of(filled.backfill.store.settings().start.offset)
    filled.run_sql("DELETE FROM orders WHERE id = 3", "UPDATE orders SET name = 'x' WHERE id = 4")
    filled.finish()
    assert_equal(filled)
    assert filled.epoch() is None
    assert filled.backfill.status().alarms == ()


@pytest.mark.exhaustive
def test_a_job_that_slept_for_too_long_is_warned_and_then_refused(
    filled: Shop, shared: dict[str, str], second: Shop
) -> None:
    """I6: another job's requests land the changes that it needs, and clean them up."""
    filled.create(postgres=shared)
    filled.finish()
    fill(filled, 31, 40)
    second.finish()
    (kept_since, kept_for) = dt.datetime.now(dt.UTC), dt.timedelta(days=30)
    assert filled.backfill.status().alarms == ()
    clean_up(second)
    later = kept_since + kept_for - DAY / 2
    (alarm,) = filled.backfill.status(clock=lambda: later).alarms
    assert (alarm.kind, "may be gone in" in alarm.message) == ("headroom", True)
    assert KEPT_FOR_PROPERTY in alarm.remedy
    keep_nothing(filled)
    clean_up(second)
    (alarm,) = filled.backfill.status().alarms
    assert (alarm.kind, "may be gone: no epoch has read them" in alarm.message) == ("headroom", True)
    fill(filled, 41, 42)
    for _ in range(2):
        with pytest.raises(ChangeFeedGapError, match=f"cleaned up .*{KEPT_FOR_PROPERTY}.*; rebuild the job"):
            filled.epoch()
    second.finish()
    assert second.rows("id") == filled.table("SELECT id FROM orders")
    filled.rebuild_with(postgres=shared)
    fill(filled, 43, 44)
    filled.finish()
    assert_equal(filled)


@pytest.mark.exhaustive
def test_an_epoch_whose_changes_are_cleaned_up_before_it_runs_is_refused(
    filled: Shop, shared: dict[str, str], second: Shop
) -> None:
    """I6: it was pinned while they were there."""
    filled.create(postgres=shared)
    filled.finish()
    fill(filled, 31, 40)
    barrier = filled.inject()
    assert barrier is not None
    keep_nothing(filled)
    clean_up(second)
    clean_up(second)
    with pytest.raises(ChangeFeedGapError, match="rebuild the job"):
        filled.run(barrier)
    assert len(filled.rows("id")) == 30


@pytest.mark.exhaustive
def test_rows_that_waited_for_too_long_are_refused(filled: Shop) -> None:
    """I6: a paused job applies changes, but the rows that it read ahead need older ones, too."""
    filled.create(rate_limit=10)
    filled.epoch()
    keep_nothing(filled)
    fill(filled, 31, 40)
    source_of(filled).refresh()
    clean_up(filled)
    clean_up(filled)
    with pytest.raises(ChangeFeedGapError, match="rebuild the job"):
        filled.epoch()


@pytest.mark.exhaustive
def test_a_request_cleans_up_once_a_day_and_goes_on_if_that_fails(
    filled: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    filled.create()
    filled.finish()
    log = log_of(filled)
    version = DeltaTable(log.location).version()
    source_of(filled).refresh()
    assert DeltaTable(log.location).version() == version
    monkeypatch.setattr("airflow_backfill_provider.sources.shared.change_log.retention.CLEANED_EVERY", dt.timedelta(0))
    set_property(filled, "a month")
    source_of(filled).refresh()
    assert DeltaTable(log.location).version() > version + 1
    (alarm,) = filled.backfill.status().alarms
    assert (alarm.kind, f"cannot parse {KEPT_FOR_PROPERTY} = 'a month'" in alarm.message) == ("headroom", True)

    def fail(*_: object, **__: object) -> None:
        raise OSError("out of order")

    monkeypatch.setattr(ChangeLogRetention, "clean_up", fail)
    fill(filled, 31, 32)
    filled.finish()
    assert_equal(filled)
    assert "was not cleaned up: out of order" in caplog.text


@pytest.mark.exhaustive
def test_a_clean_up_and_a_landing_at_the_same_time(filled: Shop, no_crash_points: None) -> None:
    """The clean-up gives way, and nothing is lost or doubled."""
    filled.create()
    filled.finish()
    keep_nothing(filled)
    clean_up(filled)

    def land(point: CrashPoint) -> None:
        if point is CrashPoint.BEFORE_CLEAN_UP_COMMIT:
            crash_points.install(None)
            fill(filled, 31, 32)
            with ThreadPoolExecutor(1) as other:
                other.submit(source_of(filled).table.landing.land).result()

    crash_points.install(land)
    before = log_of(filled).queries.complete_after()
    clean_up(filled)
    assert log_of(filled).queries.complete_after() == before
    clean_up(filled)
    assert log_of(filled).queries.complete_after() > before
    filled.finish()
    assert_equal(filled)


@pytest.mark.parametrize("point", [CrashPoint.BEFORE_CLEAN_UP_COMMIT, CrashPoint.AFTER_CLEAN_UP_COMMIT])
@pytest.mark.exhaustive
def test_a_clean_up_that_dies_is_done_again(filled: Shop, point: CrashPoint) -> None:
    filled.create()
    filled.finish()
    keep_nothing(filled)
    clean_up(filled)
    assert died(point, lambda: clean_up(filled))
    fill(filled, 31, 32)
    filled.finish()
    clean_up(filled)
    assert_equal(filled)
    assert filled.epoch() is None


@pytest.mark.exhaustive
def test_a_transaction_that_nobody_sees_yet_is_not_cleaned_up(filled: Shop) -> None:
    """I1: with synchronous replication, a commit is in the log long before others see it."""
    filled.create()
    filled.finish()
    keep_nothing(filled)
    with filled.logged_and_not_visible("INSERT INTO orders VALUES (31, 'late')"):
        source_of(filled).refresh()
        clean_up(filled)
        clean_up(filled)
        filled.rebuild_with()
        filled.epoch()
    filled.finish()
    assert_equal(filled)
