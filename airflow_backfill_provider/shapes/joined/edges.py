"""The equalities of columns that tie the relations of a join to each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from airflow_backfill_provider.shapes.joined.conditions import conjuncts, equalities
from airflow_backfill_provider.shapes.joined.parts import Existence, Join, Joining
from airflow_backfill_provider.shapes.joined.refusals import refused
from airflow_backfill_provider.shapes.joined.relations import Relation
from airflow_backfill_provider.shapes.joined.scopes import Found, Role, Scope, block_scopes, visible_roles


@dataclass(frozen=True, slots=True)
class Edge:
    """
    An equality of two columns of different roles.

    :param left: one column.
    :param right: the other one.
    :param null_safe: whether two nulls are equal.
    """

    left: Found
    right: Found
    null_safe: bool

    def toward(self, role: Role) -> tuple[Found, Found] | None:
        """Return the other role's column and this role's; ``None`` if the equality is not about this role."""
        if self.right.role is role:
            return self.left, self.right
        return (self.right, self.left) if self.left.role is role else None


@dataclass(frozen=True, slots=True)
class Candidate:
    """
    A role with the equalities that may tie it to others.

    :param name: the role's own name, as :attr:`Join.role_names` has it.
    :param role: the role.
    :param how: how it is joined; semi or anti for all relations of EXISTS and IN.
    :param edges: the equalities.
    :param block: the number of its EXISTS or IN among those of WHERE; ``None`` if it stands in FROM.
    :param conditions: the number of conditions that AND connects where it is joined.
    """

    name: str
    role: Role
    how: Joining
    edges: tuple[Edge, ...]
    block: int | None
    conditions: int


def candidates(join: Join, relations: Mapping[str, Relation]) -> tuple[Candidate, ...]:
    """
    Return the roles of a join, in the order of the text.

    :param relations: the upstreams by name in lower case.
    :raises InvalidJobError: if a name in a condition is ambiguous, or NOT IN compares what may be null.
    """
    outer, inners = block_scopes(join, relations)
    visible = Scope(tuple(visible_roles(outer.roles)), outer.merged)
    where = join.level.select.args.get("where")
    shared = [*_of_inner_joins(outer), *_of(where and where.this, visible)]
    found = [_candidate(role, outer, shared, None) for role in outer.roles]
    for number, (existence, scope) in enumerate(zip(join.existences, inners, strict=True)):
        _require_not_null(existence, scope, visible)
        where = existence.select.args.get("where")
        own = [*_of_inner_joins(scope), *_of(where and where.this, scope), *_of_values(existence, scope, visible)]
        others = len(conjuncts(where and where.this)) + len(existence.values)
        for role in scope.roles:
            one = _candidate(role, scope, own, number)
            more = others if role.source.how is Joining.FIRST else 0
            found.append(replace(one, how=existence.how, conditions=one.conditions + more))
    return tuple(replace(one, name=name) for one, name in zip(found, join.role_names, strict=True))


def _candidate(role: Role, scope: Scope, shared: Iterable[Edge], block: int | None) -> Candidate:
    source = role.source
    if source.how in {Joining.FIRST, Joining.INNER}:
        return Candidate(role.name, role, source.how, tuple(shared), block, len(conjuncts(source.on)))
    own = tuple(_of_source(role, scope))
    return Candidate(role.name, role, source.how, own, block, len(conjuncts(source.on)) + len(source.using))


def _of_inner_joins(scope: Scope) -> Iterator[Edge]:
    for role in scope.roles:
        if role.source.how is Joining.INNER:
            yield from _of_source(role, scope)


def _of_source(role: Role, scope: Scope) -> Iterator[Edge]:
    """Yield the equalities of ON and USING of a role."""
    seen = scope.on(role)
    yield from _of(role.source.on, seen)
    for name in role.source.using:
        other = Scope(seen.roles[:-1], scope.merged).find([name])
        if other is None or name not in role.gives:
            raise refused(f"USING ({name}), which is no column of both sides", "name a column that both sides have")
        yield Edge(other, Found(role, name, is_field=False), null_safe=False)


def _of(condition: exp.Expr | None, scope: Scope) -> Iterator[Edge]:
    for equality in equalities(condition):
        left, right = scope.column(equality.left), scope.column(equality.right)
        if left is not None and right is not None and left.role is not right.role:
            yield Edge(left, right, equality.null_safe)


def _of_values(existence: Existence, scope: Scope, around: Scope) -> Iterator[Edge]:
    for value, item in _compared(existence):
        left = around.column(value) if isinstance(value, exp.Column) else None
        right = scope.column(item) if isinstance(item, exp.Column) else None
        if left is not None and right is not None and left.role is not right.role:
            yield Edge(left, right, null_safe=False)


def _compared(existence: Existence) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    """Yield the values before IN, each with the subquery's expression that it is compared with."""
    items = [item.unalias() for item in existence.select.expressions]
    if not existence.is_in:
        return
    if any(item.is_star for item in items) or len(items) != len(existence.values):
        raise refused("IN (SELECT …) with another number of columns than values", "select one column for each value")
    yield from zip(existence.values, items, strict=True)


def _require_not_null(existence: Existence, scope: Scope, around: Scope) -> None:
    """Refuse NOT IN if a null on one of its sides could decide about every row."""
    if existence.how is not Joining.ANTI or not existence.is_in:
        return
    for value, item in _compared(existence):
        for node, seen in ((value, around), (item, scope)):
            found = seen.column(node) if isinstance(node, exp.Column) else None
            if found is None or _may_be_null(found):
                raise refused(
                    f"NOT IN over {node.sql('spark')}, which may be null",
                    "write NOT EXISTS (SELECT 1 FROM … WHERE …); NOT IN keeps no row once the subquery gives a null",
                )


def _may_be_null(found: Found) -> bool:
    origin = found.origin
    column = None if origin is None else found.role.relation.by_name.get(origin.lower())
    return column is None or column.nullable or found.role.source.how is Joining.LEFT
