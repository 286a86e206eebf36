"""Checks that a table of upserts has the columns that say which row of a key counts."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_backfill_provider.core.errors import UpstreamError
from airflow_backfill_provider.sources.upserts.definition import UpsertsUpstream

_ORDERED = frozenset({"byte", "short", "integer", "long", "date", "timestamp", "timestamp_ntz"})
"""The types that may order rows. A text with digits has another order than the numbers, and would go unnoticed."""

_SPLITS = frozenset({"byte", "short", "integer", "long", "string"})


def require_layout(location: str, types: Mapping[str, str], upstream: UpsertsUpstream) -> None:
    """
    Refuse a table without the columns that the definition names, or in which they have an unsuitable type.

    :param location: the table's location, for messages.
    :param types: the table's columns → type, as Delta writes it.
    :raises UpstreamError: with the first such column.
    """
    for name in upstream.ordered_by:
        if types.get(name) not in _ORDERED:
            raise UpstreamError(
                f"{location}: {_found(name, types)}, and ordered_by needs a whole number, a date or a timestamp"
            )
    if upstream.deleted is not None and types.get(upstream.deleted) != "boolean":
        raise UpstreamError(
            f"{location}: {_found(upstream.deleted, types)}, and deleted needs a boolean, such as "
            "value IS NULL AS deleted in the query that lands a topic"
        )
    if upstream.split is not None and types.get(upstream.split) not in _SPLITS:
        raise UpstreamError(f"{location}: {_found(upstream.split, types)}, and split needs a whole number or a text")


def _found(name: str, types: Mapping[str, str]) -> str:
    if name not in types:
        return f"there is no column {name}"
    kind = types[name]
    return f"column {name} is {'nested' if kind.startswith('{') else kind}"
