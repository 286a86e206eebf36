"""Queries over several tables from a grammar, each of which has to be accepted."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from faults.joins.items import Item, Items
from faults.joins.roles import Relations, a_condition
from faults.joins.selection import Selection
from faults.joins.tables import JoinedTable

_KEYWORDS = re.compile(r"\b(SELECT|FROM|WHERE|JOIN|LEFT|ON|AND|EXISTS|GROUP BY|UNION ALL|USING|AS) ")


@dataclass(frozen=True, slots=True)
class DrawnQuery:
    """
    A query.

    :param text: its text.
    :param kind: its kind, one of :data:`KINDS`.
    :param tables: the tables that it reads, in the order in which it reads each first.
    :param once: the names of the tables that it reads at one place only.
    :param leads: the names of tables that the job may let lead.
    """

    text: str
    kind: str
    tables: tuple[JoinedTable, ...]
    once: frozenset[str]
    leads: tuple[str, ...] = ()


class Drawing:
    """
    Draws one query.

    :param random: the case's random generator.
    :param tables: the tables.
    """

    def __init__(self, random: random.Random, tables: Sequence[JoinedTable]) -> None:
        self.random = random
        self.relations = Relations(random, tables)
        self.items = Items(random)
        self.leads: tuple[str, ...] = ()

    def joined(self, most: int = 4) -> Selection:
        """Return a FROM of several relations."""
        return Selection(self.random, self.relations, min(most, self.random.choice((1, 1, 2, 2, 3, 4))))

    def branch(self) -> Selection:
        """Return a FROM of a branch of a union, perhaps of one relation."""
        return Selection(self.random, self.relations, self.random.choice((0, 0, 1, 2)))


def a_query(random: random.Random, tables: Sequence[JoinedTable], kinds: Sequence[str]) -> DrawnQuery:
    """
    Return a query that reads several tables, or one of them several times.

    :param kinds: the kinds of queries to draw from.
    """
    kind = random.choice(list(kinds))
    drawing = Drawing(random, tables)
    body = KINDS[kind](drawing)
    # Only now it is known what stands in WITH.
    text = f"{drawing.relations.with_clause}{body}"
    if random.random() < 0.2:
        text = _KEYWORDS.sub(lambda found: f"{found[1].lower()}\n", text)
    readings = drawing.relations.read
    once = frozenset(name for name, count in readings.items() if count == 1)
    by_name = {table.name: table for table in tables}
    return DrawnQuery(text, kind, tuple(by_name[name] for name in readings), once, drawing.leads)


def _rows_of_join(draw: Drawing) -> str:
    """A join, and at times another step over it."""
    selection = draw.joined()
    if draw.random.random() < 0.25:
        items = draw.items.some(selection)
        inner = f"SELECT {_listed(items)} {selection.text}"
        return _outer_step(draw, inner, items)
    names = [role.table.name for role in selection.roles]
    if selection.are_inner:
        draw.leads = tuple(name for name in names if names.count(name) == 1)
    return f"SELECT {draw.items.list_of(selection)} {selection.text}"


def _rows_of_union(draw: Drawing) -> str:
    """Branches, and at times another step over them."""
    branches, items = _branches(draw, draw.items.some)
    text = " UNION ALL ".join(branches)
    return _outer_step(draw, text, items) if draw.random.random() < 0.25 else text


def _branches(draw: Drawing, listed: Callable[[Selection], list[Item]]) -> tuple[list[str], list[Item]]:
    """
    Return the branches of a union, and its columns.

    :param listed: draws the columns of the first branch.
    """
    first = draw.branch()
    items = listed(first)
    texts = [f"SELECT {_listed(items)} {first.text}"]
    for _ in range(draw.random.choice((1, 1, 2))):
        branch = draw.branch()
        columns = ", ".join(draw.items.of_kind(branch, item.kind) for item in items)
        texts.append(f"SELECT {columns} {branch.text}")
    return [f"({text})" for text in texts] if draw.random.random() < 0.15 else texts, items


def _outer_step(draw: Drawing, inner: str, items: Sequence[Item]) -> str:
    """Return a step that selects from another one."""
    kept = draw.random.sample(list(items), draw.random.randint(1, len(items)))
    item = draw.random.choice(list(items))
    where = f" WHERE {a_condition(draw.random, item.kind, item.name)}" if draw.random.random() < 0.7 else ""
    return f"SELECT {', '.join(item.name for item in kept)} FROM ({inner}) AS j{where}"


def _groups_of_joins(draw: Drawing) -> str:
    """Groups of the rows of a join, DISTINCT, or aggregates of all rows."""
    match draw.random.randrange(5):
        case 0:
            selection = draw.joined(3)
            items = draw.items.some(selection)
            return _over(draw, f"SELECT {_listed(items)} {selection.text}", items)
        case 1:
            selection = draw.joined(3)
            return f"SELECT DISTINCT {_listed(draw.items.keys(selection))} {selection.text}"
        case 2:
            selection = draw.joined(3)
            return f"SELECT {', '.join(draw.items.aggregates(selection))} {selection.text}"
        case _:
            return _grouped(draw)


def _groups_of_unions(draw: Drawing) -> str:
    """UNION, DISTINCT over UNION ALL, or groups and aggregates over it."""
    how = draw.random.randrange(5)
    branches, items = _branches(draw, draw.items.keys if how < 2 else draw.items.some)
    if how == 0:
        last = draw.random.choice(("UNION", "UNION DISTINCT"))
        before = draw.random.choice(("UNION ALL", last))
        return f" {last} ".join((f" {before} ".join(branches[:-1]), branches[-1]))
    text = " UNION ALL ".join(branches)
    if how == 1:
        return f"SELECT DISTINCT {', '.join(item.name for item in items)} FROM ({text}) AS j"
    return _over(draw, text, items)


def _grouped(draw: Drawing) -> str:
    """Groups of a join, by expressions, numbers, aliases or ALL."""
    selection = draw.joined(3)
    keys = draw.items.keys(selection)
    aggregates = draw.items.aggregates(selection)
    how = draw.random.randrange(5)
    selected = [item.selected for item in keys]
    grouped = ", ".join(item.text for item in keys)
    if how == 0:
        grouped = "ALL"
    elif how == 1:
        grouped = ", ".join(map(str, range(1, len(keys) + 1)))
    elif how == 2:
        # Some of the keys are hidden columns of the view.
        selected = selected[1:]
    having = draw.random.choice(("", "", " HAVING count(*) > 1"))
    return f"SELECT {', '.join([*selected, *aggregates])} {selection.text} GROUP BY {grouped}{having}"


def _over(draw: Drawing, inner: str, items: Sequence[Item]) -> str:
    """Return groups over a step of rows."""
    keys = [item.name for item in items if item.kind != "floating"][:1]
    aggregates = [
        f"count(*) AS {draw.items.alias()}",
        f"max({draw.random.choice(list(items)).name}) AS {draw.items.alias()}",
    ]
    if not keys:
        return f"SELECT {', '.join(aggregates)} FROM ({inner}) AS j"
    return f"SELECT {', '.join([*keys, *aggregates])} FROM ({inner}) AS j GROUP BY {keys[0]}"


def _listed(items: Sequence[Item]) -> str:
    return ", ".join(item.selected for item in items)


KINDS: Mapping[str, Callable[[Drawing], str]] = {
    "join": _rows_of_join,
    "union": _rows_of_union,
    "groups of joins": _groups_of_joins,
    "groups of unions": _groups_of_unions,
}
"""The kinds of queries."""
