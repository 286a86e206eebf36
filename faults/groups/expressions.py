"""Expressions of queries of groups, by the types of columns: what to group by, conditions, aggregates, windows."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from faults.groups.words import Words
from faults.shapes.case import Column

_PLAIN = re.compile(r"[a-z_]\w*", re.ASCII)
_RESERVED = frozenset({"order", "group", "over", "filter", "window", "rows", "count", "rank", "first", "value"})


@dataclass(frozen=True, slots=True)
class Expression:
    """
    An expression, and the kind of its values.

    :param text: its text in SQL.
    :param kind: the kind of its values, see :func:`kind_of`.
    """

    text: str
    kind: str


def kind_of(column: Column) -> str:
    """Return the kind of a column's values: ``number``, ``decimal``, ``floating``, ``text``, ``day``, ``moment`` …"""
    name = column.type.partition("(")[0]
    return {
        **dict.fromkeys(("byte", "short", "integer", "long"), "number"),
        **dict.fromkeys(("float", "double"), "floating"),
        **dict.fromkeys(("timestamp", "timestamp_ntz"), "moment"),
        "string": "text",
        "date": "day",
    }.get(name, name)


def named(random: random.Random, name: str, relation: str = "") -> str:
    """Return a column's name, quoted where it has to be and at times elsewhere, and at times with its relation."""
    is_plain = _PLAIN.fullmatch(name) and name not in _RESERVED
    text = name if is_plain and random.random() < 0.7 else f"`{name}`"
    return f"{relation}.{text}" if relation and random.random() < 0.5 else text


_FILTERED = re.compile(r"^[a-z_]+\([^()]*\)$")


class Expressions:
    """
    Draws expressions over the columns of a relation.

    :param random: the case's random generator.
    :param columns: the relation's columns.
    :param key: the columns that identify a row.
    :param words: the functions and operators.
    :param relation: the relation's name, with which columns may be qualified.
    """

    def __init__(
        self, random: random.Random, columns: Sequence[Column], key: Sequence[str], words: Words, relation: str = ""
    ) -> None:
        self.random = random
        self.words = words
        self.columns = tuple(columns)
        self.relation = relation
        self._key = tuple(key)

    def column(self, column: Column) -> Expression:
        """Return a plain column."""
        return Expression(named(self.random, column.name, self.relation), kind_of(column))

    def to_group_by(self, column: Column) -> Expression:
        """Return an expression that can tell groups apart."""
        plain = self.column(column)
        if plain.kind != "floating" and self.random.random() < 0.6:
            return plain
        text, kind = self.random.choice(self.words.keys[plain.kind])
        return Expression(text.format(c=plain.text), kind)

    def condition(self) -> str:
        """Return a condition on a row."""
        column = self.column(self.random.choice(self.columns))
        text = self.random.choice((*self.words.conditions[column.kind], "{c} IS NOT NULL")).format(c=column.text)
        match self.random.randrange(8):
            case 0:
                return f"({text} OR {self.condition()})"
            case 1:
                return f"{text} AND {self.condition()}"
            case _:
                return text

    def aggregate(self, columns: Sequence[Column]) -> str:
        """Return an aggregate of one of some columns, or of the rows."""
        call = self.call(columns)
        if _FILTERED.match(call) and self.random.random() < 0.25:
            call = f"{call} FILTER (WHERE {self.condition()})"
        return self.random.choice(self.words.of_aggregates).format(a=call)

    def call(self, columns: Sequence[Column]) -> str:
        """Return a call of an aggregate."""
        if self.random.random() < 0.15:
            return "count(*)"
        column, other = self.column(self.random.choice(columns)), self.column(self.random.choice(columns))
        text = self.random.choice(self.words.aggregates[column.kind])
        return text.format(c=column.text, d=other.text, key=self.key())

    def key(self) -> str:
        """Return the columns that identify a row, as a list."""
        return ", ".join(named(self.random, name, self.relation) for name in self._key)

    def window(self, partition: str, columns: Sequence[Column]) -> str:
        """Return a window function over a window that is divided by some expressions."""
        column = self.column(self.random.choice(columns))
        make: Callable[[str, Expression], str] = self.random.choice(
            (self._ranked, self._numbered, self._numbered, self._whole, self._running, self._framed)
        )
        return make(partition, column)

    def rank(self, partition: str, columns: Sequence[Column]) -> str:
        """Return a function that ranks the rows of a window."""
        column = self.column(self.random.choice(columns))
        return self.random.choice((self._ranked, self._first_ones))(partition, column)

    def _ranked(self, partition: str, column: Expression) -> str:
        call = self.random.choice(("rank()", "dense_rank()"))
        return f"{call} OVER (PARTITION BY {partition} ORDER BY {column.text}{self._direction()})"

    def _first_ones(self, partition: str, column: Expression) -> str:
        return f"row_number() OVER (PARTITION BY {partition} ORDER BY {self._total_order(column)})"

    def _numbered(self, partition: str, column: Expression) -> str:
        calls = ("row_number()", "lag({c})", "lead({c}, 2)", "ntile(2)", "first_value({c})", "nth_value({c}, 2)")
        call = self.random.choice(calls).format(c=column.text)
        return f"{call} OVER (PARTITION BY {partition} ORDER BY {self._total_order(column)})"

    def _whole(self, partition: str, column: Expression) -> str:
        return f"{self._of_window(column)} OVER (PARTITION BY {partition})"

    def _running(self, partition: str, column: Expression) -> str:
        over = f"PARTITION BY {partition} ORDER BY {column.text}{self._direction()}"
        return f"{self._of_window(column)} OVER ({over})"

    def _framed(self, partition: str, column: Expression) -> str:
        frame = self.random.choice(
            (
                "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
                "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING",
                "ROWS 2 PRECEDING",
            )
        )
        over = f"PARTITION BY {partition} ORDER BY {self._total_order(column)} {frame}"
        return f"{self._of_window(column)} OVER ({over})"

    def _of_window(self, column: Expression) -> str:
        calls = ["count(*)", "count({c})", "min({c})", "max({c})"]
        if column.kind in {"number", "decimal", "floating"}:
            calls += ["sum({c})", "avg({c})"]
        return self.random.choice(calls).format(c=column.text)

    def _total_order(self, column: Expression) -> str:
        return f"{column.text}{self._direction()}, {self.key()}"

    def _direction(self) -> str:
        return self.random.choice(("", "", " DESC", " NULLS LAST", " DESC NULLS FIRST"))
