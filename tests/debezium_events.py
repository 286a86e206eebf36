"""A table of Debezium's events, as a connector and whoever lands its topic leave it in the lake."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

COLUMNS = pa.schema(
    [("region", pa.string()), ("id", pa.int64()), ("name", pa.string()), ("price", pa.decimal128(9, 2))]
)
KEY = ("region", "id")
MOST = 40

READ, INSERT, UPDATE, DELETE, TRUNCATE = "r", "c", "u", "d", "t"

Row = Mapping[str, Any]
Key = tuple[Any, ...]


@dataclass(frozen=True, kw_only=True)
class Event:
    """
    An event.

    :param lsn: the position of the change.
    :param before: the row before, or its key columns.
    """

    kind: str | None
    lsn: int | None
    before: Row | None = None
    after: Row | None = None
    transaction: int = 0
    time: int = 0


@dataclass(frozen=True)
class EventTable:
    """
    A table of events.

    :param path: its location.
    :param columns: the columns of the database's table.
    :param key: the key columns.
    """

    path: str
    columns: pa.Schema
    key: Sequence[str]
    landed: list[Event] = field(default_factory=list, compare=False)

    def create(self) -> None:
        DeltaTable.create(
            self.path, schema=self._schema, mode="error", configuration={"delta.enableChangeDataFeed": "true"}
        )

    def land(self, *events: Event) -> None:
        """Append events in one commit, in this order."""
        self.landed.extend(events)
        rows = pa.Table.from_pylist([self._stored(event) for event in events], self._schema)
        write_deltalake(self.path, rows, mode="append")

    @property
    def _schema(self) -> pa.Schema:
        row = pa.struct(list(self.columns))
        source = pa.struct(
            [
                pa.field("lsn", pa.int64()),
                pa.field("txId", pa.int64()),
                pa.field("ts_ms", pa.int64()),
                pa.field("table", pa.string()),
            ]
        )
        return pa.schema(
            [
                pa.field("op", pa.string()),
                pa.field("before", row),
                pa.field("after", row),
                pa.field("source", source),
                pa.field("ts_ms", pa.int64()),
            ]
        )

    def _stored(self, event: Event) -> dict[str, Any]:
        return {
            "op": event.kind,
            "before": event.before,
            "after": event.after,
            "source": {"lsn": event.lsn, "txId": event.transaction, "ts_ms": event.time, "table": "orders"},
            "ts_ms": event.time,
        }

    def rows(self) -> dict[Key, Row]:
        """Return the rows that the landed events leave, in whatever order they came."""
        return rows_of(self.landed, self.key)


class FlattenedEventTable(EventTable):
    """A table of events that Debezium's transform flattened."""

    @property
    def _schema(self) -> pa.Schema:
        added = [("__op", pa.string()), ("__lsn", pa.int64()), ("__txId", pa.int64()), ("__source_ts_ms", pa.int64())]
        return pa.schema(
            [*self.columns, *(pa.field(name, kind) for name, kind in added), pa.field("__deleted", pa.string())]
        )

    def _stored(self, event: Event) -> dict[str, Any]:
        row = event.before if event.kind == DELETE else event.after
        return {
            **dict.fromkeys(self.columns.names),
            **(row or {}),
            "__op": event.kind,
            "__lsn": event.lsn,
            "__txId": event.transaction,
            "__source_ts_ms": event.time,
            "__deleted": json.dumps(event.kind == DELETE),
        }


def rows_of(events: Iterable[Event], key: Sequence[str]) -> dict[Key, Row]:
    """Return the rows that events leave, by the order of their positions."""
    rows: dict[Key, Row] = {}
    for event in sorted(events, key=lambda event: (event.lsn or 0, {READ: 0, DELETE: 1}.get(event.kind or "", 2))):
        if event.kind == TRUNCATE:
            rows.clear()
            continue
        row = event.before if event.kind == DELETE else event.after
        assert row is not None
        at = tuple(row[name] for name in key)
        if event.kind == DELETE:
            rows.pop(at, None)
        else:
            rows[at] = row
    return rows


def row(id_: int, name: str | None = "n", price: str = "1.00", region: str = "e") -> dict[str, Any]:
    return {"region": region, "id": id_, "name": name, "price": Decimal(price)}


def texts(rows: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(found[name] for name in COLUMNS.names) for found in rows)


class History:
    """
    Random changes of a table, as events.

    :param seed: decides on everything.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.lsn = 100
        self.rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        self.waiting: list[Event] = []
        self.all: list[Event] = []

    def begin(self, table: EventTable) -> None:
        """Fill the table, and land a snapshot of it."""
        for _ in range(60):
            self.change()
        self.waiting.clear()
        self.all.clear()
        table.land(*(Event(kind=READ, lsn=self.lsn, after=found) for found in self.rows.values()))

    def change(self) -> None:
        """Make one change, whose events wait to be landed."""
        chance = self.chance
        self.lsn += chance.randrange(1, 9)
        number = chance.randrange(MOST)
        at = ("EeéZ-"[number % 5], number // 5 - 4)
        new = row(at[1], chance.choice(["a", "", None, "ü' \\"]), f"{chance.randrange(1000)}.50", at[0])
        kind = chance.random()
        if kind < 0.02:
            self.rows.clear()
            self._note(Event(kind=TRUNCATE, lsn=self.lsn))
        elif at not in self.rows:
            self._note(Event(kind=INSERT, lsn=self.lsn, after=new))
            self.rows[at] = new
        elif kind < 0.6:
            self._note(Event(kind=UPDATE, lsn=self.lsn, before=self.rows[at], after=new))
            self.rows[at] = new
        else:
            old = self.rows.pop(at)
            self._note(Event(kind=DELETE, lsn=self.lsn, before=old))
            moved = ("EeéZ-"[chance.randrange(5)], at[1])
            if kind > 0.85 and moved not in self.rows:
                # Debezium writes a changed key as a delete and an insert.
                self.rows[moved] = {**old, "region": moved[0]}
                self._note(Event(kind=INSERT, lsn=self.lsn, after=self.rows[moved]))

    def _note(self, event: Event) -> None:
        self.waiting.append(event)
        self.all.append(event)

    def batch(self) -> list[Event]:
        """Return some events that were not landed, in any order, and some that were landed before."""
        count = self.chance.randrange(len(self.waiting) + 1)
        chosen = self.waiting[:count]
        # Of several partitions of a topic, each is in order.
        late = [event for event in chosen if self.chance.random() < 0.2]
        self.waiting = [*late, *self.waiting[count:]]
        chosen = [event for event in chosen if event not in late]
        repeated = self.chance.sample(self.all, min(len(self.all), self.chance.randrange(4)))
        batch = [*chosen, *(event for event in repeated if event not in self.waiting)]
        self.chance.shuffle(batch)
        return batch
