"""The upstreams' columns from which each column of a view is computed, as far as the query's text shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from airflow_backfill_provider.shapes.joined.outputs import (
    Input,
    inputs_of,
    level_inputs,
    outputs_of,
    role_outputs,
)
from airflow_backfill_provider.shapes.joined.parts import Join, Rows, Union
from airflow_backfill_provider.shapes.joined.relations import Relation
from airflow_backfill_provider.shapes.joined.scopes import Role, Scope, block_scopes


@dataclass(frozen=True, slots=True)
class JoinedOrigin:
    """
    The origin of a column of the view.

    :param inputs: the upstreams and their columns from which it is computed.
    :param unchanged: whether it is one of them, unchanged.
    """

    inputs: tuple[Input, ...]
    unchanged: bool


@dataclass(frozen=True, slots=True)
class JoinedLineage:
    """
    The origins of the view's columns.

    :param columns: column of the view → its origin.
    :param filtered_by: the upstreams' columns that decide which rows the view has.
    """

    columns: Mapping[str, JoinedOrigin]
    filtered_by: tuple[Input, ...]


def lineage_of(rows: Rows, relations: Mapping[str, Relation]) -> JoinedLineage:
    """
    Return the lineage of a view.

    :param relations: the upstreams by name in lower case.
    """
    order = {
        (relation.name, name): (number, place)
        for number, relation in enumerate(relations.values())
        for place, name in enumerate(relation.names)
    }

    def ordered(inputs: Iterable[Input]) -> tuple[Input, ...]:
        return tuple(sorted(inputs, key=order.__getitem__))

    outputs = outputs_of(rows, relations) or ()
    columns = {
        output.name: JoinedOrigin(ordered(output.inputs), output.is_unchanged) for output in outputs if output.name
    }
    return JoinedLineage(columns, ordered(set[Input]().union(*_filters(rows, relations))))


def _filters(rows: Rows, relations: Mapping[str, Relation]) -> Iterator[frozenset[Input]]:
    """Yield the columns that each condition of a query uses."""
    if isinstance(rows.base, Union):
        for branch in rows.base.branches:
            yield from _filters(branch, relations)
    elif isinstance(rows.base, Join):
        yield from _of_join(rows.base, relations)
    for number, level in enumerate(rows.levels):
        if where := level.select.args.get("where"):
            before = outputs_of(Rows(rows.base, rows.levels[:number]), relations) or ()
            yield level_inputs(where, level, {output.name.lower(): output for output in before})


def _of_join(join: Join, relations: Mapping[str, Relation]) -> Iterator[frozenset[Input]]:
    outer, inners = block_scopes(join, relations)
    yield from _of_scope(outer)
    if where := join.level.select.args.get("where"):
        yield inputs_of(where, outer)
    for existence, scope in zip(join.existences, inners, strict=True):
        yield from _of_scope(scope)
        if where := existence.select.args.get("where"):
            yield inputs_of(where, scope)
        if existence.is_in:
            yield from (inputs_of(value, outer) for value in existence.values)
            yield from (inputs_of(item, scope) for item in existence.select.expressions)


def _of_scope(scope: Scope) -> Iterator[frozenset[Input]]:
    """Yield what ON, USING and the steps before a join use."""
    for role in scope.roles:
        seen = scope.on(role)
        if role.source.on is not None:
            yield inputs_of(role.source.on, seen)
        for name in role.source.using:
            for found in seen.roles:
                if name in found.gives:
                    yield next(output.inputs for output in role_outputs(found) if output.name.lower() == name)
        yield from _of_steps(role)


def _of_steps(role: Role) -> Iterator[frozenset[Input]]:
    for number, step in enumerate(role.source.steps):
        if where := step.select.args.get("where"):
            source_before = role_outputs(Role.of(role.source.before(number), role.relation))
            yield level_inputs(where, step, {output.name.lower(): output for output in source_before})
