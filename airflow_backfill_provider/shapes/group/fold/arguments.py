"""
The arguments of aggregates as columns of the rows that are grouped.

The images of an epoch come from two readings, those that go and those that come. Each reading computes the arguments
where the user's names mean something, and the aggregates over both are computed from these columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.core.scan.columns import OwnColumns
from airflow_backfill_provider.shapes.group.fold.step import EVERYTHING, Aggregate


@dataclass(frozen=True, slots=True)
class NamedArguments:
    """
    Aggregates over columns.

    :param columns: SQL over the rows that are grouped, and the name of the column that has its values.
    :param aggregates: the aggregates, whose arguments and conditions are these columns.
    """

    columns: tuple[tuple[str, str], ...]
    aggregates: tuple[Aggregate, ...]


def named_arguments(aggregates: Sequence[Aggregate], own: OwnColumns) -> NamedArguments:
    """
    Return aggregates over columns that hold their arguments.

    Equal arguments share a column, so that the aggregates need the same state as before.

    :param own: names that no other column has.
    """
    names: dict[str, str] = {}
    found = [_over_columns(aggregate, names, own) for aggregate in aggregates]
    return NamedArguments(tuple((sql, name) for sql, name in names.items()), tuple(found))


def _over_columns(aggregate: Aggregate, names: dict[str, str], own: OwnColumns) -> Aggregate:
    def named(sql: str) -> str:
        return quote(names.setdefault(sql, own.named(f"argument_{len(names)}")))

    arguments = tuple(
        argument if is_plain else named(_taken(argument, aggregate.condition))
        for argument, is_plain in _arguments(aggregate)
    )
    condition = None if aggregate.condition is None else named(f"({aggregate.condition})")
    return replace(aggregate, arguments=arguments, condition=condition)


def _arguments(aggregate: Aggregate) -> Iterator[tuple[str, bool]]:
    """Yield the arguments, and whether each means the same over any rows: a star, or a number."""
    for argument in aggregate.arguments:
        yield argument, argument == EVERYTHING or argument.isdecimal()


def _taken(argument: str, condition: str | None) -> str:
    """Return an argument where FILTER takes the row: for others, Spark would not compute it, and it may fail."""
    return f"({argument})" if condition is None else f"CASE WHEN {condition} THEN {argument} END"
