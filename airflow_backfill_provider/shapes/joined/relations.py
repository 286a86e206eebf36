"""What is known of the upstreams' tables: their columns and their keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

_INTEGERS = frozenset({"BYTE", "TINYINT", "SHORT", "SMALLINT", "INT", "INTEGER", "LONG", "BIGINT"})


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """
    A column of a table.

    :param name: its name.
    :param type: its type, as Spark writes it.
    :param nullable: whether it may be null.
    """

    name: str
    type: str = ""
    nullable: bool = True


@dataclass(frozen=True)
class Relation:
    """
    The table of an upstream.

    :param name: its name in the query.
    :param columns: its columns, in order.
    :param key: the columns of its key.
    """

    name: str
    columns: tuple[RelationColumn, ...]
    key: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns, in order."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def by_name(self) -> Mapping[str, RelationColumn]:
        """Its columns by name in lower case."""
        return {column.name.lower(): column for column in self.columns}

    def column(self, name: str) -> str | None:
        """Return a column's own spelling of a name; ``None`` if there is no such column."""
        found = self.by_name.get(name.lower())
        return None if found is None else found.name

    def compares_exactly(self, column: str, other: Relation, others: str) -> bool:
        """
        Return whether at most one value of a column is equal to a value of another table's column.

        Spark compares columns of different types in a common type, where two values may be one: a text as a number, a
        long number as a floating-point one.

        :param column: a column of this table.
        :param other: the other table.
        :param others: its column.
        """
        types = {self.by_name[column.lower()].type.upper(), other.by_name[others.lower()].type.upper()}
        return len(types) == 1 or types <= _INTEGERS

    @property
    def lowered_key(self) -> frozenset[str]:
        """The columns of its key, in lower case."""
        return frozenset(name.lower() for name in self.key)


def by_name(relations: Iterable[Relation]) -> Mapping[str, Relation]:
    """Return relations by name in lower case."""
    return {relation.name.lower(): relation for relation in relations}
