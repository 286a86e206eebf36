"""Tables that can be joined: keys and references whose values repeat across all of them, nulls, and odd names."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from faults.groups.expressions import kind_of
from faults.groups.tables import TEXTS, small_value
from faults.shapes.case import Case, Column

NAMES = ("orders", "Customers", "countries", "lines", "items_2", "_events", "user", "day")
"""Names of tables, as the query reads them without quotes."""

TYPES: Mapping[str, tuple[str, ...]] = {
    "number": ("long", "long", "integer", "short"),
    "mixed": ("long", "integer", "double"),
    "text": ("string",),
    "decimal": ("decimal(12,2)", "decimal(12,2)", "decimal(10,4)"),
    "day": ("date",),
    "moment": ("timestamp",),
    "binary": ("binary",),
}
"""Types of the columns that rows are joined by. A case has those of one line or two."""

_REFERENCES = ("ref", "Owner", "code", "kind", "größe", "x", "y", "shop")
_VALUES = ("amount", "name", "at", "v", "note", "Size", "place")
_VALUE_TYPES = (
    *("integer", "integer", "long", "string", "string", "decimal(12,2)", "date", "boolean", "double", "timestamp"),
    *("binary", "decimal(38,10)"),
)
_NOT_NULL = "NOT NULL"
_FEW_ROWS, _MOST_ROWS = 6, 24
_KEYS, _FEW_VALUES = 26, 6
_DAY = dt.date(2024, 2, 20)

_POOLS: Mapping[str, Sequence[Any]] = {
    "long": range(-2, _KEYS),
    "integer": range(-2, _KEYS),
    "short": range(-2, _KEYS),
    "double": (*map(float, range(12)), -0.0, float("nan")),
    "string": TEXTS,
    "decimal(12,2)": tuple(Decimal(number).scaleb(-1) for number in range(-3, _KEYS)),
    "decimal(10,4)": tuple(Decimal(number).scaleb(-1) for number in range(-3, _KEYS)),
    "date": tuple(_DAY + dt.timedelta(days=days) for days in range(_KEYS)),
    "timestamp": tuple(
        dt.datetime(2024, 3, 31, 0, 59, 59, 999_999, dt.UTC) + dt.timedelta(microseconds=step) for step in range(_KEYS)
    ),
    "binary": (b"", *(bytes([one]) for one in range(0, 250, 10)), b"\x00\x00"),
}
"""The values of the columns that rows are joined by, those that are found most often first."""


@dataclass(frozen=True, slots=True)
class JoinedTable:
    """
    A table.

    :param name: its name in queries.
    :param keys: the columns of its key.
    :param references: other columns that rows are joined by.
    :param values: its other columns.
    :param upstream: the table's definition and its first rows; a case of one job, without that job and its epochs.
    """

    name: str
    keys: tuple[Column, ...]
    references: tuple[Column, ...]
    values: tuple[Column, ...]
    upstream: Case

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns, in the order of the table."""
        return self.upstream.columns

    @property
    def joinable(self) -> tuple[Column, ...]:
        """The columns that rows can be joined by."""
        return (*self.keys, *self.references)


def some_tables(random: random.Random) -> tuple[JoinedTable, ...]:
    """Return two to five tables; the first one has the most rows."""
    kinds = [random.choice([kind for kind in TYPES if kind != "mixed"]), random.choice(("number", "number", "text"))]
    if random.random() < 0.1:
        kinds = ["mixed"]
    names = random.sample(NAMES, random.choice((2, 2, 3, 3, 4, 5)))
    return tuple(_table(random, name, kinds, is_first=name == names[0]) for name in names)


def _table(random: random.Random, name: str, kinds: Sequence[str], *, is_first: bool) -> JoinedTable:
    writer = random.choice(("delta-rs", "spark", "spark"))
    keys = tuple(_keys(random, kinds))
    referenced = random.sample(_REFERENCES, random.randint(2, 3))
    references = tuple(Column(name=one, type=_type(random, kinds)) for one in referenced)
    if writer == "spark":
        keys, references = (tuple(_required(random, one) for one in columns) for columns in (keys, references))
    valued = random.sample(_VALUES, random.randint(2, 3))
    values = tuple(Column(name=one, type=random.choice(_VALUE_TYPES)) for one in valued)
    columns = [*keys, *references, *values]
    random.shuffle(columns)
    upstream = Case(
        rows_seed=random.randrange(10**9),
        writer=writer,
        columns=tuple(columns),
        key=tuple((column.name, False) for column in keys),
        rows=random.randint(0 if random.random() < 0.1 else _FEW_ROWS, _MOST_ROWS * (2 if is_first else 1)),
        files=random.randint(1, 3),
        properties=random.choice(({}, {"delta.enableDeletionVectors": "true"})) if writer == "spark" else {},
    )
    return JoinedTable(name, keys, references, values, upstream)


def _keys(random: random.Random, kinds: Sequence[str]) -> Iterator[Column]:
    for name in ("id", "part", "sub")[: random.choice((1, 1, 1, 2, 2, 3))]:
        # A floating-point number is no key, and a key has to have many values.
        kind = _type(random, kinds)
        yield Column(name=name, type="long" if kind == "double" else kind)


def _type(random: random.Random, kinds: Sequence[str]) -> str:
    return random.choice(TYPES[random.choice(kinds)])


def _required(random: random.Random, column: Column) -> Column:
    return replace(column, clause=_NOT_NULL) if random.random() < 0.3 else column


def are_comparable(one: Column, other: Column) -> bool:
    """Return whether two columns can be joined by; their types may differ."""
    kinds = {kind_of(one), kind_of(other)}
    return len(kinds) == 1 or kinds == {"number", "floating"}


def values_of(table: JoinedTable) -> Callable[[random.Random, Column], Any]:
    """Return a function that draws the value of a column: a key's first column has many, the others mostly few."""
    first, joinable = table.keys[0].name, {column.name for column in table.joinable}

    def draw(random: random.Random, column: Column) -> Any:
        if column.name not in joinable:
            return small_value(random, column.type)
        pool = _POOLS[column.type]
        most = len(pool) if column.name == first or random.random() < 0.1 else _FEW_VALUES
        return pool[min(random.randrange(most), random.randrange(most))]

    return draw
