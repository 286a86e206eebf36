"""
Which columns the names in the log mean.

The log has the names that columns had at the time of a change, in the order of their numbers, but not the numbers. If
names are swapped, and swapped back before the next landing, only the order tells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from airflow_backfill_provider.sources.shared.postgresql.rewrites import Attribute

UNKNOWN_NUMBER = ""
"""Stands for the number of a column that is dropped by now."""


def numbers_of(
    names: Sequence[str],
    attributes: Sequence[Attribute],
    is_recent: Callable[[int], bool],
    numbers: Mapping[str, int] | None = None,
) -> dict[str, str]:
    """
    Return the number of the column that each logged name means.

    :param names: the logged names, in order.
    :param attributes: the columns of the table, or of the partition that has the rows, as they are now.
    :param is_recent: returns whether the transaction that dropped a column may be later than the changes.
    :param numbers: the numbers of the columns in the table by their present names, if the rows are a partition's.
    """
    present = _present_names(names, attributes, is_recent)
    known = (
        numbers
        if numbers is not None
        else {column.name: column.number for column in attributes if not column.is_dropped}
    )
    return {name: str(known[now]) if now in known else UNKNOWN_NUMBER for name, now in zip(names, present, strict=True)}


def _present_names(
    names: Sequence[str], attributes: Sequence[Attribute], is_recent: Callable[[int], bool]
) -> list[str]:
    """Return the present name of each column that was logged; an empty text for one that is dropped."""
    possible = [column for column in attributes if not column.is_dropped or is_recent(column.written_by)]
    found: list[str] = []
    for index, column in enumerate(possible):
        if len(found) == len(names):
            break
        if not column.is_dropped:
            found.append(column.name)
        elif names[len(found)] != next((later.name for later in possible[index + 1 :] if not later.is_dropped), None):
            # Otherwise it was dropped before the change.
            found.append("")
    return [*found, *[""] * (len(names) - len(found))]
