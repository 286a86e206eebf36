"""A case: tables, one view over them, and what happens to both, as plain values."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_backfill_provider.shapes.joined_groups.query import check_joined_group_query
from faults.joins.queries import DrawnQuery, a_query
from faults.joins.rows import CHANGES
from faults.joins.tables import JoinedTable, some_tables

PLAYED = ("join", "join", "groups of joins", "union", "groups of unions")
"""The kinds of queries that are played; joins of rows most often."""

ROWS = ("join", "union")
"""The kinds of queries whose views have rows of leads."""

_GAPS = (2, 3)
"""The fewest and the most times at which tables change."""

Changes = tuple[tuple[str, str], ...]
"""Changes one after the other: the name of a table, and the kind of the change."""


def named(changes: Changes) -> str:
    """Return changes in one line."""
    return ", ".join(f"{kind} {table}" for table, kind in changes) or "nothing"


@dataclass(frozen=True, slots=True)
class JoinsCase:
    """
    Some tables and a view over them.

    :param query: the view's query, and the tables that it reads.
    :param fields: the job's other fields.
    :param gaps: the changes before each run of epochs. Those of one gap are in one window, mostly.
    :param seed: the seed of the epochs: how many run, and what happens to them.
    """

    query: DrawnQuery
    fields: Mapping[str, Any]
    gaps: tuple[Changes, ...]
    seed: int

    @property
    def tables(self) -> tuple[JoinedTable, ...]:
        """The tables."""
        return self.query.tables

    @property
    def can_be_shared(self) -> bool:
        """Whether several task runs can share an epoch."""
        several = self.fields["strategy"] != "no_shuffle" and self.fields["vnode_count"] > 1
        return self.has_chunks and several

    @property
    def has_chunks(self) -> bool:
        """Whether history is read in several epochs; under snapshot, that of groups is read in one."""
        return self.query.kind in ROWS or self.fields["strategy"] == "arrangement"

    def summary(self) -> str:
        """Return a description in one line."""
        tables = "; ".join(table.upstream.described(table.name) for table in self.tables)
        changes = "; ".join(map(named, self.gaps))
        fields = ", ".join(f"{name} {value}" for name, value in self.fields.items())
        text = f"{self.query.kind} | {tables} | {fields} | {changes} | {self.query.text}"
        return " ".join(text.split()).encode("ascii", "backslashreplace").decode()


def a_case(random: random.Random) -> JoinsCase:
    """Return a case."""
    query = a_query(random, some_tables(random), PLAYED)
    fields = _fields(random, query)
    names = [table.name for table in query.tables]
    gaps = tuple(_changes(random, names, fewest=int(number > 0)) for number in range(random.randint(*_GAPS)))
    return JoinsCase(query, fields, gaps, random.randrange(10**9))


def _fields(random: random.Random, query: DrawnQuery) -> dict[str, Any]:
    strategy = random.choice(_strategies(query))
    if query.kind not in ROWS and strategy == "snapshot":
        return {"strategy": strategy, "visibility": "on_finish", "vnode_count": 4}
    fields: dict[str, Any] = {
        "strategy": strategy,
        "visibility": "on_finish" if strategy == "snapshot" else "every_epoch",
        "rate_limit": random.choice((None, 7, 15, 30)),
        "vnode_count": random.choice((1, 4)),
    }
    if strategy != "no_shuffle" and fields["vnode_count"] > 1 and random.random() < 0.3:
        fields["parallelism"] = 2
    if query.leads and random.random() < 0.4:
        fields["lead"] = random.choice(query.leads)
    return fields


def _strategies(query: DrawnQuery) -> tuple[str, ...]:
    """Return the strategies of a query's jobs, those that are played more often several times."""
    match query.kind:
        case "join":
            return ("snapshot", "snapshot", "no_shuffle", "arrangement")
        case "groups of joins" if check_joined_group_query(query.text).has_row_units:
            return ("snapshot", "arrangement", "arrangement")
        case _:
            return ("snapshot",)


def _changes(random: random.Random, names: list[str], *, fewest: int) -> Changes:
    """Return changes of any tables; mostly of several, and at times of one alone, or of one more than once."""
    chosen = random.choices(names, k=random.randint(fewest, 4))
    if random.random() < 0.25:
        chosen = [random.choice(names)] * len(chosen)
    return tuple((name, random.choice(CHANGES)) for name in chosen)
