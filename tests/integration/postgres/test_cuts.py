"""A connection is cut, or the server dies, in the middle of what it sends: the epoch is done again, and is right."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import DatabaseUnavailableError
from tests.integration.postgres.proxy import Proxy, proxy_of
from tests.integration.postgres.shop import Shop
from tests.postgres_server import PostgresServer
from tests.variants import exhaustive

pytestmark = pytest.mark.spark

ROWS = 6_000
"""Rows of a chunk, and changes of a landing; more than the system keeps for a reader that is slower than the server."""


@pytest.fixture
def proxy(shop: Shop, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """The job's way to the server; the test's own session goes another one."""
    with proxy_of(postgres.port) as proxy:
        uri = postgres.uri(shop.database.info.dbname)
        monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", uri.replace(f":{postgres.port}/", f":{proxy.port}/"))
        yield proxy


@pytest.fixture
def act(request: pytest.FixtureRequest, shop: Shop, proxy: Proxy, postgres: PostgresServer) -> Callable[[], None]:
    """What happens in the middle."""

    def terminate() -> None:
        with postgres.connect() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'airflow_backfill'"
            )

    def kill() -> None:
        postgres.kill()
        postgres.start()

    return {"cut": proxy.cut, "terminate": terminate, "kill": kill}[request.param]


def begin(shop: Shop) -> None:
    """Create a job whose first epoch is done."""
    shop.run_sql("CREATE TABLE orders (id int PRIMARY KEY, name text)")
    shop.run_sql(f"INSERT INTO orders SELECT i, repeat('n', 8000) || i FROM generate_series(1, {2 * ROWS}) i")
    shop.database.execute("ANALYZE orders")
    shop.create(rate_limit=ROWS)
    shop.epoch()


def finish(shop: Shop, postgres: PostgresServer) -> None:
    shop.reconnect(postgres)
    shop.finish()
    assert shop.rows("id", "name") == shop.table("SELECT id, name FROM orders")
    assert shop.view().count() == shop.view().select("id").distinct().count()


@pytest.mark.exhaustive
@pytest.mark.parametrize("act", ["kill", exhaustive("cut"), exhaustive("terminate")], indirect=True)
def test_a_landing_is_cut_off(shop: Shop, postgres: PostgresServer, proxy: Proxy, act: Callable[[], None]) -> None:
    """I1, I2: the change log has all of its changes or none, and the next landing has them all."""
    begin(shop)
    shop.run_sql(f"UPDATE orders SET name = name || '.' WHERE id % 2 = 0 AND id <= {ROWS}")
    before = shop.backfill.upstream.latest()
    proxy.after(300_000, act)
    with pytest.raises(DatabaseUnavailableError, match="nothing is lost"):
        shop.inject()
    proxy.require_acted()
    assert shop.backfill.upstream.latest() == before
    finish(shop, postgres)


@pytest.mark.exhaustive
@pytest.mark.parametrize("act", ["terminate", "cut", "kill"], indirect=True)
def test_a_chunk_is_cut_off(shop: Shop, postgres: PostgresServer, proxy: Proxy, act: Callable[[], None]) -> None:
    """I1, I2: no row of it was committed, and the epoch is done again, with rows that are newer by then."""
    begin(shop)

    def arm(point: CrashPoint) -> None:
        if point is CrashPoint.BEFORE_READ_AHEAD_COMMIT:
            crash_points.install(None)
            proxy.after(500_000, act)

    barrier = shop.inject()
    assert barrier is not None
    crash_points.install(arm)
    try:
        with pytest.raises(DatabaseUnavailableError, match="nothing is lost"):
            shop.run(barrier)
    finally:
        crash_points.install(None)
    proxy.require_acted()
    shop.reconnect(postgres)
    shop.run_sql("UPDATE orders SET name = 'changed' WHERE id % 1000 = 0", "DELETE FROM orders WHERE id % 1001 = 0")
    assert shop.inject() == barrier
    finish(shop, postgres)


@pytest.mark.exhaustive
def test_the_end_of_a_reading_is_cut_off(shop: Shop, postgres: PostgresServer, proxy: Proxy) -> None:
    """I2: its rows are committed; the mark without which no window gets them is written when the epoch is repeated."""
    begin(shop)

    def arm(point: CrashPoint) -> None:
        if point is CrashPoint.AFTER_READ_AHEAD_COMMIT:
            crash_points.install(None)
            proxy.after(300, proxy.cut)

    crash_points.install(arm)
    try:
        # A cut while it connects is tried again at once.
        with contextlib.suppress(DatabaseUnavailableError):
            shop.epoch()
    finally:
        crash_points.install(None)
    proxy.require_acted()
    shop.run_sql("UPDATE orders SET name = 'changed' WHERE id % 1000 = 0")
    finish(shop, postgres)
