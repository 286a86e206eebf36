"""The queries that one view has one after the other: each differs from the one before in what users change."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from airflow_backfill_provider.core.job.sql import quote
from faults.groups.drawing import Drawing
from faults.groups.queries import a_query
from faults.groups.tables import Table
from faults.groups.words import SPARK
from faults.joins.queries import Drawing as JoinDrawing
from faults.joins.roles import a_condition
from faults.joins.tables import JoinedTable


@dataclass(frozen=True, slots=True)
class Item:
    """
    A column that a query selects.

    :param expression: how it is computed.
    :param name: its name; empty if the expression is a column with its own name.
    :param kind: the kind of its values, where conditions are made of it.
    """

    expression: str
    name: str = ""
    kind: str = ""

    @property
    def text(self) -> str:
        """The column in SQL."""
        return f"{self.expression} AS {self.name}" if self.name else self.expression


@dataclass(frozen=True, slots=True)
class ChainedQuery:
    """
    A query of rows, or of groups.

    :param body: what follows the columns: FROM, and perhaps WHERE.
    :param items: what it selects.
    :param condition: a further condition, in WHERE; empty if there is none.
    :param step: a condition on what it selects, in a step of its own; empty if there is none.
    :param grouped: what it groups by; empty for a query of rows.
    :param prefix: what stands before SELECT.
    :param comment: a comment, with which it says the same.
    """

    body: str
    items: tuple[Item, ...]
    condition: str = ""
    step: str = ""
    grouped: tuple[str, ...] = ()
    prefix: str = ""
    comment: str = ""

    @property
    def text(self) -> str:
        """The query in SQL."""
        items = ", ".join(item.text for item in self.items)
        comment = f"/* {self.comment} */ " if self.comment else ""
        where = f" WHERE {self.condition}" if self.condition else ""
        grouped = f" GROUP BY {', '.join(self.grouped)}" if self.grouped else ""
        text = f"SELECT {comment}{items} {self.body}{where}{grouped}"
        if self.step:
            names = ", ".join(item.name for item in self.items)
            text = f"SELECT {names} FROM ({text}) AS made WHERE {self.step}"
        return self.prefix + text


class QueryChain(ABC):
    """
    Draws the queries of one view.

    :param random: the case's random generator.
    """

    def __init__(self, random: random.Random) -> None:
        self._random = random

    @abstractmethod
    def first(self, *, keyed: bool) -> ChainedQuery:
        """
        Return a query.

        :param keyed: whether it has to select, under their own names, all columns that identify its rows.
        """

    @abstractmethod
    def another(self) -> str | ChainedQuery:
        """Return a query of any kind; as text, if none can follow it."""

    @abstractmethod
    def expression(self) -> Item:
        """Return a column of a query of rows."""

    @abstractmethod
    def aggregate(self) -> Item:
        """Return a column of a query of groups, which it does not group by."""

    @abstractmethod
    def alias(self) -> str:
        """Return a new name."""

    @abstractmethod
    def filtered(self, query: ChainedQuery) -> ChainedQuery:
        """Return a query with another condition."""

    def after(self, query: ChainedQuery) -> str | ChainedQuery:
        """Return a query that differs from another one."""
        if self._random.random() < 0.12:
            return self.another()
        differing = self._random.choice(self._changes)(query)
        if self._random.random() < 0.3:
            differing = self._random.choice(self._changes)(differing)
        return differing

    @property
    def _changes(self) -> Sequence[Callable[[ChainedQuery], ChainedQuery]]:
        return (
            *(self.filtered, self.filtered, self.filtered, self.added, self.added, self._dropped),
            *(self._computed, self._computed, self._reordered, self._renamed, self._commented),
        )

    def added(self, query: ChainedQuery) -> ChainedQuery:
        """Return a query with one more column."""
        at = self._random.randint(0, len(query.items))
        return replace(query, items=(*query.items[:at], self._item_of(query), *query.items[at:]))

    def _item_of(self, query: ChainedQuery) -> Item:
        return self.aggregate() if query.grouped else self.expression()

    def _dropped(self, query: ChainedQuery) -> ChainedQuery:
        if len(query.items) == 1:
            return self.added(query)
        at = self._random.randrange(len(query.items))
        return replace(query, items=(*query.items[:at], *query.items[at + 1 :]), step="")

    def _computed(self, query: ChainedQuery) -> ChainedQuery:
        """Give a column of the view another expression, and so perhaps another type."""
        at = self._random.randrange(len(query.items))
        former = query.items[at]
        if former.expression in query.grouped:
            return self.filtered(query)
        item = replace(self._item_of(query), name=former.name or former.expression)
        return replace(query, items=(*query.items[:at], item, *query.items[at + 1 :]), step="")

    def _reordered(self, query: ChainedQuery) -> ChainedQuery:
        return replace(query, items=tuple(self._random.sample(query.items, len(query.items))))

    def _renamed(self, query: ChainedQuery) -> ChainedQuery:
        at = self._random.randrange(len(query.items))
        item = replace(query.items[at], name=self.alias())
        return replace(query, items=(*query.items[:at], item, *query.items[at + 1 :]), step="")

    def _commented(self, query: ChainedQuery) -> ChainedQuery:
        return replace(query, comment=f"{query.comment} again".strip())


class QueriesOverOne(QueryChain):
    """
    Draws queries of one table.

    :param table: its columns.
    """

    def __init__(self, random: random.Random, table: Table) -> None:
        super().__init__(random)
        self._table = table
        self._draw = Drawing(random, table, SPARK)

    def first(self, *, keyed: bool) -> ChainedQuery:
        """Return a query of rows or of groups."""
        return self._of_groups(keyed=keyed) if self._random.random() < 0.4 else self._of_rows(keyed=keyed)

    def another(self) -> str | ChainedQuery:
        """Return a query of this kind, or any of the grammar of groups."""
        return a_query(self._random, self._table) if self._random.random() < 0.5 else self.first(keyed=False)

    def expression(self) -> Item:
        """Return an expression over a column."""
        return Item(self._draw.over.to_group_by(self._random.choice(self._table.columns)).text, self.alias())

    def aggregate(self) -> Item:
        """Return an aggregate."""
        return Item(self._draw.over.aggregate(self._table.values), self.alias())

    def alias(self) -> str:
        """Return a new name."""
        return self._draw.alias()

    def filtered(self, query: ChainedQuery) -> ChainedQuery:
        """Return a query with another WHERE, or without one."""
        return replace(query, condition=self._condition())

    def _of_rows(self, *, keyed: bool) -> ChainedQuery:
        keys = [column for column in self._table.key if keyed or self._random.random() < 0.8]
        others = [*self._table.groups, *self._table.values]
        chosen = self._random.sample(others, self._random.randint(1, len(others)))
        items = tuple(Item(quote(column.name)) for column in (*keys, *chosen))
        made = ChainedQuery(f"FROM {self._draw.source}", items, self._condition())
        return self.added(made) if self._random.random() < 0.6 else made

    def _of_groups(self, *, keyed: bool) -> ChainedQuery:
        keys = [Item(key.text, self._draw.alias("key")) for key in self._draw.keys(2)]
        shown = keys if keyed else keys[: self._random.randint(0, len(keys))]
        aggregates = [self.aggregate() for _ in range(self._random.randint(1, 3))]
        return ChainedQuery(
            f"FROM {self._draw.source}",
            (*shown, *aggregates),
            self._condition(),
            grouped=tuple(key.expression for key in keys),
        )

    def _condition(self) -> str:
        return self._draw.over.condition() if self._random.random() < 0.5 else ""


class QueriesOverSeveral(QueryChain):
    """
    Draws queries over one join of several tables, which stays as it is.

    :param tables: the tables that may be joined.
    """

    def __init__(self, random: random.Random, tables: Sequence[JoinedTable]) -> None:
        super().__init__(random)
        self._draw = JoinDrawing(random, tables)
        self._selection = self._draw.joined(3)

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables that the join reads."""
        return tuple(self._draw.relations.read)

    def first(self, *, keyed: bool) -> ChainedQuery:
        """Return a query of the rows of the join, or of groups of them."""
        del keyed
        return self._of_groups() if self._random.random() < 0.4 else self._of_rows()

    def another(self) -> ChainedQuery:
        """Return another query over the join."""
        return self.first(keyed=False)

    def expression(self) -> Item:
        """Return an expression over columns of the join."""
        return self._some()[0]

    def aggregate(self) -> Item:
        """Return an aggregate."""
        expression, _, name = self._draw.items.aggregates(self._selection)[0].rpartition(" AS ")
        return Item(expression, name)

    def alias(self) -> str:
        """Return a new name."""
        return self._draw.items.alias()

    def filtered(self, query: ChainedQuery) -> ChainedQuery:
        """Return a query with another condition in a step over the join."""
        able = [item for item in query.items if item.kind]
        if query.grouped or not able or self._random.random() < 0.3:
            return replace(query, step="")
        item = self._random.choice(able)
        return replace(query, step=a_condition(self._random, item.kind, item.name))

    def _some(self) -> list[Item]:
        return [Item(item.text, item.name, item.kind) for item in self._draw.items.some(self._selection)]

    def _of_rows(self) -> ChainedQuery:
        return ChainedQuery(self._selection.text, tuple(self._some()), prefix=self._draw.relations.with_clause)

    def _of_groups(self) -> ChainedQuery:
        keys = [Item(item.text, item.name) for item in self._draw.items.keys(self._selection)]
        aggregates = [self.aggregate() for _ in range(self._random.randint(1, 3))]
        return ChainedQuery(
            self._selection.text,
            (*keys, *aggregates),
            grouped=tuple(key.expression for key in keys),
            prefix=self._draw.relations.with_clause,
        )
