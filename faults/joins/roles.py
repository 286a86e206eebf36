"""Relations of a query: a table, or a SELECT over one, under a name of its own; and how their columns are named."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from faults.groups.expressions import kind_of
from faults.joins.tables import JoinedTable, are_comparable
from faults.joins.words import CONDITIONS
from faults.shapes.case import Column

_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Role:
    """
    A relation.

    :param name: its name in the query.
    :param table: the table that it reads.
    :param text: its text in FROM, with its name.
    :param is_optional: whether its columns are null without a match.
    :param is_inside: whether it stands in EXISTS or IN.
    :param place: the number of the relation in a FROM with commas that it belongs to: ON sees only that one's.
    """

    name: str
    table: JoinedTable
    text: str
    is_optional: bool = False
    is_inside: bool = False
    place: int = 0

    @property
    def columns(self) -> tuple[Column, ...]:
        """Its columns."""
        return self.table.columns


@dataclass(frozen=True, slots=True)
class RoleColumn:
    """
    A column of a relation.

    :param role: the relation.
    :param column: the column.
    """

    role: Role
    column: Column

    @property
    def kind(self) -> str:
        """The kind of its values."""
        return kind_of(self.column)

    @property
    def is_never_null(self) -> bool:
        """Whether it is never null."""
        return self.column.is_required and not self.role.is_optional

    def is_comparable(self, other: RoleColumn) -> bool:
        """Return whether rows can be joined by two columns."""
        return are_comparable(self.column, other.column)


class Names:
    """
    Names columns, as users do: with or without the relation, in another case, and with quotes.

    :param random: the case's random generator.
    """

    def __init__(self, random: random.Random) -> None:
        self._random = random

    def of(self, column: RoleColumn, among: Sequence[Role]) -> str:
        """
        Return a name of a column.

        :param among: the relations whose columns the name could be.
        """
        # Spark does not find a column of a NOT EXISTS that the subquery names in another case.
        name = self.quoted(column.column.name, in_any_case=not any(role.is_inside for role in among))
        wanted = column.column.name.lower()
        is_alone = sum(one.name.lower() == wanted for role in among for one in role.columns) == 1
        if is_alone and self._random.random() < 0.3:
            return name
        return f"{column.role.name}.{name}"

    def quoted(self, name: str, *, in_any_case: bool = True) -> str:
        """Return a name with quotes where it needs them and at times elsewhere, and at times in another case."""
        if in_any_case and self._random.random() < 0.1:
            name = name.upper() if name.isascii() else name
        return name if _PLAIN.fullmatch(name) and self._random.random() < 0.85 else f"`{name}`"

    def condition(self, column: RoleColumn, among: Sequence[Role]) -> str:
        """Return a condition on a value of a column."""
        return a_condition(self._random, column.kind, self.of(column, among))


def a_condition(random: random.Random, kind: str, name: str) -> str:
    """Return a condition on values of a kind; many values fulfil it."""
    chance = random.random()
    if chance < 0.3:
        return f"{name} IS {'NOT ' if chance < 0.25 else ''}NULL"
    text = random.choice(CONDITIONS[kind]).format(c=name)
    return f"({name} IS NULL OR {text})" if chance < 0.5 else text


class Relations:
    """
    Draws the relations of a query, and remembers which tables it reads.

    :param random: the case's random generator.
    :param tables: the tables.
    """

    def __init__(self, random: random.Random, tables: Sequence[JoinedTable]) -> None:
        self.names = Names(random)
        self.read: Counter[str] = Counter()
        """How often the query reads each table, by name, in the order in which it reads each first."""
        self._random = random
        self._tables = tables
        self._common: list[str] = []
        self._count = 0

    @property
    def with_clause(self) -> str:
        """The query's WITH, and a blank after it; empty if it has none."""
        return f"WITH {', '.join(self._common)} " if self._common else ""

    def any_table(self) -> JoinedTable:
        """Return a table, mostly one that is not read yet."""
        left = [table for table in self._tables if table.name not in self.read]
        return self._random.choice(left if left and self._random.random() < 0.6 else self._tables)

    def drawn(self, table: JoinedTable, *, is_inside: bool = False) -> Role:
        """
        Return a new relation.

        :param is_inside: whether it stands in EXISTS or IN; then it has a name that no other one has.
        """
        self._count += 1
        self.read[table.name] += 1
        if self.read[table.name] == 1 and not is_inside and self._random.random() < 0.3:
            return Role(table.name, table, table.name)
        name = f"r{self._count}"
        text = f"{self._relation(table)}{self._random.choice((' ', ' AS '))}{name}"
        return Role(name, table, text, is_inside=is_inside)

    def _relation(self, table: JoinedTable) -> str:
        """Return a table, or a SELECT of some of its rows."""
        how = self._random.randrange(10)
        if how > 1:
            return table.name
        alone = Role(table.name, table, table.name)
        condition = self.names.condition(RoleColumn(alone, self._random.choice(table.columns)), [alone])
        listed = self._random.choice(("*", ", ".join(self.names.quoted(one.name) for one in table.columns)))
        text = f"SELECT {listed} FROM {table.name} WHERE {condition}"
        if how == 0:
            return f"({text})"
        self._common.append(f"w{len(self._common)} AS ({text})")
        return f"w{len(self._common) - 1}"
