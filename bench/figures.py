"""
The figures of a race of views: times, the ratios of their medians, and what an epoch costs against computing all.

A race keeps views of several sizes in two ways, and every way of every view is measured several times.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

SMALL, MEDIUM, LARGE = "a sixteenth", "a tenth", "all sales"
"""The names of the sizes."""

FIRST_LOAD, COMPUTED_FIRST = "first load", "computed for the first load"
EPOCH, COMPUTED = "epoch", "computed"
PIPELINE = "pipeline"


@dataclass(frozen=True, slots=True)
class Figure:
    """
    One measured time.

    :param what: what was done.
    :param size: the name of the upstream's size.
    :param kind: the name of the view, and of what had changed if that differs.
    """

    what: str
    size: str
    kind: str
    seconds: float


def median(results: Any, what: str, size: str, kind: str) -> float:
    """
    Return the median of some figures of a file of results.

    :raises statistics.StatisticsError: if it has none.
    """
    key = (what, size, kind)
    found = [
        float(figure["seconds"])
        for figure in results["figures"]
        if (figure["what"], figure["size"], figure["kind"]) == key
    ]
    return statistics.median(found)


def ratio(one: tuple[str, str, str], other: tuple[str, str, str]) -> Callable[[Any], float]:
    """Return a figure: the median of one way as a multiple of another's; each is what was done, size and kind."""
    return lambda results: median(results, *one) / median(results, *other)


def of_computing(size: str, kind: str) -> Callable[[Any], float]:
    """Return a figure: an epoch as a multiple of the statement that computes the whole view."""
    return ratio((EPOCH, size, kind), (COMPUTED, size, kind))


@dataclass(frozen=True, slots=True)
class Coefficients:
    """
    What an epoch costs, in rows that computing the whole view reads in the same time.

    :param fixed: an epoch without changes, on an upstream without rows.
    :param row: a row of the upstream.
    :param change: a changed row.
    """

    fixed: float
    row: float
    change: float

    @property
    def entry(self) -> str:
        """These as a value of ``EPOCH_COSTS`` in ``core/refresh_cost.py``; what is measured below zero is none."""
        fixed, row, change = (max(value, 0.0) for value in (self.fixed, self.row, self.change))
        return f"EpochCost(fixed={round(fixed, -5):_.0f}, row={row:.3f}, change={change:.0f})"


def coefficients(results: Any, kind: str, changes: Mapping[str, int], rows: Mapping[str, int]) -> Coefficients:
    """
    Return what an epoch of a kind costs, from its medians at the three sizes.

    :param changes: the changed rows by size.
    :param rows: the rows by size.
    """
    sizes = (SMALL, MEDIUM, LARGE)
    computed = np.polyfit([rows[size] for size in sizes], [median(results, COMPUTED, size, kind) for size in sizes], 1)
    seconds_per_row, start = float(computed[0]), float(computed[1])
    measured = [median(results, EPOCH, size, kind) - start for size in sizes]
    of_epoch = np.linalg.solve([[1, rows[size], changes[size]] for size in sizes], measured)
    return Coefficients(*(float(seconds) / seconds_per_row for seconds in of_epoch))
