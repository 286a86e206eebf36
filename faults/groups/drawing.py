"""Draws the pieces of one query: keys, aggregates, conditions, names."""

from __future__ import annotations

import random
from collections.abc import Sequence

from faults.groups.expressions import Expression, Expressions
from faults.groups.tables import Table, names_of
from faults.groups.words import Words
from faults.shapes.case import Column


class Drawing:
    """
    Draws one query.

    :param table: the upstream's columns.
    :param words: the functions and operators.
    """

    def __init__(self, random: random.Random, table: Table, words: Words) -> None:
        self.random = random
        self.table = table
        self.relation = random.choice(("", "", "upstream", "u"))
        self.source = "upstream" + (random.choice((" u", " AS u")) if self.relation == "u" else "")
        self.over = Expressions(random, table.columns, names_of(table.key), words, self.relation)
        self._aliases = 0

    def alias(self, prefix: str = "c") -> str:
        """Return a new name."""
        self._aliases += 1
        return f"{prefix}_{self._aliases}"

    def where(self, over: Expressions | None = None) -> str:
        """Return a condition on rows, or nothing."""
        return f" WHERE {(over or self.over).condition()}" if self.random.random() < 0.35 else ""

    def keys(self, most: int = 2) -> list[Expression]:
        """Return expressions to group by; each column is in one of them."""
        columns = self.random.sample(self.table.groups, min(len(self.table.groups), self.random.randint(1, most)))
        return [self.over.to_group_by(column) for column in columns]

    def aggregates(self, over: Expressions, columns: Sequence[Column], most: int = 3) -> list[str]:
        """Return aggregates with aliases."""
        return [f"{over.aggregate(columns)} AS {self.alias('agg')}" for _ in range(self.random.randint(1, most))]

    def items(self, keys: Sequence[Expression]) -> tuple[list[str], list[str]]:
        """Return expressions with aliases, as they are selected, and what to group by for each of them."""
        selected, grouped = [], []
        for key in keys:
            alias = self.alias("key")
            selected.append(f"{key.text} AS {alias}")
            grouped.append(self.random.choice((key.text, key.text, alias)))
        return selected, grouped

    def sample(self, columns: Sequence[Column], fewest: int = 1) -> list[Column]:
        """Return some columns."""
        return self.random.sample(columns, self.random.randint(fewest, len(columns)))

    def partitions(self) -> list[str]:
        """Return lists of expressions to divide by, with one in common."""
        texts = [key.text for key in self.keys()]
        return [texts[0], ", ".join(texts), ", ".join(reversed(texts))]
