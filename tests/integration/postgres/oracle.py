"""
The classical cdc executor of the model, on a real table: the oracle for random histories.

It reads its chunks with queries of its own, and the changes from a slot of its own with another output plugin than the
package uses. So it shares nothing with the package.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from psycopg import sql

from tests.integration.postgres.shop import Shop
from tests.model.cdc_classical import CdcCheckpoint, CdcExecutor, Event
from tests.model.truth import Query
from tests.model.upstream import Change, ChangeType, KeyOrder, as_stream
from tests.strategies import Barrier, Key, KeyColumn, Row

SLOT = "oracle"

_COLUMN = re.compile(r"(?P<name>\w+)\[[^\]]+\]:(?:'(?P<quoted>(?:[^']|'')*)'|(?P<plain>\S+))")


class Oracle:
    """
    The executor over ``orders (region text, id int, name text, price numeric)``.

    :param seed: decides how far the stream lags behind, and when the executor dies.
    """

    def __init__(self, shop: Shop, query: Query, seed: int) -> None:
        self.order = KeyOrder([KeyColumn("region", "string"), KeyColumn("id", "integer")])
        self._shop = shop
        self._query = query
        self._chance = random.Random(seed)
        self._stream: list[list[Event]] = []
        self._delivered = 0
        self._settings = Barrier(rate_limit=7)
        name = sql.Literal(f"{SLOT}_{shop.database.info.dbname}")
        shop.database.execute(sql.SQL("SELECT pg_create_logical_replication_slot({}, 'test_decoding')").format(name))
        self._changes = sql.SQL("SELECT lsn - '0/0', data FROM pg_logical_slot_get_changes({}, NULL, NULL)").format(
            name
        )
        self._checkpoint = CdcCheckpoint()
        self._executor = self._recovered()

    # ------------------------------------------------------------------------------ the table, for the executor

    def rows_after(self, position: Key | None, most: int) -> list[Row]:
        """Return the first present rows after a position."""
        after = "" if position is None else 'WHERE (region COLLATE "C", id) > (%s COLLATE "C", %s)'
        found = self._shop.database.execute(
            f'SELECT region, id, name, price FROM orders {after} ORDER BY region COLLATE "C", id LIMIT {most}',
            position or (),
        )
        return [Row((region, id_), name, price) for region, id_, name, price in found]

    def current_offset(self) -> int:
        """Return the position of the log."""
        return int(self._shop.table("SELECT pg_current_wal_insert_lsn() - '0/0'")[0][0])

    # --------------------------------------------------------------------------------------------- what happens

    def go_on(self) -> None:
        """Let the executor read some rows, get some of the stream, end an epoch, or die."""
        kind = self._chance.random()
        if kind < 0.4:
            self._executor.poll_snapshot(self._chance.choice([1, 3]))
        elif kind < 0.7:
            self._deliver(self._chance.randrange(6))
        elif kind < 0.95:
            self._checkpoint = self._executor.on_barrier(self._settings)
        else:
            self._executor = self._recovered()

    def finished(self) -> list[tuple[Any, ...]]:
        """Let the executor finish and catch up; return the rows of its view."""
        while not self._checkpoint.state.finished:
            self._checkpoint = self._executor.on_barrier(self._settings)
        self._fetch()
        self._deliver(len(self._stream))
        view = self._executor.on_barrier(self._settings).view
        return sorted((*key, *output) for key, output in view.items())

    def _recovered(self) -> CdcExecutor:
        """Begin a life of the executor from the checkpoint, whose offset counts transactions of the stream."""
        self._delivered = self._checkpoint.offset
        return CdcExecutor(self, self._query, self._checkpoint, self._settings)

    def _deliver(self, most: int) -> None:
        self._fetch()
        for transaction in self._stream[self._delivered : self._delivered + most]:
            self._delivered += 1
            self._executor.on_chunk(transaction, self._delivered)

    def _fetch(self) -> None:
        changes: list[Change] = []
        for lsn, data in self._shop.database.execute(self._changes):
            if data.startswith("COMMIT"):
                self._stream.append([Event(int(lsn), change) for change in changes])
                changes = []
            elif data.startswith("table public.orders: "):
                changes += _parsed(data.removeprefix("table public.orders: "), number=len(changes))


def _parsed(line: str, number: int) -> Iterator[Change]:
    """Yield the changes of a line; the statements of a transaction have one order."""
    kind, _, values = line.partition(": ")
    if kind == "UPDATE":
        old, _, new = values.removeprefix("old-key: ").partition(" new-tuple: ")
        yield from as_stream(
            [
                Change(number, ChangeType.UPDATE_PREIMAGE, _row(old)),
                Change(number, ChangeType.UPDATE_POSTIMAGE, _row(new)),
            ]
        )
    else:
        yield Change(number, ChangeType.INSERT if kind == "INSERT" else ChangeType.DELETE, _row(values))


def _row(text: str) -> Row:
    values = {
        found["name"]: found["plain"] if found["quoted"] is None else found["quoted"].replace("''", "'")
        for found in _COLUMN.finditer(text)
    }
    return Row((values["region"], int(values["id"])), values["name"], Decimal(values["price"]))
