"""What a SELECT over several relations lists: columns, stars, expressions of one or two relations, aggregates."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from faults.joins.roles import RoleColumn
from faults.joins.selection import Selection
from faults.joins.words import AGGREGATES, EXPRESSIONS, OF_TWO

_NULLS: Mapping[str, str] = {
    "number": "BIGINT",
    "decimal": "DECIMAL(12, 2)",
    "floating": "DOUBLE",
    "text": "STRING",
    "day": "DATE",
    "moment": "TIMESTAMP",
    "boolean": "BOOLEAN",
    "binary": "BINARY",
}


@dataclass(frozen=True, slots=True)
class Item:
    """
    An expression in a list of columns.

    :param text: the expression.
    :param name: its name.
    :param kind: the kind of its values.
    """

    text: str
    name: str
    kind: str

    @property
    def selected(self) -> str:
        """The expression with its alias."""
        return f"{self.text} AS {self.name}"


class Items:
    """
    Draws lists of columns.

    :param random: the case's random generator.
    """

    def __init__(self, random: random.Random) -> None:
        self._random = random
        self._aliases = 0

    def alias(self) -> str:
        """Return a new name."""
        self._aliases += 1
        return f"c_{self._aliases}"

    def list_of(self, selection: Selection) -> str:
        """Return a list with different names, in which stars may stand."""
        chance = self._random.random()
        columns = selection.columns
        names = [one.column.name.lower() for one in columns]
        if chance < 0.15 and all(names.count(name) == 1 or name in selection.merged for name in names):
            starred = ["*"]
        elif chance < 0.3:
            starred = [f"{self._random.choice(selection.roles).name}.*"]
        else:
            return self._of_columns(selection)
        more = self.some(selection)[: self._random.randint(0, 2)]
        return ", ".join([*starred, *(item.selected for item in more)])

    def _of_columns(self, selection: Selection) -> str:
        """Return a list of expressions, and of columns whose aliases are left out where their names are different."""
        found: list[str] = []
        taken: set[str] = set()
        for column in self._random.sample(selection.columns, min(len(selection.columns), self._random.randint(1, 5))):
            name = column.column.name.lower()
            if name not in taken and self._random.random() < 0.5:
                taken.add(name)
                found.append(selection.name(column))
            else:
                found.append(f"{selection.name(column)} AS {self.alias()}")
        found += [item.selected for item in self.some(selection)[: self._random.randint(0, 3)]]
        self._random.shuffle(found)
        return ", ".join(found)

    def some(self, selection: Selection) -> list[Item]:
        """Return one to four expressions with aliases; the keys of relations are among them more often."""
        keys = [RoleColumn(role, column) for role in selection.roles for column in role.table.keys]
        found = []
        for _ in range(self._random.randint(1, 4)):
            column = self._random.choice(self._random.choice((keys, selection.columns)))
            found.append(self._item(selection, column))
        return found

    def keys(self, selection: Selection) -> list[Item]:
        """Return one or two expressions to group by."""
        able = [one for one in selection.columns if one.kind != "floating"]
        chosen = self._random.sample(able, min(len(able), self._random.choice((1, 1, 2))))
        return [self._item(selection, column) for column in chosen]

    def aggregates(self, selection: Selection) -> list[str]:
        """Return aggregates with aliases."""
        found = []
        for _ in range(self._random.randint(1, 3)):
            column = self._random.choice(selection.columns)
            call = self._random.choice(("count(*)", *AGGREGATES[column.kind]))
            found.append(f"{call.format(c=selection.name(column))} AS {self.alias()}")
        return found

    def of_kind(self, selection: Selection, kind: str) -> str:
        """Return an expression without an alias, whose values are of a kind; a null if nothing else is."""
        same = [column for column in selection.columns if column.kind == kind]
        made = [
            text.format(c=selection.name(column))
            for column in selection.columns
            for text, found in EXPRESSIONS[column.kind]
            if found == kind
        ]
        if same and (not made or self._random.random() < 0.7):
            return selection.name(self._random.choice(same))
        return self._random.choice(made) if made else f"CAST(NULL AS {_NULLS[kind]})"

    def _item(self, selection: Selection, column: RoleColumn) -> Item:
        name = selection.name(column)
        chance = self._random.random()
        if chance < 0.5:
            return Item(name, self.alias(), column.kind)
        others = [one for one in selection.columns if one.column.type == column.column.type and one is not column]
        if chance < 0.7 and others:
            text, kind = self._random.choice(OF_TWO)
            other = selection.name(self._random.choice(others))
            return Item(text.format(c=name, d=other), self.alias(), kind or column.kind)
        text, kind = self._random.choice(EXPRESSIONS[column.kind])
        return Item(text.format(c=name), self.alias(), kind)
