"""The queries that one view has one after the other: each differs from the one before in what users change."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from airflow_backfill_provider.core.job.sql import quote
from faults.groups.drawing import Drawing
from faults.groups.queries import a_query
from faults.groups.tables import Table
from faults.groups.words import SPARK
from faults.shapes.case import Column

Item = tuple[str, str]
"""An expression, and the name of the view's column; empty if the expression is a column's own name."""


@dataclass(frozen=True, slots=True)
class ChainedQuery:
    """
    A query of rows, or of groups.

    :param source: what follows FROM.
    :param items: what it selects.
    :param condition: the condition of WHERE; empty if there is none.
    :param grouped: what it groups by; empty for a query of rows.
    :param comment: a comment, with which it says the same.
    """

    source: str
    items: tuple[Item, ...]
    condition: str = ""
    grouped: tuple[str, ...] = ()
    comment: str = ""

    @property
    def text(self) -> str:
        """The query in SQL."""
        items = ", ".join(f"{expression} AS {name}" if name else expression for expression, name in self.items)
        comment = f"/* {self.comment} */ " if self.comment else ""
        where = f" WHERE {self.condition}" if self.condition else ""
        grouped = f" GROUP BY {', '.join(self.grouped)}" if self.grouped else ""
        return f"SELECT {comment}{items} FROM {self.source}{where}{grouped}"


class QueryChain:
    """
    Draws the queries of one view.

    :param table: the upstream's columns.
    """

    def __init__(self, random: random.Random, table: Table) -> None:
        self._random = random
        self._table = table
        self._draw = Drawing(random, table, SPARK)

    def first(self, *, keyed: bool) -> ChainedQuery:
        """
        Return a query.

        :param keyed: whether it has to select, under their own names, all columns that identify its rows.
        """
        return self._of_groups(keyed=keyed) if self._random.random() < 0.4 else self._of_rows(keyed=keyed)

    def after(self, query: ChainedQuery) -> str | ChainedQuery:
        """Return a query that differs from another one; as text, if it is of another kind and nothing follows it."""
        drawn = self._random.random()
        if drawn < 0.06:
            return a_query(self._random, self._table)
        if drawn < 0.12:
            return self.first(keyed=False)
        differing = self._random.choice(self._changes)(query)
        if self._random.random() < 0.3:
            differing = self._random.choice(self._changes)(differing)
        return differing

    @property
    def _changes(self) -> Sequence[Callable[[ChainedQuery], ChainedQuery]]:
        return (
            *(self._filtered, self._filtered, self._filtered, self._added, self._added, self._dropped),
            *(self._computed, self._computed, self._reordered, self._renamed, self._commented),
        )

    def _of_rows(self, *, keyed: bool) -> ChainedQuery:
        keys = [column for column in self._table.key if keyed or self._random.random() < 0.8]
        others = [*self._table.groups, *self._table.values]
        chosen = self._random.sample(others, self._random.randint(1, len(others)))
        items = [(quote(column.name), "") for column in (*keys, *chosen)]
        made = ChainedQuery(self._draw.source, tuple(items), self._condition())
        return self._added(made) if self._random.random() < 0.6 else made

    def _of_groups(self, *, keyed: bool) -> ChainedQuery:
        keys = self._draw.keys(2)
        selected = [(key.text, self._draw.alias("key")) for key in keys]
        shown = selected if keyed else selected[: self._random.randint(0, len(selected))]
        aggregates = [self._aggregate() for _ in range(self._random.randint(1, 3))]
        return ChainedQuery(
            self._draw.source, (*shown, *aggregates), self._condition(), tuple(key.text for key in keys)
        )

    def _aggregate(self) -> Item:
        return self._draw.over.aggregate(self._table.values), self._draw.alias("agg")

    def _expression(self) -> Item:
        column: Column = self._random.choice(self._table.columns)
        return self._draw.over.to_group_by(column).text, self._draw.alias("made")

    def _condition(self) -> str:
        return self._draw.over.condition() if self._random.random() < 0.5 else ""

    def _filtered(self, query: ChainedQuery) -> ChainedQuery:
        return replace(query, condition=self._condition())

    def _added(self, query: ChainedQuery) -> ChainedQuery:
        item = self._aggregate() if query.grouped else self._expression()
        at = self._random.randint(0, len(query.items))
        return replace(query, items=(*query.items[:at], item, *query.items[at:]))

    def _dropped(self, query: ChainedQuery) -> ChainedQuery:
        if len(query.items) == 1:
            return self._added(query)
        at = self._random.randrange(len(query.items))
        return replace(query, items=(*query.items[:at], *query.items[at + 1 :]))

    def _computed(self, query: ChainedQuery) -> ChainedQuery:
        """Give a column of the view another expression, and so perhaps another type."""
        at = self._random.randrange(len(query.items))
        former, name = query.items[at]
        if query.grouped and former in query.grouped:
            return self._filtered(query)
        expression, _ = self._aggregate() if query.grouped else self._expression()
        return replace(query, items=(*query.items[:at], (expression, name or former), *query.items[at + 1 :]))

    def _reordered(self, query: ChainedQuery) -> ChainedQuery:
        return replace(query, items=tuple(self._random.sample(query.items, len(query.items))))

    def _renamed(self, query: ChainedQuery) -> ChainedQuery:
        at = self._random.randrange(len(query.items))
        item = (query.items[at][0], self._draw.alias("renamed"))
        return replace(query, items=(*query.items[:at], item, *query.items[at + 1 :]))

    def _commented(self, query: ChainedQuery) -> ChainedQuery:
        return replace(query, comment=f"{query.comment} again".strip())
