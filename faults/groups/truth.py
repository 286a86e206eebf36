"""The comparison of a view with its query: exact, but for the last digits of floating-point numbers."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from airflow_backfill_provider.core.job.sql import quote
from faults.campaign import WrongError
from faults.shapes.truth import types_of, values_of

_RELATIVE = 1e-9
_ABSOLUTE = 1e-6
"""The deviation of values that are near 0 and have large ones between them. Drawn values have at most three digits."""

_EXAMPLES = 2

Row = tuple[Any, ...]


def require_same(view: DataFrame, wanted: DataFrame, when: str) -> None:
    """
    Compare the visible columns of a view with the query's result.

    :raises WrongError: if they differ; the error names the differences.
    """
    if missing := [name for name in wanted.columns if name not in view.columns]:
        raise WrongError(f"{when}: the view has no column {missing!a}; it has {view.columns!a}")
    found = view.select(*(view[quote(name)] for name in wanted.columns))
    if types_of(wanted.schema) != types_of(found.schema):
        raise WrongError(
            f"{when}: the query gives {types_of(wanted.schema)!a}, the view has {types_of(found.schema)!a}"
        )
    missing_rows, more = differences(values_of(wanted), values_of(found))
    if missing_rows or more:
        raise WrongError(
            f"{when}: {len(missing_rows)} rows missing, {len(more)} unexpected: "
            f"missing {missing_rows[:_EXAMPLES]!a}, unexpected {more[:_EXAMPLES]!a}"
        )


def differences(wanted: Sequence[Row], found: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Return the rows that are missing, and those that are not expected; rows that are near each other are equal."""
    expected, there = Counter(map(_Known, wanted)), Counter(map(_Known, found))
    left, more = (
        [known.row for known in (one - other).elements()] for one, other in ((expected, there), (there, expected))
    )
    if not left or not more:
        return left, more
    near: dict[str, list[Row]] = defaultdict(list)
    for row in more:
        near[_exact(row)].append(row)
    missing = []
    for row in left:
        candidates = near[_exact(row)]
        match = next((other for other in candidates if _are_near(row, other)), None)
        if match is None:
            missing.append(row)
        else:
            candidates.remove(match)
    return missing, [row for rows in near.values() for row in rows]


class _Known:
    """A row that equals another one if all their values do, NaN and -0.0 included."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self._text = repr(row)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Known) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)


def _exact(row: Row) -> str:
    """Return the values of a row that are no floating-point numbers."""
    return repr([None if isinstance(value, float) else value for value in row])


def _are_near(row: Row, other: Row) -> bool:
    return all(_is_near(*pair) for pair in zip(row, other, strict=True))


def _is_near(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isfinite(one) and math.isfinite(other):
        return math.isclose(one, other, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)
    return repr(one) == repr(other)
