"""The expected rows, as plain Python values, and their changes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from faults.shapes.case import Case, Column
from faults.shapes.values import a_value, arrow_type

Row = tuple[Any, ...]
"""A value for each column that writers write."""

_MOST_TRIES = 400


@dataclass(frozen=True, slots=True)
class Change:
    """
    One version of the upstream.

    :param before: all rows before it.
    :param after: all rows after it.
    :param pairs: the changed rows as (old, new); one of both may be ``None``.
    """

    before: tuple[Row, ...]
    after: tuple[Row, ...]
    pairs: tuple[tuple[Row | None, Row | None], ...]

    @property
    def added(self) -> tuple[Row, ...]:
        """The new rows, if there are no other changes."""
        return () if any(old is not None for old, _ in self.pairs) else tuple(new for _, new in self.pairs if new)


def drawn_value(random: random.Random, column: Column) -> Any:
    """Return any value of a column; never null."""
    return a_value(random, column.type, few=column.few)


class Rows:
    """
    Draws the rows and changes of one case; equal seeds give equal ones.

    :param case: the case with the columns and the key.
    :param value: draws a value of a column that is not null.
    """

    def __init__(self, case: Case, value: Callable[[random.Random, Column], Any] = drawn_value) -> None:
        self._random = random.Random(case.rows_seed)
        self._columns = case.written
        self._key = case.key_indices
        self._seen: set[str] = set()
        self._drawn = value

    def begin(self, count: int) -> tuple[Row, ...]:
        """Return the first rows; fewer than requested if the key's type has too few values."""
        return tuple(self._new(count))

    def change(self, kind: str, before: tuple[Row, ...]) -> Change:
        """Return a change of some rows."""
        rows = list(before)
        count = min(len(rows), self._random.randint(1, 6))
        chosen = sorted(self._random.sample(range(len(rows)), count))
        pairs: list[tuple[Row | None, Row | None]] = []
        kinds = (
            [kind] * count if kind != "mixture" else [self._random.choice(("update", "delete", "move")) for _ in chosen]
        )
        if kind == "swap":
            pairs = self._swapped([rows[i] for i in chosen])
        elif kind not in {"append", "rewrite"}:
            pairs = [self._changed(one, rows[i]) for one, i in zip(kinds, chosen, strict=True)]
        if kind in {"append", "mixture"}:
            pairs += [(None, new) for new in self._new(self._random.randint(1, 6))]
        gone = [old for old, _ in pairs if old is not None]
        kept = [row for row in rows if not any(row is old for old in gone)]
        return Change(before, (*kept, *(new for _, new in pairs if new is not None)), tuple(pairs))

    def _changed(self, kind: str, old: Row) -> tuple[Row, Row | None]:
        if kind == "delete":
            return old, None
        new = self._row()
        if kind == "move" and (moved := self._new(1)):
            return old, moved[0]
        return old, tuple(old[i] if i in self._key else value for i, value in enumerate(new))

    def _swapped(self, chosen: Sequence[Row]) -> list[tuple[Row | None, Row | None]]:
        """Give each row the key of the next one."""
        others = [*chosen[1:], *chosen[:1]]
        return [
            (old, tuple(other[i] if i in self._key else value for i, value in enumerate(old)))
            for old, other in zip(chosen, others, strict=True)
        ]

    def _new(self, count: int) -> list[Row]:
        """Return rows with new keys."""
        found: list[Row] = []
        for _ in range(_MOST_TRIES):
            if len(found) == count:
                break
            row = self._row()
            key = repr([row[i] for i in self._key])
            if key not in self._seen:
                self._seen.add(key)
                found.append(row)
        return found

    def _row(self) -> Row:
        return tuple(
            self._value(column, nulls=0.03 if i in self._key else 0.12) for i, column in enumerate(self._columns)
        )

    def _value(self, column: Column, *, nulls: float) -> Any:
        if self._random.random() < nulls and not column.is_required:
            return None
        return self._drawn(self._random, column)


def as_arrow(columns: Sequence[Column], rows: Sequence[Row], names: Sequence[str] = ()) -> pa.Table:
    """Return rows as a table, with the columns' names or other ones."""
    names = names or [column.name for column in columns]
    arrays = [pa.array([row[i] for row in rows], arrow_type(column.type)) for i, column in enumerate(columns)]
    return pa.Table.from_arrays(arrays, names=list(names))
