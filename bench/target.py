"""What a benchmark's figure is held to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Target:
    """
    One thing that must be so.

    :param what: in words.
    :param bound: what the figure must not exceed, or be below if ``at_least``.
    :param unit: of both.
    :param benchmark: which one measures it.
    :param figure: takes the figure from its file of results.
    :param results: that file's name, if it is not the benchmark's.
    :param at_least: whether more is better.
    """

    what: str
    bound: float
    unit: str
    benchmark: str
    figure: Callable[[Any], float]
    at_least: bool = False
    results: str = ""

    def met(self, figure: float) -> bool:
        """Tell whether a figure meets the target."""
        return figure >= self.bound if self.at_least else figure <= self.bound

    def row(self, figure: float | None) -> tuple[str, str, str, str]:
        """
        Return a line of a table of targets.

        :param figure: what was measured, if it was.
        """
        shown = f"make bench ARGS={self.benchmark}" if figure is None else f"{figure:,.2f} {self.unit}"
        verdict = "not measured" if figure is None else "pass" if self.met(figure) else "FAIL"
        return self.what, f"{'≥' if self.at_least else '≤'} {self.bound:g} {self.unit}", shown, verdict
