"""The columns that a query over several relations gives: in order, as Spark names them, and what they come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from airflow_backfill_provider.shapes.joined.parts import Join, Joining, Rows, Union
from airflow_backfill_provider.shapes.joined.relations import Relation
from airflow_backfill_provider.shapes.joined.scopes import Role, Scope, scope_of, visible_roles
from airflow_backfill_provider.shapes.levels import Level

Input = tuple[str, str]
"""An upstream and a column of it."""


@dataclass(frozen=True, slots=True)
class Output:
    """
    A column that a SELECT gives.

    :param name: its name; empty if only Spark knows it.
    :param role: the role that it comes from unchanged; ``None`` if it is computed.
    :param column: that role's column, in lower case.
    :param inputs: the columns of upstreams that it is computed from.
    """

    name: str
    role: Role | None = None
    column: str = ""
    inputs: frozenset[Input] = frozenset()

    @property
    def is_unchanged(self) -> bool:
        """Whether it is a column of an upstream, unchanged."""
        return self.role is not None and self.column in self.role.unchanged

    def holds(self, role: str, column: str) -> bool:
        """Return whether it is a column of an upstream, unchanged, as a role reads it."""
        if self.role is None or self.role.name.lower() != role.lower():
            return False
        return self.role.unchanged.get(self.column, "").lower() == column.lower()


Outputs = tuple[Output, ...] | None
"""The columns that a SELECT gives; ``None`` if only Spark knows which, because a struct's fields are among them."""


def outputs_of(rows: Rows, relations: Mapping[str, Relation]) -> Outputs:
    """
    Return the columns of a query; a union has the names of its first branch.

    :param relations: the upstreams by name in lower case.
    """
    if isinstance(rows.base, Union):
        found = _united([outputs_of(branch, relations) for branch in rows.base.branches])
    elif isinstance(rows.base, Join):
        found = join_outputs(rows.base, scope_of(rows.base.sources, relations))
    else:
        raise TypeError("a query reads a join or a union")
    for level in rows.levels:
        found = None if found is None else level_outputs(level, found)
    return found


def join_outputs(join: Join, scope: Scope) -> Outputs:
    """Return the columns of a join's own SELECT."""
    visible = Scope(tuple(visible_roles(scope.roles)), scope.merged)
    found: list[Output] = []
    for projection in join.level.select.expressions:
        source = projection.unalias()
        star = _star(source)
        if star is None:
            column = visible.column(source) if isinstance(source, exp.Column) else None
            role, name = (column.role, column.column) if column is not None and not column.is_field else (None, "")
            found.append(Output(projection.alias_or_name, role, name, inputs_of(projection, visible)))
            continue
        qualifier = source.table.lower() if isinstance(source, exp.Column) else ""
        if qualifier and qualifier not in {role.name.lower() for role in visible.roles}:
            return None
        found += _without(star, _expanded(visible, scope, qualifier))
    return tuple(found)


def inputs_of(tree: exp.Expr, scope: Scope) -> frozenset[Input]:
    """Return the columns of upstreams that an expression uses."""
    found = [scope.column(node) for node in tree.find_all(exp.Column) if not node.is_star]
    return frozenset().union(*(_input(one.role, one.column) for one in found if one is not None))


def role_outputs(role: Role) -> tuple[Output, ...]:
    """Return the columns that a role gives to the join, in order."""
    relation = role.relation.name
    found: Outputs = tuple(
        Output(name, role, name.lower(), frozenset({(relation, name)})) for name in role.relation.names
    )
    for step in role.source.steps:
        found = None if found is None else level_outputs(step, found)
    # Steps may compute a column under the name of another one.
    return tuple(Output(output.name, role, output.name.lower(), output.inputs) for output in found or ())


def level_outputs(level: Level, inputs: tuple[Output, ...]) -> Outputs:
    """Return the columns of a step over other columns."""
    by_name = {output.name.lower(): output for output in inputs if output.name}
    found: list[Output] = []
    for projection in level.select.expressions:
        source = projection.unalias()
        star = _star(source)
        if star is not None:
            if isinstance(source, exp.Column) and source.table.lower() != level.alias.lower():
                return None
            found += _without(star, inputs)
            continue
        is_plain = isinstance(source, exp.Column) and source.table.lower() in {"", level.alias.lower()}
        origin = by_name.get(source.name.lower()) if is_plain else None
        role, column = (origin.role, origin.column) if origin is not None else (None, "")
        found.append(Output(projection.alias_or_name, role, column, level_inputs(projection, level, by_name)))
    return tuple(found)


def level_inputs(tree: exp.Expr, level: Level, inputs: Mapping[str, Output]) -> frozenset[Input]:
    """
    Return the columns of upstreams that an expression of a step uses.

    :param inputs: the columns that the step reads, by name in lower case.
    """
    found: frozenset[Input] = frozenset()
    for node in tree.find_all(exp.Column):
        first, *rest = [part.name.lower() for part in node.parts]
        # A pipe operator after a join may name the join's relations.
        is_qualified = first == level.alias.lower() or (level.relation is None and first not in inputs)
        name = rest[0] if rest and is_qualified and rest[0] in inputs else first
        found |= inputs[name].inputs if name in inputs else frozenset()
    return found


def _united(branches: Sequence[Outputs]) -> Outputs:
    """Return the columns of a union; none is a single branch's."""
    if any(outputs is None for outputs in branches):
        return branches[0] and tuple(Output(output.name) for output in branches[0])
    columns = zip(*(outputs or () for outputs in branches), strict=False)
    return tuple(
        Output(column[0].name, inputs=frozenset().union(*(one.inputs for one in column))) for column in columns
    )


def _input(role: Role, column: str) -> frozenset[Input]:
    return next((output.inputs for output in role_outputs(role) if output.name.lower() == column), frozenset())


def _star(node: exp.Expr) -> exp.Star | None:
    if isinstance(node, exp.Star):
        return node
    return node.this if isinstance(node, exp.Column) and isinstance(node.this, exp.Star) else None


def _without(star: exp.Star, inputs: Sequence[Output]) -> Iterator[Output]:
    """Yield what a star stands for, without what EXCEPT drops, and with what REPLACE computes."""
    excepted = star.args.get("except_") or star.args.get("except") or ()
    dropped = {column.name.lower() for column in excepted}
    replaced = {column.alias.lower() for column in star.args.get("replace") or ()}
    for output in inputs:
        if output.name.lower() in replaced:
            yield Output(output.name, inputs=output.inputs)
        elif output.name.lower() not in dropped:
            yield output


def _expanded(visible: Scope, scope: Scope, qualifier: str) -> list[Output]:
    """Return what a star stands for: of one role, or of all; columns of USING come first."""
    found: list[Output] = []
    for role in scope.roles:
        using = _using(role, scope)
        keys = [output for name in using if (output := _merged(name, visible)) is not None]
        left = [output for output in found if output.name.lower() not in using]
        own = () if role.source.how.is_filter else role_outputs(role)
        right = [output for output in own if output.name.lower() not in using]
        found = [*keys, *left, *right]
    if not qualifier:
        return found
    role = next(role for role in visible.roles if role.name.lower() == qualifier)
    seen = [output for output in found if output.role is role]
    names = {output.name.lower() for output in seen}
    # What USING merged into another relation's column is still a column of this one.
    hidden = [output for output in role_outputs(role) if output.name.lower() not in names]
    return [*hidden, *seen]


def _using(role: Role, scope: Scope) -> tuple[str, ...]:
    """Return the columns of USING where a role is joined to those before it in the text."""
    first = scope.roles[0]
    if first.source.how is Joining.FIRST or role not in scope.roles[:2]:
        return role.source.using
    return () if role is first else first.source.using  # a RIGHT JOIN, whose right side leads


def _merged(name: str, visible: Scope) -> Output | None:
    found = visible.find([name])
    if found is None:
        return None
    return next(output for output in role_outputs(found.role) if output.name.lower() == name)
