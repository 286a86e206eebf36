"""The figures, the targets for their ratios, and what a changed row costs against a computed one."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.target import Target

SMALL, MEDIUM, LARGE = "a sixteenth", "a tenth", "all sales"

FIRST_LOAD, COMPUTED_FIRST = "first load", "computed for the first load"
ARRANGED = "first load from an arrangement"
EPOCH, COMPUTED = "epoch", "computed"
PIPELINE = "pipeline"


@dataclass(frozen=True, slots=True)
class Figure:
    """
    One measured time.

    :param what: what was done.
    :param size: the name of the upstream's size.
    :param kind: the name of the view's query.
    """

    what: str
    size: str
    kind: str
    seconds: float


def _median(results: Any, what: str, size: str, kind: str) -> float:
    key = (what, size, kind)
    found = [
        float(figure["seconds"])
        for figure in results["figures"]
        if (figure["what"], figure["size"], figure["kind"]) == key
    ]
    return statistics.median(found)


def _ratio(one: tuple[str, str, str], other: tuple[str, str, str]) -> Callable[[Any], float]:
    return lambda results: _median(results, *one) / _median(results, *other)


def _of_computing(size: str, kind: str) -> Callable[[Any], float]:
    return _ratio((EPOCH, size, kind), (COMPUTED, size, kind))


def _beyond_rows(results: Any) -> float:
    return _median(results, EPOCH, MEDIUM, "fold") - _median(results, EPOCH, MEDIUM, "row")


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


def coefficients(results: Any, kind: str, changes: dict[str, int], rows: dict[str, int]) -> Coefficients:
    """
    Return what an epoch of a kind costs, from its medians at the three sizes.

    :param changes: the changed rows by size.
    :param rows: the rows by size.
    """
    sizes = (SMALL, MEDIUM, LARGE)
    computed = np.polyfit([rows[size] for size in sizes], [_median(results, COMPUTED, size, kind) for size in sizes], 1)
    seconds_per_row, start = float(computed[0]), float(computed[1])
    measured = [_median(results, EPOCH, size, kind) - start for size in sizes]
    of_epoch = np.linalg.solve([[1, rows[size], changes[size]] for size in sizes], measured)
    return Coefficients(*(float(seconds) / seconds_per_row for seconds in of_epoch))


TARGETS = (
    *(
        Target(f"{kind} epoch at {size}, 0.1 % changed, against computing all", bound, "times", "groups", figure)
        for size, kind, bound in (
            (LARGE, "fold", 0.35),
            (LARGE, "slice", 0.5),
            (LARGE, "latest", 0.5),
            (MEDIUM, "slice", 1.0),
            (MEDIUM, "latest", 1.0),
            (MEDIUM, "fold", 1.5),
            (MEDIUM, "fold, auto", 1.5),
        )
        for figure in (_of_computing(size, kind),)
    ),
    Target(
        "fold epoch at 16 times the sales, as many changes",
        1.25,
        "times",
        "groups",
        _ratio((EPOCH, LARGE, "fold"), (EPOCH, SMALL, "fold")),
    ),
    *(
        Target(
            f"first load of {kind} at {LARGE}, whole, against computing all",
            1.3,
            "times",
            "groups",
            _ratio((FIRST_LOAD, LARGE, kind), (COMPUTED_FIRST, LARGE, kind)),
        )
        for kind in ("fold", "slice")
    ),
    Target(
        "first load of groups in 20 epochs of an arrangement, against that of rows",
        1.2,
        "times",
        "groups",
        _ratio((ARRANGED, MEDIUM, "fold"), (ARRANGED, MEDIUM, "row")),
    ),
    Target("fold epoch beyond one of rows with the same changes", 1.0, "s", "groups", _beyond_rows),
    Target(
        "fold epoch at all sales, against a refresh by Spark Declarative Pipelines",
        2.0,
        "times faster",
        "groups",
        _ratio((PIPELINE, LARGE, "fold"), (EPOCH, LARGE, "fold")),
        at_least=True,
    ),
)
