"""Upstreams of a job as relations of a query, and columns of these as a lineage names them."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_backfill_provider.shapes.joined.relations import Relation, RelationColumn
from airflow_backfill_provider.shapes.several import QueryTable


def relation_of(name: str, table: QueryTable) -> Relation:
    """Return an upstream as a relation."""
    columns = (
        RelationColumn(column, kind, nullable=column not in table.required) for column, kind in table.types.items()
    )
    return Relation(name, tuple(columns), table.key)


def named_inputs(inputs: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return columns of upstreams, each after the upstream's name and a dot."""
    return tuple(f"{relation}.{column}" for relation, column in inputs)
