"""
The parts of a query over several relations, as its text shows them.

A query gives *rows*: those of a relation, of a join, or of a union, after some steps that each read the step before.
All relations, columns and conditions here are as written. Whose column a name is, only the tables' columns tell
(:mod:`~airflow_backfill_provider.shapes.joined.scopes`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from airflow_backfill_provider.shapes.levels import Level


class Joining(StrEnum):
    """How a relation is joined to those before it."""

    FIRST = "first"
    """It is the first one, or the left side of a RIGHT JOIN has taken its place."""

    INNER = "inner"
    LEFT = "left"
    SEMI = "semi"
    ANTI = "anti"

    @property
    def is_filter(self) -> bool:
        """Whether it only decides which rows there are, and gives no columns."""
        return self in {Joining.SEMI, Joining.ANTI}


@dataclass(frozen=True, slots=True)
class Source:
    """
    A relation of a join: a role that an upstream has in the query.

    :param name: the name by which the query qualifies its columns; of a subquery without alias, one that nothing uses.
    :param relation: the upstream that it reads.
    :param steps: the steps between the upstream and the join; none if it is read directly.
    :param how: how it is joined.
    :param on: the condition of ON.
    :param using: the columns of USING, in lower case.
    :param place: where it stands in the text, without its alias.
    :param is_named: whether the query gives it an alias there.
    :param is_common: whether it is a common table expression.
    :param read: where the upstream's name stands in the text: start, end, and whether the query gives it an alias.
    """

    name: str
    relation: str
    steps: tuple[Level, ...]
    how: Joining
    on: exp.Expr | None
    using: tuple[str, ...]
    place: tuple[int, int]
    is_named: bool
    is_common: bool
    read: tuple[int, int, bool]

    def before(self, number: int) -> Source:
        """Return the source as its step with a number reads it."""
        return replace(self, steps=self.steps[:number])


@dataclass(frozen=True, slots=True)
class Existence:
    """
    EXISTS (…), IN (…), or the negation of one of them: a condition of WHERE about the rows of other relations.

    :param how: a semi join or an anti join.
    :param sources: the relations that the subquery reads.
    :param select: the subquery's tree.
    :param tokens: the subquery's tokens.
    :param values: the values that IN compares with the subquery's columns; none for EXISTS.
    """

    how: Joining
    sources: tuple[Source, ...]
    select: exp.Select
    tokens: tuple[Token, ...]
    values: tuple[exp.Expr, ...] = ()

    @property
    def is_in(self) -> bool:
        """Whether it is IN or NOT IN."""
        return bool(self.values)


@dataclass(frozen=True, slots=True)
class Join:
    """
    A SELECT over several relations, or over one with EXISTS or IN.

    :param level: its tree, its tokens and its place; the relation's place is all of FROM.
    :param sources: the relations in FROM, in order.
    :param existences: the conditions of WHERE about further relations.
    """

    level: Level
    sources: tuple[Source, ...]
    existences: tuple[Existence, ...]

    @property
    def all_sources(self) -> tuple[Source, ...]:
        """All relations, in the order of the text."""
        return (*self.sources, *(source for existence in self.existences for source in existence.sources))

    @property
    def role_names(self) -> tuple[str, ...]:
        """
        The name of each relation's role, in the same order.

        A subquery may use a name that its surroundings use, too. Then it gets a number.
        """
        found: list[str] = []
        for source in self.all_sources:
            name, number = source.name, 1
            while name.lower() in {taken.lower() for taken in found}:
                number += 1
                name = f"{source.name}_{number}"
            found.append(name)
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Union:
    """
    Branches with UNION ALL between them.

    :param branches: the branches.
    :param is_distinct: whether duplicates of all branches are removed.
    :param span: where it stands in the text.
    """

    branches: tuple[Rows, ...]
    is_distinct: bool
    span: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Rows:
    """
    What a query or a subquery gives.

    :param base: the join or the union that the first step reads; ``None`` if that step reads an upstream.
    :param levels: the steps, the innermost first; a join's own SELECT is not among them.
    """

    base: Join | Union | None
    levels: tuple[Level, ...]

    @property
    def joins(self) -> Iterator[Join]:
        """All joins, in the order of the text."""
        if isinstance(self.base, Join):
            yield self.base
        elif isinstance(self.base, Union):
            for branch in self.base.branches:
                yield from branch.joins
