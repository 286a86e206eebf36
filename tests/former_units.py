"""The rows that a view of units keeps, from what its query gave after each epoch: the oracle of such views."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import Any

Row = tuple[Any, ...]
States = Mapping[int, Counter[Row]]
"""The rows of the query after each epoch, by what the view has of that epoch; in order."""


def history_of(states: States) -> Counter[tuple[Row, int, int | None, bool]]:
    """Return each row with its begin, its end, and whether it is current; of equal rows, the newest end first."""
    open_since: dict[Row, list[int]] = {}
    kept: Counter[tuple[Row, int, int | None, bool]] = Counter()
    for point, rows in states.items():
        for row in rows.keys() | open_since.keys():
            begins = open_since.setdefault(row, [])
            while len(begins) > rows[row]:
                kept[row, begins.pop(), point, False] += 1
            begins += [point] * (rows[row] - len(begins))
    for row, begins in open_since.items():
        kept.update((row, begin, None, True) for begin in begins)
    return kept


def deleted_of(states: States, unit_of: Callable[[Row], Hashable]) -> Counter[tuple[Row, int | None]]:
    """
    Return the last rows of each unit, with the point at which it was gone.

    :param unit_of: returns the unit of a row.
    """
    last: dict[Hashable, tuple[Counter[Row], int | None]] = {}
    for point, rows in states.items():
        present: dict[Hashable, Counter[Row]] = {}
        for row, number in rows.items():
            present.setdefault(unit_of(row), Counter())[row] = number
        last |= {unit: (held, point) for unit, (held, gone) in last.items() if unit not in present and gone is None}
        last |= {unit: (held, None) for unit, held in present.items()}
    kept: Counter[tuple[Row, int | None]] = Counter()
    for held, gone in last.values():
        kept.update({(row, gone): number for row, number in held.items()})
    return kept
