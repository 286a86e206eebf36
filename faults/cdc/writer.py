"""A process that writes to the table and never rests, unless a case lets it."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from typing import Any

import psycopg
from psycopg import errors

from faults.cdc.drawing import DrawnTable, a_table

Connection = psycopg.Connection[tuple[Any, ...]]

_REST_SECONDS = 0.004
"""Other processes need the machine, too."""

_EXPECTED = (
    errors.UniqueViolation,
    errors.LockNotAvailable,
    errors.DeadlockDetected,
    errors.QueryCanceled,
    errors.DuplicateColumn,
    errors.UndefinedColumn,
    errors.DuplicateObject,
    errors.ObjectInUse,
)
"""A transaction that fails for one of these was rolled back, which is a fault, too."""


@dataclass(slots=True)
class Writer:
    """
    Writes.

    :param connect: connects to the database.
    """

    table: DrawnTable
    chance: random.Random
    connect: Callable[[], Connection]
    main: Connection | None = None
    long: list[Connection] = field(default_factory=list)
    calm: bool = False
    transactions: int = 0
    truncate_next: bool = False

    def write(self) -> None:
        """Write a transaction, and now and then begin, continue or end a long one."""
        try:
            self._write()
        except _EXPECTED:
            pass
        except psycopg.OperationalError:
            # The server is down, or has ended the connection.
            self._forget()
            time.sleep(0.05)

    def fill(self) -> None:
        """Insert a row for every other number."""
        with self.connect() as connection:
            connection.execute("SET lock_timeout = 0")
            with connection.transaction():
                for number in range(0, self.table.numbers, 2):
                    connection.execute(self._upsert(number))

    def end(self) -> None:
        """End all transactions."""
        for connection in self.long:
            with contextlib.suppress(psycopg.Error):
                connection.commit()
            connection.close()
        self.long.clear()

    def _forget(self) -> None:
        for connection in [*self.long, *([self.main] if self.main else [])]:
            connection.close()
        self.long.clear()
        self.main = None

    def _write(self) -> None:
        if self.main is None:
            self.main = self.connect()
        self._long_ones()
        kind = self.chance.random()
        if kind < 0.01:
            self._ddl(self.main)
        elif kind < 0.02:
            self._large(self.main)
        elif kind < 0.024 and self.table.truncates:
            self._truncate(self.main)
        elif kind < 0.034:
            self._strange_message(self.main)
        else:
            self._small(self.main)
        self.transactions += 1

    def _long_ones(self) -> None:
        """Now and then begin, continue or end a transaction that stays open."""
        chance = self.chance
        if not self.calm and len(self.long) < 3 and chance.random() < 0.01:
            connection = self.connect()
            connection.autocommit = False
            self.long.append(connection)
        if self.long and chance.random() < 0.1:
            with contextlib.suppress(*_EXPECTED), (connection := chance.choice(self.long)).transaction():
                connection.execute(self._statement())
        if self.long and chance.random() < 0.006:
            connection = self.long.pop(chance.randrange(len(self.long)))
            try:
                (connection.commit if chance.random() < 0.7 else connection.rollback)()
            finally:
                connection.close()

    def _small(self, connection: Connection) -> None:
        """Write some rows, some of them below savepoints."""
        chance = self.chance
        with connection.transaction(force_rollback=chance.random() < 0.05):
            for _ in range(chance.choice([1, 1, 1, 2, 5, 12])):
                if chance.random() < 0.2:
                    with contextlib.suppress(*_EXPECTED), self._savepoint(connection):
                        connection.execute(self._statement())
                else:
                    connection.execute(self._statement())

    def _truncate(self, connection: Connection) -> None:
        with connection.transaction():
            connection.execute("TRUNCATE orders")
            for _ in range(self.chance.randrange(5)):
                connection.execute(self._statement())

    def _strange_message(self, connection: Connection) -> None:
        """Write a message that looks like a mark of the package, as whoever may connect can."""
        content = self.chance.choice([b"\xff\xfe", b"", b"begin", b"reading 0", self.chance.randbytes(40)])
        connection.execute("SELECT pg_logical_emit_message(true, 'airflow_backfill', %s)", [content])

    @contextmanager
    def _savepoint(self, connection: Connection) -> Iterator[None]:
        with connection.transaction(force_rollback=self.chance.random() < 0.4):
            yield

    def _statement(self) -> str:
        makers = [self._upsert] * 6 + [self._update] * 4 + [self._move_away] * 3 + [self._swap] + [self._delete] * 3
        makers += [self._replace]
        if not self.table.rewrites:
            makers += [self._update_many]
        return self.chance.choice(makers)(self.chance.randrange(self.table.numbers))

    def _update(self, number: int) -> str:
        table, chance = self.table, self.chance
        where = table.where(number)
        if table.rewrites:
            return f"UPDATE orders SET {self._all()} WHERE {where}"
        if chance.random() < 0.2:
            return f"UPDATE orders SET n = n, extra = 'y' WHERE {where}"
        index = chance.randrange(len(table.payload))
        value = table.payload[index].value(chance)
        name = table.payload_name(index)
        return f"UPDATE orders SET n = {chance.randint(-100, 100)}, {name} = {value} WHERE {where}"

    def _update_many(self, number: int) -> str:
        return f"UPDATE orders SET n = n + 1 WHERE n BETWEEN {number % 100} AND {number % 100 + 3}"

    def _delete(self, number: int) -> str:
        return f"DELETE FROM orders WHERE {self.table.where(number)}"

    def _replace(self, number: int) -> str:
        return f"{self._delete(number)}; {self._upsert(number)}"

    def _move_away(self, number: int) -> str:
        return self._move(number, self.chance.randrange(self.table.numbers))

    def _swap(self, number: int) -> str:
        """Swap two keys, by way of one that no other statement uses."""
        table, chance = self.table, self.chance
        other, spare = chance.randrange(table.numbers), table.numbers + chance.randrange(5)
        return ";".join([self._move(number, spare), self._move(other, number), self._move(spare, other)])

    def _values(self) -> list[str]:
        chance = self.chance
        n = "NULL" if chance.random() < 0.1 else str(chance.randint(-100, 100))
        return [n, *(kind.value(chance) for kind in self.table.payload)]

    def _all(self) -> str:
        names = self.table.names[len(self.table.key) :]
        return ", ".join(f"{name} = {value}" for name, value in zip(names, self._values(), strict=True))

    def _upsert(self, number: int) -> str:
        table = self.table
        names = table.names
        values = [*table.key_literals(number), *self._values()]
        replaced = ", ".join(f"{name} = excluded.{name}" for name in names[len(table.key) :])
        return (
            f"INSERT INTO orders ({', '.join(names)}) VALUES ({', '.join(values)}) "
            f"ON CONFLICT ({', '.join(table.key_names)}) DO UPDATE SET {replaced}"
        )

    def _move(self, number: int, to: int) -> str:
        table = self.table
        key = zip(table.key_names, table.key_literals(to), strict=True)
        assigned = ", ".join(f"{name} = {literal}" for name, literal in key)
        others = f", {self._all()}" if table.rewrites else ""
        return (
            f"UPDATE orders SET {assigned}{others} WHERE {table.where(number)} AND NOT EXISTS "
            f"(SELECT FROM orders WHERE {table.where(to)})"
        )

    def _large(self, connection: Connection) -> None:
        """Write many rows in a transaction."""
        with connection.transaction(force_rollback=self.chance.random() < 0.2):
            for _ in range(300):
                connection.execute(self._statement())

    def _ddl(self, connection: Connection) -> None:
        chance = self.chance
        number = chance.randrange(3)
        statements = [
            f"ALTER TABLE orders ADD more{number} integer DEFAULT 5",
            f"ALTER TABLE orders DROP more{number}",
            f"ALTER TABLE orders RENAME more{number} TO more{chance.randrange(3)}",
            f"ALTER TABLE orders ALTER more{number} TYPE text USING more{number}::text",
            f"ALTER TYPE mood ADD VALUE IF NOT EXISTS 'mood{number}'",
            "ANALYZE orders",
        ]
        if not self.table.partitioned:
            statements += ["VACUUM FULL orders", "VACUUM FREEZE orders"]
        connection.execute(chance.choice(statements))


class WriterProcess:
    """
    The writer in a process of its own.

    :param seed: the seed from which the table was drawn.
    :param database: libpq's parameters.
    """

    def __init__(self, seed: str, database: dict[str, str]) -> None:
        context = get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_run, args=(seed, database, other), daemon=True)
        self._process.start()

    def do(self, command: str) -> int:
        """Let it ``fill`` the table, ``write``, write ``calm``, or ``pause`` with no transaction open."""
        self._pipe.send(command)
        if not self._pipe.poll(120):
            raise AssertionError(f"the writer does not answer {command}")
        answer = self._pipe.recv()
        if isinstance(answer, str):
            raise AssertionError(answer)  # noqa: TRY004 - it tells of an error
        return int(answer)

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()


def _run(seed: str, database: dict[str, str], pipe: Pipe) -> None:
    def connect() -> Connection:
        connection = psycopg.connect(**database, autocommit=True, options="-c lock_timeout=60")  # type: ignore[arg-type]
        connection.execute("SET synchronous_commit = " + chance.choice(["on", "off"]))
        return connection

    table = a_table(random.Random(seed))
    chance = random.Random(f"{seed}/writer")
    writer = Writer(table, chance, connect)
    rests = True
    parent = os.getppid()
    while os.getppid() == parent:
        if rests or pipe.poll():
            command = pipe.recv()
            try:
                rests = command in {"pause", "fill"}
                writer.calm = command == "calm"
                if command != "write":
                    writer.end()
                if command == "fill":
                    writer.fill()
            except Exception as error:  # noqa: BLE001 - told to the case
                pipe.send(repr(error))
                continue
            pipe.send(writer.transactions)
        if not rests:
            try:
                writer.write()
            except Exception as error:  # noqa: BLE001 - told to the case
                pipe.recv()
                pipe.send(repr(error))
                return
            time.sleep(_REST_SECONDS)
