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
    """

    what: str
    bound: float
    unit: str
    benchmark: str
    figure: Callable[[Any], float]
    at_least: bool = False
    results: str = ""

    def met(self, figure: float) -> bool:
        """Return whether a figure meets the target."""
        return figure >= self.bound if self.at_least else figure <= self.bound

    def row(self, figure: float | None) -> tuple[str, str, str, str]:
        """
        Return a line of a table of targets.

        :param figure: the measured figure, if there is one.
        """
        measured = f"make bench ARGS={self.benchmark}" if figure is None else f"{figure:,.2f} {self.unit}"
        verdict = "not measured" if figure is None else "pass" if self.met(figure) else "FAIL"
        return self.what, f"{'≥' if self.at_least else '≤'} {self.bound:g} {self.unit}", measured, verdict


def seconds_against(slower: str, faster: str) -> Callable[[Any], float]:
    """Return a figure: the median of one contestant's seconds, as a multiple of another's."""

    def seconds(results: Any, contestant: str) -> float:
        return float(statistics.median(run["seconds"] for run in results["runs"] if run["contestant"] == contestant))

    return lambda results: seconds(results, slower) / seconds(results, faster)
