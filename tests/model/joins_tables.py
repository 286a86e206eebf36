"""
The upstreams of a join: tables on one clock, each with versions of its own, time travel and a change feed.

At each instant some of the tables commit. A table may rest for long, be emptied or be replaced as a whole. Keys are
declared, but nobody enforces them: a table may have a key twice until its owner corrects that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

LENGTH = 14
"""So many instants pass. One more is left, for corrections."""


class Record(NamedTuple):
    """A row of an upstream. All columns but the key are nullable."""

    key: int
    first: int | None = None
    """A reference to another table."""
    second: int | None = None
    code: int | None = None
    """A column by which others may refer to the row though it is not the key."""
    label: str | None = None
    number: int | None = None


class Signed(NamedTuple):
    """A row of a change feed: what an instant's commit removed, or what it wrote."""

    instant: int
    writes: bool
    record: Record


@dataclass(frozen=True, slots=True)
class Columns:
    """What the columns of a table may have. Some references have no row."""

    keys: range
    first: tuple[int | None, ...] = (None,)
    second: tuple[int | None, ...] = (None,)
    is_code_unique: bool = False

    def record(self, random: Random, key: int) -> Record:
        """Return a random row."""
        code = None if self.is_code_unique else random.choice((None, 0, 1, 2))
        label, number = random.choice((None, "a", "b", "c")), random.choice((None, -1, 0, 1, 2, 3))
        return Record(key, random.choice(self.first), random.choice(self.second), code, label, number)


COLUMNS = {
    "orders": Columns(range(6), first=(None, 0, 1, 2, 3), second=(None, 0, 1, 2)),
    "archive": Columns(range(6), first=(None, 0, 1, 2, 3), second=(None, 0, 1, 2)),
    "customers": Columns(range(4), first=(None, 0, 1, 2), second=(None, 0, 1, 2), is_code_unique=True),
    "countries": Columns(range(3), first=(None, 0, 1)),
    "products": Columns(range(3), first=(None, 0, 1, 2), second=(None, 0, 1)),
    "lines": Columns(range(6), first=(None, *range(6)), second=(None, 0, 1, 2)),
    "parcels": Columns(range(4), first=(None, *range(6))),
    "staff": Columns(range(6), first=(None, *range(6))),
}
"""Orders refer to customers and products, both of them to countries; lines to orders and products; staff to staff."""


class Table:
    """A table: its rows at each instant, and its feed. Rows are a bag, because a key may be there twice."""

    def __init__(self, rows: Iterable[Record] = ()) -> None:
        self._versions: list[tuple[int, tuple[Record, ...]]] = [(0, tuple(rows))]
        self._feed: list[Signed] = []

    @property
    def commits(self) -> list[int]:
        """The instants of the table's commits."""
        return [instant for instant, _ in self._versions]

    def at(self, instant: int) -> tuple[Record, ...]:
        """Return the rows of the last commit at or before an instant."""
        return next(rows for then, rows in reversed(self._versions) if then <= instant)

    def changes(self, after: int, up_to: int) -> list[Signed]:
        """Return the feed of ``(after, up_to]``; within a commit removals come first."""
        return [change for change in self._feed if after < change.instant <= up_to]

    def commit(self, instant: int, rows: Iterable[Record]) -> None:
        """Commit new rows. A row that stays as it is leaves nothing in the feed."""
        rows = tuple(rows)
        old, new = Counter(self.at(instant)), Counter(rows)
        self._feed += [Signed(instant, False, record) for record in (old - new).elements()]
        self._feed += [Signed(instant, True, record) for record in (new - old).elements()]
        self._versions.append((instant, rows))

    def doubles(self, instant: int) -> set[int]:
        """Return the keys that are there more than once."""
        keys = Counter(record.key for record in self.at(instant))
        return {key for key, times in keys.items() if times > 1}


World = Mapping[str, Table]
"""The tables of a query by name."""


def a_world(random: Random, names: Iterable[str], *, doubled: Iterable[str] = (), length: int = LENGTH) -> World:
    """Return random tables; some of them have a key twice now and then."""
    names, doubled = sorted(names), set(doubled)
    world = {name: Table(_initial(random, COLUMNS[name])) for name in names}
    resting = random.choice(names) if random.random() < 0.3 else None
    for instant in range(1, length + 1):
        if random.random() < 0.1:
            continue
        for name in random.sample(names, 2 if len(names) > 1 and random.random() < 0.4 else 1):
            if name != resting or instant in (1, length):
                table = world[name]
                rows = _written(random, COLUMNS[name], table.at(instant), may_double=name in doubled)
                table.commit(instant, rows)
    for name in doubled:  # in the end all of it is corrected
        if world[name].doubles(length):
            world[name].commit(length + 1, {record.key: record for record in world[name].at(length)}.values())
    return world


def _initial(random: Random, columns: Columns) -> list[Record]:
    if random.random() < 0.1:
        return []
    keys = random.sample(columns.keys, random.randint(1, len(columns.keys)))
    return _with_codes(random, columns, [columns.record(random, key) for key in keys])


def _written(random: Random, columns: Columns, rows: Iterable[Record], *, may_double: bool) -> list[Record]:
    """Return the rows after a commit: an emptied table, a replaced one, one that is corrected, or a changed one."""
    by_key = {record.key: record for record in rows}
    doubles = [record for record in rows if by_key[record.key] is not record]
    chance = random.random()
    if chance < 0.04:
        return []
    if chance < 0.08:
        return _with_codes(random, columns, [columns.record(random, key) for key in columns.keys])
    if doubles and chance < 0.6:  # the owner removes one of the two
        return random.choice(([*by_key.values()], [*{**by_key, doubles[0].key: doubles[0]}.values()]))
    _change(random, columns, by_key)
    written = _with_codes(random, columns, list(by_key.values()))
    doubles = [record for record in doubles if record.key in by_key]
    if may_double and not doubles and by_key and random.random() < 0.15:
        doubles = [columns.record(random, random.choice(list(by_key)))]
    return written + doubles


def _change(random: Random, columns: Columns, rows: dict[int, Record]) -> None:
    """Make up to three statements, each on keys of its own."""
    here, free = list(rows), [key for key in columns.keys if key not in rows]
    random.shuffle(here)
    random.shuffle(free)
    for _ in range(random.randint(1, 3)):
        statement = random.choice(("insert", "insert", "update", "update", "refer", "delete", "rekey", "swap"))
        if statement == "insert" and free:
            key = free.pop()
            rows[key] = columns.record(random, key)
        elif statement == "swap" and len(here) > 1:
            one, other = here.pop(), here.pop()
            rows[one], rows[other] = rows[other]._replace(key=one), rows[one]._replace(key=other)
        elif statement == "rekey" and here and free:
            key = free.pop()
            rows[key] = rows.pop(here.pop())._replace(key=key)
        elif statement == "delete" and here:
            del rows[here.pop()]
        elif statement in {"update", "refer"} and here:
            key = here.pop()
            new = columns.record(random, key)
            rows[key] = new if statement == "update" else rows[key]._replace(first=new.first)


def _with_codes(random: Random, columns: Columns, rows: list[Record]) -> list[Record]:
    """Give codes that no two rows share. Any commit may move them from row to row."""
    if not columns.is_code_unique:
        return rows
    turn = random.choice((0, 0, 1, 2))
    return [
        record._replace(code=(record.key + turn) % len(columns.keys) if random.random() < 0.8 else None)
        for record in rows
    ]
