"""The server dies, restarts, or cuts connections at any point of an epoch: nothing is lost and nothing is doubled."""

from __future__ import annotations

import contextlib
import datetime as dt
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from airflow_backfill_provider.cli.main import app
from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import (
    ChangeFeedGapError,
    DatabaseRefusedError,
    DatabaseUnavailableError,
    InvalidJobError,
    UpstreamError,
)
from airflow_backfill_provider.plugin.observed_job import ObservedJob
from airflow_backfill_provider.sources.postgres.present import PresentTable
from tests.integration.postgres.shop import Shop
from tests.postgres_server import PostgresServer

pytestmark = pytest.mark.spark


def fill(shop: Shop, first: int, last: int) -> None:
    shop.run_sql(f"INSERT INTO orders SELECT i, 'n' || i FROM generate_series({first}, {last}) i")


@pytest.mark.exhaustive
def test_an_epoch_is_completed_after_the_server_died_at_any_of_its_points(shop: Shop, postgres: PostgresServer) -> None:
    """I2: its process is killed, and it recovers from its log."""
    shop.run_sql("CREATE TABLE orders (id int PRIMARY KEY, name text)")
    fill(shop, 1, 60)
    shop.create(rate_limit=10)
    shop.epoch()
    points = [
        CrashPoint.BEFORE_LANDING_COMMIT,
        CrashPoint.AFTER_LANDING_COMMIT,
        CrashPoint.BEFORE_READ_AHEAD_COMMIT,
        CrashPoint.AFTER_READ_AHEAD_COMMIT,
    ]
    for number, point in enumerate(points):
        shop.run_sql(f"UPDATE orders SET name = name || '.' WHERE id % 7 = {number}")
        fill(shop, 100 + number, 100 + number)

        def kill(reached: CrashPoint, point: CrashPoint = point) -> None:
            if reached is point:
                crash_points.install(None)
                postgres.kill()
                postgres.start()

        crash_points.install(kill)
        try:
            # Only a connection that was open notices.
            with contextlib.suppress(DatabaseUnavailableError):
                shop.epoch()
        finally:
            crash_points.install(None)
        shop.reconnect(postgres)
        assert shop.epoch() is not None
    shop.finish()
    assert shop.rows("id", "name") == shop.table("SELECT id, name FROM orders")


@pytest.mark.exhaustive
@pytest.mark.parametrize("epochs", [1, 0])
def test_rows_of_a_transaction_that_a_crash_took_back_are_read_again(
    shop: Shop, postgres: PostgresServer, caplog: pytest.LogCaptureFixture, epochs: int
) -> None:
    """I1: with asynchronous commits, others see a transaction before it is on disk. Also of the very first rows."""
    shop.run_sql("CREATE TABLE orders (id int PRIMARY KEY, name text)")
    fill(shop, 1, 60)
    shop.create(rate_limit=20)
    for _ in range(epochs):
        shop.epoch()
    shop.database.execute("SET synchronous_commit = off")

    def crash(reached: CrashPoint) -> None:
        if reached is CrashPoint.BEFORE_READ_AHEAD_COMMIT:
            shop.stop_log_writer()
            shop.database.execute("DELETE FROM orders WHERE id IN (1, 21)")
            shop.database.execute("INSERT INTO orders VALUES (-1, 'taken back')")
            shop.database.execute("UPDATE orders SET name = 'taken back' WHERE id BETWEEN 2 AND 40 AND id <> 21")
            assert shop.table("SELECT name FROM orders WHERE id = 22") == [("taken back",)]
        if reached is CrashPoint.AFTER_READ_AHEAD_COMMIT:
            postgres.kill()
            postgres.start()

    crash_points.install(crash)
    try:
        shop.epoch()
    finally:
        crash_points.install(None)
        shop.reconnect(postgres)
    assert "while the server crashed; they are read again" in caplog.text
    assert shop.table("SELECT name FROM orders WHERE id = 22") == [("n22",)]
    shop.finish()
    assert shop.rows("id", "name") == shop.table("SELECT id, name FROM orders")


@pytest.mark.exhaustive
def test_a_server_that_is_down_fails_the_request_clearly(shop: Shop, postgres: PostgresServer) -> None:
    shop.run_sql("CREATE TABLE orders (id int PRIMARY KEY, name text)")
    fill(shop, 1, 3)
    before = dt.datetime.now(dt.UTC)
    shop.create()
    created = dt.datetime.now(dt.UTC)
    file = shop.folder / "job.yaml"
    file.write_text(yaml.safe_dump(shop.backfill.job.model_dump(mode="json")), encoding="utf-8")
    known = ObservedJob(lambda: shop.backfill)
    assert known.look().created
    postgres.stop()
    try:
        with pytest.raises(DatabaseUnavailableError, match="shop_db: the database does not answer .*nothing is lost"):
            shop.epoch()
        status = shop.backfill.status()
        assert (status.epoch, [alarm.kind for alarm in status.alarms]) == (0, ["stalled"])
        assert "the database does not answer" in status.alarms[0].message
        assert "its last recorded answer is from 20" in status.alarms[0].message
        assert (status.upstream_answers, status.lag_seconds) == (False, None)
        assert status.upstream_answered_at is not None
        assert before <= status.upstream_answered_at <= created
        for on_page in (known, ObservedJob(lambda: shop.backfill)):
            summary = on_page.look_again().summary
            assert summary is not None
            assert (summary.upstream_answers, summary.rows_read) == (False, 0)
        shown = CliRunner().invoke(app, ["status", str(file)])
        assert (shown.exit_code, shown.exception) == (0, None)
        assert "(lag unknown)" in shown.output
        assert "its last recorded answer is from" in " ".join(shown.output.split())
    finally:
        postgres.start()
    shop.reconnect(postgres)
    shop.finish()
    assert shop.rows("id", "name") == shop.table("SELECT id, name FROM orders")


def test_a_wrong_password_is_refused_and_never_shown(
    shop: Shop, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.run_sql("CREATE TABLE orders (id int PRIMARY KEY)")
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", postgres.uri(password="not-the-password"))
    with pytest.raises(DatabaseRefusedError, match="refuses the login") as refused:
        shop.create()
    assert "not-the-password" not in str(refused.value)
    assert "not-the-password" not in shop.backfill.job.model_dump_json()


def test_a_connection_that_nothing_knows_is_named(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.run_sql("CREATE TABLE orders (id int PRIMARY KEY)")
    monkeypatch.delenv("AIRFLOW_CONN_SHOP_DB")
    with pytest.raises(InvalidJobError, match="there is no connection shop_db; add it in Airflow, or set AIRFLOW_CONN"):
        shop.create()


@pytest.mark.exhaustive
def test_a_service_of_libpq_is_as_good_as_a_connection(
    shop: Shop, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Spark's driver reads no service file, so it gets what libpq made of it."""
    shop.run_sql("CREATE TABLE orders (id int PRIMARY KEY, name text)")
    fill(shop, 1, 3)
    monkeypatch.delenv("AIRFLOW_CONN_SHOP_DB")
    services = tmp_path / "services.conf"
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    for content in (None, "[another]\nhost=127.0.0.1\n"):
        if content is not None:
            services.write_text(content, encoding="utf-8")
        with pytest.raises(InvalidJobError, match="there is no connection shop_db; add it .* AIRFLOW_CONN_SHOP_DB"):
            shop.create()
    info = shop.database.info
    services.write_text(
        f"[shop_db]\nhost={info.host}\nport={info.port}\ndbname={info.dbname}\nuser={info.user}\n"
        f"password={info.password}\nsslmode=disable\n",
        encoding="utf-8",
    )
    shop.create()
    shop.finish()
    assert shop.rows("id", "name") == shop.table("SELECT id, name FROM orders")


@pytest.mark.exhaustive
def test_an_alarm_comes_before_the_slot_is_lost(shop: Shop) -> None:
    """I6: then changes are lost, which is said, too."""
    shop.run_sql("CREATE TABLE orders (id int PRIMARY KEY, name text)")
    fill(shop, 1, 3)
    shop.create()
    shop.finish()

    with shop.server_setting("max_slot_wal_keep_size", "128MB"):
        assert shop.backfill.status().alarms == ()
        shop.write_log(80)
        (alarm,) = shop.backfill.status().alarms
        assert (alarm.kind, "keeps" in alarm.message) == ("headroom", True)
        for row in range(4, 10):
            # The server releases log up to a moment at which it noted that no transaction was in progress.
            fill(shop, row, row)
            shop.database.execute("CHECKPOINT")
            shop.finish()
            if shop.backfill.status().alarms == ():
                break
        assert shop.backfill.status().alarms == ()
        shop.write_log(240)
        (alarm,) = shop.backfill.status().alarms
        assert (alarm.kind, "is lost" in alarm.message) == ("replaced", True)
        with pytest.raises(ChangeFeedGapError, match="max_slot_wal_keep_size"):
            shop.epoch()


@pytest.mark.exhaustive
def test_a_slot_that_another_process_uses_is_waited_for(shop: Shop) -> None:
    """The server notices late that a process was killed while it read the slot."""
    shop.run_sql("CREATE TABLE orders (id int PRIMARY KEY, name text)")
    fill(shop, 1, 3)
    shop.create()
    shop.epoch()
    fill(shop, 4, 200_000)
    peek = (
        "SELECT count(*) FROM pg_logical_slot_peek_binary_changes('airflow_backfill_orders_view', NULL, NULL, "
        "'proto_version', '1', 'publication_names', 'airflow_backfill_orders_view')"
    )
    with shop.another_session() as other, ThreadPoolExecutor(1) as threads:
        reading = threads.submit(lambda: other.execute(peek).fetchall())
        while not shop.table("SELECT active FROM pg_replication_slots WHERE active AND database = current_database()"):
            assert not reading.done()
        shop.finish()
        reading.result()
    assert shop.rows("id", "name") == shop.table("SELECT id, name FROM orders")


def test_a_commit_that_is_logged_and_not_visible_yet_is_not_lost(shop: Shop) -> None:
    """I1: with synchronous replication, a commit is in the log long before others see it."""
    shop.run_sql("CREATE TABLE orders (id int PRIMARY KEY, name text)")
    fill(shop, 1, 3)
    shop.create()
    with shop.logged_and_not_visible("INSERT INTO orders VALUES (4, 'late')"):
        assert shop.table("SELECT id FROM orders") == [(1,), (2,), (3,)]
        shop.epoch()
    shop.finish()
    assert shop.rows("id") == [(1,), (2,), (3,), (4,)]


@pytest.mark.exhaustive
def test_a_reading_whose_end_was_not_recorded_is_used(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """I4: its epoch was given up after it had written all, so that no attempt of it follows."""
    shop.run_sql("CREATE TABLE orders (id int PRIMARY KEY, name text)")
    fill(shop, 1, 60)
    shop.create(rate_limit=20)
    shop.epoch()
    fill(shop, 61, 62)

    def fail(*_: object) -> None:
        raise UpstreamError("of the test")

    with monkeypatch.context() as patched:
        patched.setattr(PresentTable, "end_reading", fail)
        assert shop.epoch() is not None
    shop.finish()
    assert shop.rows("id", "name") == shop.table("SELECT id, name FROM orders")
