"""A case: tables with their history, how a view over them began, and what its definition was changed to."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from faults.groups.tables import a_table, an_upstream
from faults.joins.case import Changes, named
from faults.joins.tables import some_tables
from faults.lives.queries import ChainedQuery, QueriesOverOne, QueriesOverSeveral, QueryChain
from faults.lives.tables import UPSTREAM, DrawnTable

_CHANGES = (
    *("append", "append", "update", "column", "column", "delete", "return", "move", "swap", "mixture", "mixture"),
    *("rewrite", "empty"),
)
_GATED = {"cut_over": "on_approval"}
_STRATEGIES = ("snapshot", "snapshot", "snapshot", "no_shuffle", "arrangement")


class Beginning(StrEnum):
    """How a view begins."""

    CREATED = "created"
    ADOPTED_IN_PLACE = "adopted in place"
    ADOPTED_FROM_A_COPY = "adopted from a copy"

    @property
    def is_adopted(self) -> bool:
        """Whether something else has made its table."""
        return self is not Beginning.CREATED


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """
    Another definition.

    :param query: its query.
    :param fields: the job's other fields that change with it.
    :param changes: changes of the tables before it.
    :param is_approved: whether somebody approves it, if it waits for an approval.
    """

    query: str
    fields: Mapping[str, Any]
    changes: Changes
    is_approved: bool = True

    def __str__(self) -> str:
        """Return the step in one line."""
        fields = ", ".join(f"{name} {value}" for name, value in self.fields.items())
        approved = "" if self.is_approved else ", never approved"
        return f"[{named(self.changes)}; {fields}{approved}] {self.query}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """
    Some tables, one view.

    :param tables: the tables.
    :param seed: the seed of everything that happens to the job.
    :param beginning: how the view begins.
    :param is_damaged: whether the table that is adopted differs from the query.
    :param query: the first query.
    :param fields: the job's other fields.
    :param changes: changes of the tables before the view begins, and while it does.
    :param steps: the definitions that follow, of which the last one is always approved.
    """

    tables: tuple[DrawnTable, ...]
    seed: int
    beginning: Beginning
    is_damaged: bool
    query: str
    fields: Mapping[str, Any]
    changes: tuple[Changes, Changes]
    steps: tuple[Step, ...]

    @property
    def queries(self) -> tuple[str, ...]:
        """All queries of the view, in their order."""
        return (self.query, *(step.query for step in self.steps))

    def summary(self) -> str:
        """Return a description in one line."""
        tables = "; ".join(map(str, self.tables))
        how = f"{self.beginning}{', damaged' if self.is_damaged else ''}"
        steps = " || ".join(map(str, self.steps))
        text = f"{tables} | {how} | {named(self.changes[0])}; {named(self.changes[1])} | {dict(self.fields)} | "
        return " ".join(f"{text}{self.query} || {steps}".split()).encode("ascii", "backslashreplace").decode()


def a_life(random: random.Random) -> Life:
    """Return a case; a third of them have several tables."""
    return _over_several(random) if random.random() < 0.35 else _over_one(random)


def _over_one(random: random.Random) -> Life:
    table = a_table(random)
    drawn = (DrawnTable(UPSTREAM, table, an_upstream(random, table)),)
    beginning = random.choice((Beginning.CREATED, Beginning.CREATED, *Beginning))
    return _lived(random, drawn, QueriesOverOne(random, table), beginning)


def _over_several(random: random.Random) -> Life:
    tables = some_tables(random)
    chain = QueriesOverSeveral(random, tables)
    drawn = tuple(DrawnTable(one.name, one, one.upstream) for one in tables if one.name in chain.tables)
    return _lived(random, drawn, chain, Beginning.CREATED)


def _lived(random: random.Random, tables: tuple[DrawnTable, ...], chain: QueryChain, beginning: Beginning) -> Life:
    first, names = chain.first(keyed=beginning.is_adopted), [one.name for one in tables]
    return Life(
        tables=tables,
        seed=random.randrange(10**9),
        beginning=beginning,
        is_damaged=beginning.is_adopted and random.random() < 0.3,
        query=first.text,
        fields=_fields(random, beginning, first, joins=names != [UPSTREAM]),
        changes=(some_changes(random, names), some_changes(random, names)),
        steps=tuple(_steps(random, chain, first, names)),
    )


def some_changes(random: random.Random, names: list[str]) -> Changes:
    """Return changes of some tables."""
    return tuple((random.choice(names), random.choice(_CHANGES)) for _ in range(random.randint(0, 2)))


def _steps(random: random.Random, chain: QueryChain, query: ChainedQuery, names: list[str]) -> list[Step]:
    steps: list[Step] = []
    for _ in range(random.randint(2, 4)):
        following = chain.after(query)
        fields: dict[str, Any] = dict(random.choice(({"cut_over": "auto"}, {"cut_over": "auto"}, _GATED)))
        if isinstance(following, str) or bool(following.grouped) != bool(query.grouped):
            # Not every strategy can fill a view of another kind.
            fields |= {"strategy": "auto", "rate_limit": None, "refresh": "incremental"}
        elif following.grouped and random.random() < 0.2:
            fields |= {"refresh": random.choice(("incremental", "auto"))}
        text = following if isinstance(following, str) else following.text
        changes = some_changes(random, names)
        steps.append(Step(query=text, fields=fields, changes=changes, is_approved=random.random() < 0.8))
        if isinstance(following, str):
            break
        query = following
    steps[-1] = replace(steps[-1], is_approved=True)
    return steps


def _fields(random: random.Random, beginning: Beginning, query: ChainedQuery, *, joins: bool) -> dict[str, Any]:
    """Return the fields of a job, which its definitions have in common."""
    fields: dict[str, Any] = {"vnode_count": random.choice((1, 3))}
    if beginning is not Beginning.ADOPTED_IN_PLACE:
        fields["table_properties"] = {"delta.enableChangeDataFeed": random.choice(("true", "false"))}
    strategy = random.choice(_STRATEGIES)
    # Joined rows are read group by group only if the SELECT that groups joins the tables themselves.
    of_groups = {"no_shuffle", "arrangement"} if joins else {"no_shuffle"}
    if beginning.is_adopted or strategy == "snapshot" or (query.grouped and strategy in of_groups):
        return fields
    return {**fields, "strategy": strategy, "rate_limit": random.choice((None, 7, 20))}
