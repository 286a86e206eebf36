"""
A stand-in for Debezium's connector to PostgreSQL: turns the messages of a logical replication slot into events.

It does what Debezium documents: a change of a key is a delete and an insert, a long value that the log left out becomes
a placeholder, and each event has the position of its own record in the log.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import psycopg

from airflow_backfill_provider.sources.postgres.pgoutput import (
    UNCHANGED,
    Begin,
    Delete,
    Insert,
    Message,
    Relation,
    Truncate,
    Tuple,
    Update,
    decode,
)
from airflow_backfill_provider.sources.shared.postgresql.lsn import parse_lsn
from tests.debezium_events import DELETE, INSERT, READ, TRUNCATE, UPDATE, Event, EventTable

PLACEHOLDER = "__debezium_unavailable_value"
_SLOT = "debezium"


class Connector:
    """
    A connector with a slot of its own.

    :param database: an open session of the table's owner, with a setting of the time zone and formats as defaults.
    :param table: the name of the database's table.
    :param events: where the events are landed.
    :param values: column → how Debezium encodes its text.
    """

    def __init__(
        self,
        database: psycopg.Connection[tuple[Any, ...]],
        table: str,
        events: EventTable,
        values: Mapping[str, Callable[[str], Any]],
    ) -> None:
        self._table = table
        self._events = events
        self._values = values
        self._relations: dict[int, Relation] = {}
        self._waiting: list[Event] = []
        self.reconnect(database)
        database.execute(f"CREATE PUBLICATION {_SLOT} FOR TABLE {table}")
        database.execute(f"SELECT pg_create_logical_replication_slot('{_SLOT}', 'pgoutput')")

    def reconnect(self, database: psycopg.Connection[tuple[Any, ...]]) -> None:
        """Go on in another session, after the server ended the last one."""
        self._database = database
        database.execute("SET TimeZone TO 'UTC'")

    def poll(self) -> list[Event]:
        """Return the events since the last call."""
        return [*self._polled()]

    def land(self, chance: random.Random) -> None:
        """Land most of what there is, shuffled; some events come later, and some twice."""
        self._waiting.extend(self.poll())
        late = [event for event in self._waiting if chance.random() < 0.1]
        batch = [event for event in self._waiting if event not in late]
        again = chance.sample(self._events.landed, min(2, len(self._events.landed)))
        self._waiting = late
        batch.extend(again)
        chance.shuffle(batch)
        self._events.land(*batch)

    def land_all(self) -> None:
        """Land everything."""
        self._events.land(*self._waiting, *self.poll())
        self._waiting = []

    def snapshot(self) -> list[Event]:
        """Return an event of each row, as Debezium's own snapshot does."""
        columns = self._events.columns.names
        position, *_ = self._database.execute("SELECT pg_current_wal_lsn()::text").fetchall()[0]
        rows = self._database.execute(f"SELECT {', '.join(f'{name}::text' for name in columns)} FROM {self._table}")
        return [Event(kind=READ, lsn=parse_lsn(position), after=self._row(columns, row)) for row in rows.fetchall()]

    def _polled(self) -> Iterator[Event]:
        messages = self._database.execute(
            "SELECT lsn::text, data FROM pg_logical_slot_get_binary_changes(%s, NULL, NULL, 'proto_version', '1', "
            "'publication_names', %s)",
            [_SLOT, _SLOT],
        ).fetchall()
        transaction, time = 0, 0
        for lsn, data in messages:
            message = decode(data)
            if isinstance(message, Begin):
                transaction, time = message.xid, round(message.committed_at.timestamp() * 1000)
            elif isinstance(message, Relation):
                self._relations[message.oid] = message
            else:
                for kind, before, after in self._changes(message):
                    yield Event(
                        kind=kind,
                        lsn=parse_lsn(lsn),
                        before=before,
                        after=after,
                        transaction=transaction,
                        time=time,
                    )

    def _changes(self, message: Message | None) -> Iterator[tuple[str, Any, Any]]:
        match message:
            case Insert():
                yield INSERT, None, self._of(message.oid, message.new)
            case Delete():
                yield DELETE, self._of(message.oid, message.old), None
            case Truncate():
                yield TRUNCATE, None, None
            case Update():
                new = self._of(message.oid, message.new)
                old = None if message.old is None else self._of(message.oid, message.old)
                key = self._events.key
                if old is not None and [old[name] for name in key] != [new[name] for name in key]:
                    yield DELETE, old, None
                    yield INSERT, None, new
                else:
                    yield UPDATE, old, new

    def _of(self, oid: int, values: Tuple) -> dict[str, Any]:
        names = [column.name for column in self._relations[oid].columns]
        texts = [PLACEHOLDER if value is UNCHANGED else value for value in values]
        return self._row(names, texts)

    def _row(self, names: Any, texts: Any) -> dict[str, Any]:
        given = dict(zip(names, texts, strict=True))
        return {
            name: text if (text := given[name]) in {None, PLACEHOLDER} else self._values.get(name, str)(text)
            for name in self._events.columns.names
            if name in given
        }
