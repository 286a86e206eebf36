"""
The columns of each upstream that a query reads.

No column is ever left out that Spark could read a name as. A name that is qualified by a relation counts for that one
only; any other word counts for each relation that has such a column.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from sqlglot import exp

from airflow_backfill_provider.shapes.columns import possible_columns, possible_names
from airflow_backfill_provider.shapes.joined.parts import Join, Rows, Source, Union
from airflow_backfill_provider.shapes.joined.relations import Relation
from airflow_backfill_provider.shapes.joined.scopes import Role, block_scopes
from airflow_backfill_provider.shapes.levels import Level

Wanted = frozenset[str] | None
"""The columns that a later step may name, in lower case; ``None`` for all."""

_Name = tuple[str, ...]


def used_columns(rows: Rows, relations: Mapping[str, Relation]) -> Mapping[str, tuple[str, ...]]:
    """
    Return the columns of each upstream that a query reads, in the upstream's order.

    :param relations: the upstreams by name in lower case.
    """
    found: dict[str, set[str]] = {}
    for role, columns in _of_rows(rows, relations, None):
        found.setdefault(role.relation.name, set()).update(columns)
    return {
        relation.name: tuple(name for name in relation.names if name.lower() in found[relation.name])
        for relation in relations.values()
        if relation.name in found
    }


def _of_rows(rows: Rows, relations: Mapping[str, Relation], wanted: Wanted) -> Iterator[tuple[Role, Collection[str]]]:
    for level in reversed(rows.levels):
        wanted = _of_level(level, wanted)
    if isinstance(rows.base, Union):
        # Columns of other branches have the names of the first one, so no name tells which are wanted.
        for branch in rows.base.branches:
            yield from _of_rows(branch, relations, None)
    elif isinstance(rows.base, Join):
        yield from _of_join(rows.base, relations, wanted)


def _of_join(join: Join, relations: Mapping[str, Relation], wanted: Wanted) -> Iterator[tuple[Role, Collection[str]]]:
    outer, inners = block_scopes(join, relations)
    names = possible_names(join.level.tokens, join.level.select)
    blocks = [possible_names(existence.tokens, existence.select) for existence in join.existences]
    starred = frozenset(_starred(join.level.select))
    around = names.union(*blocks)
    for role in outer.roles:
        yield role, _of_role(role, around, outer.roles, starred, wanted)
    for scope, inner in zip(inners, blocks, strict=True):
        for role in scope.roles:
            yield role, _of_role(role, inner, scope.roles, frozenset(), frozenset())


def _of_role(
    role: Role, names: frozenset[_Name], roles: Collection[Role], starred: frozenset[str | None], wanted: Wanted
) -> frozenset[str]:
    """Return the upstream's columns that one role reads, in lower case."""
    named = {word for name in names for word in _words(name, role, roles)}
    if None in starred:
        kept: Wanted = None
    elif {"", role.name.lower()} & starred:
        kept = None if wanted is None else wanted | named
    else:
        kept = frozenset(named)
    return _through(role.source, kept, role.relation)


def _words(name: _Name, role: Role, roles: Collection[Role]) -> Iterator[str]:
    """Yield the columns of a role that a name may stand for."""
    first, *rest = name
    owner = next((found for found in roles if found.name.lower() == first), None)
    is_qualified = owner is not None and bool(rest)
    if is_qualified and owner is role:
        yield rest[0]
    if not is_qualified or (owner is not None and rest[0] not in owner.gives):
        yield first


def _through(source: Source, wanted: Wanted, relation: Relation) -> frozenset[str]:
    for step in reversed(source.steps):
        wanted = _of_level(step, wanted)
    names = frozenset(name.lower() for name in relation.names)
    return names if wanted is None else names & wanted


def _of_level(level: Level, wanted: Wanted) -> Wanted:
    """Return the columns that a step may name or pass on."""
    words = possible_columns(level.tokens, level.select, level.alias)
    if level.relation is None:
        # A pipe operator after a join may name the join's relations.
        words |= {part for name in possible_names(level.tokens, level.select) for part in name}
    starred = set(_starred(level.select))
    if None in starred:
        return None
    if not starred:
        return words
    return None if wanted is None else wanted | words


def _starred(select: exp.Select) -> Iterator[str | None]:
    """Yield the qualifier of each star in a list of columns; ``None`` for one inside an expression."""
    for star in select.find_all(exp.Star):
        column = star.parent if isinstance(star.parent, exp.Column) else star
        if isinstance(column.parent, exp.Count):
            continue  # count(*) counts rows
        if column.parent is not select:
            yield None
        else:
            yield column.table.lower() if isinstance(column, exp.Column) else ""
