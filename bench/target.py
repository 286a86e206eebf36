"""The target for a benchmark's figure."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Target:
    """
    One target.

    :param what: the figure in words.
    :param bound: the highest allowed figure, or the lowest one with ``at_least``.
    :param unit: the unit of figure and bound.
    :param benchmark: the benchmark that measures the figure.
    :param figure: takes the figure from the benchmark's file of results.
    :param results: the name of that file, if it differs from the benchmark's.
    :param at_least: whether the bound is a lower one.
    :param limit: what the figure must not be worse than, if it misses the bound; ``None`` for the bound itself.
    """

    what: str
    bound: float
    unit: str
    benchmark: str
    figure: Callable[[Any], float]
    at_least: bool = False
    results: str = ""
    limit: float | None = None

    def met(self, figure: float) -> bool:
        """Return whether a figure meets the target."""
        return self._reaches(figure, self.bound)

    def verdict(self, figure: float | None) -> str:
        """Return what a measured figure means: a target that is missed within its limit has not failed."""
        if figure is None:
            return "not measured"
        if self.met(figure):
            return "pass"
        return "FAIL" if self.limit is None or not self._reaches(figure, self.limit) else "missed"

    def row(self, figure: float | None) -> tuple[str, str, str, str]:
        """
        Return a line of a table of targets.

        :param figure: the measured figure, if there is one.
        """
        measured = f"make bench ARGS={self.benchmark}" if figure is None else f"{figure:,.2f} {self.unit}"
        limit = "" if self.limit is None else f", limit {self.limit:g}"
        bound = f"{'≥' if self.at_least else '≤'} {self.bound:g} {self.unit}{limit}"
        return self.what, bound, measured, self.verdict(figure)

    def _reaches(self, figure: float, bound: float) -> bool:
        return figure >= bound if self.at_least else figure <= bound


def seconds_against(slower: str, faster: str) -> Callable[[Any], float]:
    """Return a figure: the median of one contestant's seconds, as a multiple of another's."""

    def seconds(results: Any, contestant: str) -> float:
        return float(statistics.median(run["seconds"] for run in results["runs"] if run["contestant"] == contestant))

    return lambda results: seconds(results, slower) / seconds(results, faster)
