"""How many rows of the upstream that leads a changed row of another one touches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

MostRows = Callable[[str, Sequence[str]], int | None]
"""Returns how many rows of an upstream the most frequent value of some columns has; ``None`` if it is not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """
    How many rows of the lead a changed row touches.

    :param mean: on average over the rows of its upstream, by an estimate.
    :param most: at most; ``None`` if that was not counted.
    """

    mean: float
    most: int | None

    def times(self, further: Spread) -> Spread:
        """Return how many rows it touches if each row that it touches touches further ones."""
        most = None if self.most is None or further.most is None else self.most * further.most
        return Spread(mean=self.mean * further.mean, most=most)

    def plus(self, other: Spread) -> Spread:
        """Return how many rows it touches in two ways."""
        most = None if self.most is None or other.most is None else self.most + other.most
        return Spread(mean=self.mean + other.mean, most=most)

    def capped(self, rows: int) -> Spread:
        """Return the same for a lead with some number of rows; it cannot touch more."""
        return Spread(mean=min(self.mean, rows), most=None if self.most is None else min(self.most, rows))
