"""Debezium's events in a Delta table as the change log, and the rows from the database, while both change."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from airflow_backfill_provider.core.epoch import crash_points
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint
from airflow_backfill_provider.core.errors import InvalidJobError, UpstreamError, UpstreamSchemaChangedError
from airflow_backfill_provider.sources.debezium.definition import SnapshotDefinition
from airflow_backfill_provider.sources.debezium.snapshot_table import SnapshotTable
from tests.connector import Connector
from tests.debezium_events import EventTable
from tests.integration.postgres.shop import TABLE, Shop
from tests.postgres_server import PostgresServer

pytestmark = pytest.mark.spark

COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("paid_on", pa.int32()),
        ("seen_at", pa.int64()),
        ("paid_at", pa.string()),
        ("mood", pa.string()),
    ]
)
_DAY = dt.date(1970, 1, 1)
_INSTANT = dt.datetime(1970, 1, 1)


def _iso_8601(text: str) -> str:
    return text.replace(" ", "T").replace("+00", "Z")


VALUES = {
    "id": int,
    "price": Decimal,
    "paid_on": lambda text: (dt.date.fromisoformat(text) - _DAY).days,
    "seen_at": lambda text: (dt.datetime.fromisoformat(text) - _INSTANT) // dt.timedelta(microseconds=1),
    "paid_at": _iso_8601,
}


class EventShop(Shop):
    """A database, whose changes a connector lands as events, and a job over these."""

    connector: Connector

    def begin(self, *, fill: int) -> None:
        self.run_sql(
            "CREATE TYPE mood AS ENUM ('sad', 'ok')",
            "CREATE TABLE orders (id bigint PRIMARY KEY, name text, price numeric(10, 2), paid_on date, "
            "seen_at timestamp, paid_at timestamptz, mood mood)",
            f"INSERT INTO orders SELECT i, 'n' || i, i, date '2026-01-01' + i, timestamp '2026-01-01 10:15' + "
            f"i * interval '1.5 milliseconds', timestamptz '1969-12-31 23:59:59.5Z' + i * interval '250 microseconds', "
            f"'sad' FROM generate_series(1, {fill}) i",
            "ANALYZE orders",
        )
        self.events = EventTable(str(self.folder / "events"), COLUMNS, ["id"])
        self.events.create()
        self.connector = Connector(self.database, TABLE, self.events, VALUES)

    def create(self, **fields: Any) -> Any:
        database = {"connection": "shop_db", "table": TABLE, "events_within": 0}
        upstream = {"path": self.events.path, "key": ["id"], "snapshot": database, **fields.pop("debezium", {})}
        fields.setdefault("upstream", {"debezium": upstream})
        return super(Shop, self).create(**fields)

    def truth(self) -> list[tuple[Any, ...]]:
        rows = self.database.execute(f"SELECT {', '.join(f'{n}::text' for n in COLUMNS.names)} FROM orders").fetchall()
        return sorted(
            tuple(
                None if text is None else VALUES.get(name, str)(text)
                for name, text in zip(COLUMNS.names, row, strict=True)
            )
            for row in rows
        )


@pytest.fixture
def events(shop: Shop) -> EventShop:
    shop.__class__ = EventShop
    assert isinstance(shop, EventShop)
    return shop


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(1, 4))
def test_rows_of_the_database_and_events_become_one_view(events: EventShop, seed: int) -> None:
    """Rows that were changed before, while and after they were read; the same values from both sides."""
    chance = random.Random(seed)
    events.begin(fill=40)
    events.create(rate_limit=15)
    for number in range(8):
        for _ in range(6):
            id_ = chance.randrange(1, 60)
            events.run_sql(
                chance.choice(
                    [
                        "UPDATE orders SET price = price + 1, seen_at = seen_at + interval '1 microsecond' "
                        f"WHERE id = {id_}",
                        f"DELETE FROM orders WHERE id = {id_}",
                        f"INSERT INTO orders VALUES ({id_}, NULL, 1.5, '1900-02-28', '1969-01-01 00:00:00.000001', "
                        "'2026-03-04 05:06:07.1+02', 'ok') ON CONFLICT (id) DO UPDATE SET name = excluded.name",
                        f"UPDATE orders SET id = {id_ + 100 * number + 100} WHERE id = {id_}",
                    ]
                )
            )
        events.connector.land(chance)
        events.epoch()
    events.connector.land_all()
    events.finish()
    assert events.rows(*COLUMNS.names) == events.truth()
    events.assert_truth()
    events.run_sql("TRUNCATE orders", "INSERT INTO orders (id, name) VALUES (7, 'again')")
    events.connector.land_all()
    assert events.epoch() is not None
    assert events.rows("id", "name") == [(7, "again")]


@pytest.mark.exhaustive
def test_rows_of_a_transaction_that_a_crash_took_back_are_read_again(
    events: EventShop, postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    """I1: with asynchronous commits, others see a transaction before it is on disk, and it never becomes an event."""
    events.begin(fill=60)
    events.create(rate_limit=20)
    events.database.execute("SET synchronous_commit = off")

    def crash(reached: CrashPoint) -> None:
        if reached is CrashPoint.BEFORE_READ_AHEAD_COMMIT:
            events.stop_log_writer()
            events.run_sql("DELETE FROM orders WHERE id = 1", "INSERT INTO orders (id) VALUES (-1)")
            events.run_sql("UPDATE orders SET name = 'taken back' WHERE id BETWEEN 2 AND 10")
        if reached is CrashPoint.AFTER_READ_AHEAD_COMMIT:
            crash_points.install(None)
            postgres.kill()
            postgres.start()

    crash_points.install(crash)
    try:
        events.epoch()
    finally:
        crash_points.install(None)
        events.reconnect(postgres)
    assert "while the server crashed; they are read again" in caplog.text
    assert events.table("SELECT name FROM orders WHERE id = 2") == [("n2",)]
    events.connector.reconnect(events.database)
    events.connector.land_all()
    events.finish()
    assert events.rows(*COLUMNS.names) == events.truth()
    events.assert_truth()


def commit_and_is_not_on_disk(events: EventShop, name: str) -> bool:
    """Commit, and return whether the log on disk ends before the commit."""
    events.run_sql(f"UPDATE orders SET name = '{name}'")
    return events.table("SELECT pg_current_wal_flush_lsn() < pg_current_wal_insert_lsn()") == [(True,)]


def test_a_reading_ends_when_all_that_it_may_have_seen_is_on_disk(events: EventShop) -> None:
    """I1: the server writes an asynchronous commit late, and keeps none of it in a crash before."""
    events.begin(fill=1)
    table = SnapshotTable(SnapshotDefinition(connection="shop_db", table=TABLE))
    server_run = table.server_run(frozenset())
    with events.server_setting("wal_writer_delay", "3s"):
        events.database.execute("SET synchronous_commit = off")
        # Other processes of the server may flush now and then.
        assert any(commit_and_is_not_on_disk(events, f"late {number}") for number in range(30))
        ((end,),) = events.table("SELECT pg_current_wal_insert_lsn()::text")
        assert table.has_kept_all(server_run)
        assert events.table(f"SELECT pg_current_wal_flush_lsn() >= '{end}'") == [(True,)]


@pytest.mark.exhaustive
def test_a_long_value_that_did_not_change_is_taken_from_an_earlier_event(events: EventShop) -> None:
    events.begin(fill=2)
    long = "".join(random.Random(1).choices("abcdefgh", k=100_000))
    events.create()
    events.finish()
    events.run_sql(f"UPDATE orders SET name = '{long}' WHERE id = 1")
    events.connector.land_all()
    events.epoch()
    events.run_sql("UPDATE orders SET price = 7 WHERE id = 1")
    events.connector.land_all()
    events.epoch()
    assert events.rows("price", "name") == [(Decimal(2), "n2"), (Decimal(7), long)]


@pytest.mark.exhaustive
def test_columns_that_the_events_encode_unknown_are_refused(events: EventShop) -> None:
    events.begin(fill=1)
    events.run_sql("ALTER TABLE orders ALTER paid_on TYPE text, DROP mood")
    with pytest.raises(InvalidJobError, match=r"mood \(the table has no such column\); paid_on \(text in the table"):
        events.create()
    events.create(query="SELECT id, name FROM upstream")


def test_the_databases_key_is_held_against_the_events_key(events: EventShop) -> None:
    events.begin(fill=1)
    with pytest.raises(InvalidJobError, match="no unique index over name"):
        events.create(debezium={"key": ["name"]})
    with pytest.raises(InvalidJobError, match="paid_at.*not ordered alike"):
        events.create(debezium={"key": ["paid_at"]})


@pytest.mark.exhaustive
def test_a_snapshot_of_the_events_needs_no_database(events: EventShop) -> None:
    events.begin(fill=20)
    events.run_sql("UPDATE orders SET price = 0 WHERE id = 3")
    events.connector.land_all()
    with pytest.raises(UpstreamError, match="begin in the middle"):
        events.create(debezium={"snapshot": None})
    events.events.land(*events.connector.snapshot())
    events.create(debezium={"snapshot": None})
    events.run_sql("UPDATE orders SET id = 30 WHERE id = 4", "TRUNCATE orders")
    events.run_sql("INSERT INTO orders (id, name) VALUES (30, 'after')")
    events.connector.land_all()
    events.finish()
    assert events.rows("id", "name") == [(30, "after")]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("statements", "message"),
    [
        (["ALTER TABLE orders ALTER name TYPE text USING upper(name)"], "column name was written anew"),
        (["ALTER TABLE orders DROP name", "ALTER TABLE orders ADD name text"], "column name is another column now"),
        (["ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'"], "labels of the enum of column mood"),
    ],
)
@pytest.mark.parametrize("epochs", [1, 60])
def test_ddl_that_changes_values_without_events_is_refused(
    events: EventShop, statements: list[str], message: str, epochs: int
) -> None:
    """I6: while rows are read, and afterwards."""
    events.begin(fill=40)
    events.create(rate_limit=15)
    for _ in range(epochs):
        if events.epoch() is None:
            break
    events.run_sql("ALTER TABLE orders ALTER name SET STATISTICS 9")
    events.database.execute("VACUUM FULL orders")
    events.epoch()
    events.run_sql(*statements)
    with pytest.raises(UpstreamSchemaChangedError, match=message):
        events.epoch()
