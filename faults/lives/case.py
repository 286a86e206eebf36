"""A case: an upstream with its history, how its view began, and what its definition was changed to, as plain values."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from faults.groups.tables import Table, a_table, an_upstream
from faults.lives.queries import ChainedQuery, QueryChain
from faults.shapes.case import Case, Gap

_CHANGES = (
    *("append", "append", "update", "column", "column", "delete", "return", "move", "swap", "mixture", "mixture"),
    *("rewrite", "empty"),
)
_GATED = {"cut_over": "on_approval"}


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
    :param changes: kinds of changes of the upstream before it.
    :param is_approved: whether somebody approves it, if it waits for an approval.
    """

    query: str
    fields: Mapping[str, Any]
    changes: tuple[str, ...]
    is_approved: bool = True

    def __str__(self) -> str:
        """Return the step in one line."""
        approved = "" if self.is_approved else ", never approved"
        return f"[{', '.join(self.changes)}, {self.fields['cut_over']}{approved}] {self.query}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """
    One upstream, one view.

    :param table: the upstream's columns, by what queries do with them.
    :param upstream: the upstream; its job is given by the steps.
    :param seed: the seed of everything that happens to the job.
    :param beginning: how the view begins.
    :param is_damaged: whether the table that is adopted differs from the query.
    :param query: the first query.
    :param fields: the job's other fields.
    :param steps: the definitions that follow, of which the last one is always approved.
    """

    table: Table
    upstream: Case
    seed: int
    beginning: Beginning
    is_damaged: bool
    query: str
    fields: Mapping[str, Any]
    steps: tuple[Step, ...]

    def summary(self) -> str:
        """Return a description in one line."""
        columns = ", ".join(f"{column.name} {column.type}" for column in self.table.columns)
        how = f"{self.beginning}{', damaged' if self.is_damaged else ''}"
        queries = " || ".join(map(str, self.steps))
        text = f"{self.upstream.writer} | {columns} | {how} | {dict(self.fields)} | {self.query} || {queries}"
        return " ".join(text.split()).encode("ascii", "backslashreplace").decode()


def a_life(random: random.Random) -> Life:
    """Return a case."""
    table = a_table(random)
    upstream = replace(an_upstream(random, table), gaps=(_gap(random), _gap(random)))
    beginning = random.choice((Beginning.CREATED, Beginning.CREATED, *Beginning))
    chain = QueryChain(random, table)
    first = chain.first(keyed=beginning.is_adopted)
    return Life(
        table=table,
        upstream=upstream,
        seed=random.randrange(10**9),
        beginning=beginning,
        is_damaged=beginning.is_adopted and random.random() < 0.3,
        query=first.text,
        fields=_fields(random, beginning, is_of_groups=bool(first.grouped)),
        steps=tuple(_steps(random, chain, first)),
    )


def _gap(random: random.Random) -> Gap:
    return Gap(changes=_some_changes(random))


def _some_changes(random: random.Random) -> tuple[str, ...]:
    return tuple(random.choice(_CHANGES) for _ in range(random.randint(0, 2)))


def _steps(random: random.Random, chain: QueryChain, query: ChainedQuery) -> list[Step]:
    steps: list[Step] = []
    for _ in range(random.randint(2, 4)):
        following = chain.after(query)
        fields: dict[str, Any] = dict(random.choice(({"cut_over": "auto"}, {"cut_over": "auto"}, _GATED)))
        if isinstance(following, str) or bool(following.grouped) != bool(query.grouped):
            # Not every strategy can fill a view of another kind.
            fields |= {"strategy": "auto", "rate_limit": None}
        text = following if isinstance(following, str) else following.text
        steps.append(Step(query=text, fields=fields, changes=_some_changes(random), is_approved=random.random() < 0.8))
        if isinstance(following, str):
            break
        query = following
    steps[-1] = replace(steps[-1], is_approved=True)
    return steps


def _fields(random: random.Random, beginning: Beginning, *, is_of_groups: bool) -> dict[str, Any]:
    """Return the fields of a job, which its definitions have in common."""
    feed = {"delta.enableChangeDataFeed": random.choice(("true", "false"))}
    fields: dict[str, Any] = {"vnode_count": random.choice((1, 3))}
    if beginning is not Beginning.ADOPTED_IN_PLACE:
        fields["table_properties"] = feed
    if not beginning.is_adopted and random.random() < 0.4:
        fields |= {"strategy": "arrangement" if is_of_groups else random.choice(("no_shuffle", "arrangement"))}
        fields |= {"rate_limit": random.choice((None, 7, 20))}
    return fields
