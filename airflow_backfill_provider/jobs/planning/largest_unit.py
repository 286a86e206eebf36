"""Warns of a group that has much of the upstream, before a job over it is created."""

from __future__ import annotations

from airflow_backfill_provider.core import text

_ALL = 10
"""A group with more than one of so many rows is worth a warning."""


FOLDED = "write aggregates that can be folded, or group by more columns"
"""What to do about a large group that each change computes from all of its rows."""

SMALLER = "group by more columns"
"""The same, if the groups are not folded whatever the query is."""


def unit_warnings(largest: int | None, rows: int, *, remedy: str, reads_units: bool) -> list[str]:
    """
    Return what the largest group costs, and what to do about it.

    :param largest: the rows of the upstream that it has; ``None`` if they were not counted.
    :param rows: the upstream's rows.
    :param remedy: what to do if a change of a group computes it from all of its rows; empty if it does not.
    :param reads_units: whether history is read group by group.
    """
    if largest is None or largest * _ALL <= rows:
        return []
    size = f"the largest group has {text.rows(largest)}, {text.percent(largest / rows)} of all"
    warnings = []
    if reads_units:
        warnings.append(f"{size}; one epoch reads it whole, above any rate limit: strategy snapshot has no such limit")
    if remedy:
        warnings.append(f"{size}; a change of any of them computes the group from all of them: {remedy}")
    return warnings
