"""
Whose column a name is, as Spark resolves it.

A name with a qualifier is a column of the relation with that name, if it has one; otherwise its first part is a column,
and the rest are fields in it. A name without a qualifier must be a column of one relation only. A subquery sees its own
relations first, and then those around it. Case does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.shapes.joined.parts import Join, Joining, Source
from airflow_backfill_provider.shapes.joined.refusals import refused
from airflow_backfill_provider.shapes.joined.relations import Relation


@dataclass(frozen=True, slots=True)
class Role:
    """
    A source with its upstream's columns.

    :param source: the source.
    :param relation: the upstream.
    :param gives: the columns that the source gives to the join, in lower case.
    :param unchanged: those that are columns of the upstream, each with the upstream's name for it.
    """

    source: Source
    relation: Relation
    gives: frozenset[str]
    unchanged: Mapping[str, str]

    @property
    def name(self) -> str:
        """The role's name in the query."""
        return self.source.name

    @classmethod
    def of(cls, source: Source, relation: Relation) -> Role:
        """Return a source over an upstream's columns."""
        gives = frozenset(name.lower() for name in relation.names)
        passed = {name: [name] for name in relation.names}
        for step in source.steps:
            gives = step.gives(gives)
            passed = {name: step.passes_on(names) for name, names in passed.items()}
        unchanged = {output.lower(): name for name, outputs in passed.items() for output in outputs}
        return cls(source, relation, gives, unchanged)


@dataclass(frozen=True, slots=True)
class Found:
    """
    The column that a name stands for.

    :param role: the role that has it.
    :param column: the column's name in lower case, as the role gives it.
    :param is_field: whether the name goes on with fields inside the column.
    """

    role: Role
    column: str
    is_field: bool

    @property
    def origin(self) -> str | None:
        """The upstream's column that it is, unchanged; ``None`` if it is computed, or a field."""
        return None if self.is_field else self.role.unchanged.get(self.column)


@dataclass(frozen=True, slots=True)
class Scope:
    """
    The relations that a SELECT sees.

    :param roles: the relations in FROM that have columns there, in order.
    :param merged: the columns of USING, each with the name of the role whose values it has.
    :param outer: the relations around a subquery.
    """

    roles: tuple[Role, ...]
    merged: Mapping[str, str]
    outer: Scope | None = None

    def find(self, parts: Sequence[str]) -> Found | None:
        """
        Return the column that a name stands for; ``None`` if no relation has it.

        :param parts: the name's parts.
        :raises InvalidJobError: if several relations have it.
        """
        first, *rest = [part.lower() for part in parts]
        if rest:
            named = [role for role in self.roles if role.name.lower() == first and rest[0] in role.gives]
            if named:
                return Found(named[0], rest[0], len(rest) > 1)
        having = [role for role in self.roles if first in role.gives]
        if first in self.merged:
            having = [role for role in having if role.name.lower() == self.merged[first]]
        if len(having) > 1:
            raise _ambiguous(first, having)
        if having:
            return Found(having[0], first, bool(rest))
        return None if self.outer is None else self.outer.find(parts)

    def column(self, node: exp.Column) -> Found | None:
        """Return the column that a node of a tree stands for, as :meth:`find` does."""
        return self.find([part.name for part in node.parts])

    def on(self, role: Role) -> Scope:
        """Return what ON and USING of a role see: the role, and those before it whose columns are still there."""
        lead = next(found for found in self.roles if found.source.how is Joining.FIRST)
        end = max(role.source.place, lead.source.place)  # the left side of a RIGHT JOIN stands before the lead
        before = (found for found in visible_roles(self.roles) if found.source.place <= end and found is not role)
        return Scope((*before, role), self.merged, self.outer)


def scope_of(sources: Sequence[Source], relations: Mapping[str, Relation], outer: Scope | None = None) -> Scope:
    """
    Return what a SELECT sees.

    :param sources: the relations in its FROM.
    :param relations: the upstreams by name in lower case.
    """
    roles = tuple(Role.of(source, relations[source.relation.lower()]) for source in sources)
    lead = next(source for source in sources if source.how is Joining.FIRST)
    merged: dict[str, str] = {}
    for source in sources:
        for name in source.using:
            if name not in merged:
                merged[name] = _owner(name, source, lead, roles)
    return Scope(roles, merged, outer)


def block_scopes(join: Join, relations: Mapping[str, Relation]) -> tuple[Scope, tuple[Scope, ...]]:
    """Return what a join sees, and what each of its subqueries in WHERE does."""
    outer = scope_of(join.sources, relations)
    visible = Scope(tuple(visible_roles(outer.roles)), outer.merged)
    return outer, tuple(scope_of(existence.sources, relations, visible) for existence in join.existences)


def visible_roles(roles: Iterable[Role]) -> Iterable[Role]:
    """Return the roles whose columns the list of columns and WHERE see: not those of semi and anti joins."""
    return (role for role in roles if not role.source.how.is_filter)


def _owner(name: str, source: Source, lead: Source, roles: Sequence[Role]) -> str:
    """Return the name of the role whose values a column of USING has."""
    if source.place < lead.place:
        return lead.name.lower()  # the left side of a RIGHT JOIN
    before = [role for role in visible_roles(roles) if role.source.place < source.place and name in role.gives]
    if len(before) > 1:
        raise _ambiguous(name, before)
    return before[0].name.lower() if before else source.name.lower()


def _ambiguous(name: str, roles: Iterable[Role]) -> InvalidJobError:
    names = ", ".join(f"{role.name}.{name}" for role in roles)
    return refused(f"the column {name} of several tables", f"write which one is meant: {names}")
