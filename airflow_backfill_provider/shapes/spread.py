"""How many rows of the upstream that leads a changed row of another one touches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

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


_ITSELF = Spread(mean=1.0, most=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """
    The part of a query that one upstream leads; the whole query, if it is no union.

    :param lead: this upstream.
    :param spreads: how many of its rows a changed row of each upstream touches that the branch joins.
    """

    lead: str
    spreads: Mapping[str, Spread] = field(default_factory=dict)

    def touched_by(self, name: str) -> Spread | None:
        """Return how many rows of the lead a changed row of an upstream touches; ``None`` if the branch has it not."""
        found = [_ITSELF] if name == self.lead else []
        found += [self.spreads[name]] if name in self.spreads else []
        return reduce(Spread.plus, found) if found else None


def touched_by(branches: Sequence[Branch], name: str) -> Spread:
    """Return how many rows of all leads together a changed row of an upstream touches."""
    return reduce(Spread.plus, (found for branch in branches if (found := branch.touched_by(name)) is not None))


def upstreams_of(branches: Sequence[Branch]) -> Collection[str]:
    """Return the upstreams that branches lead with or join, each once."""
    return dict.fromkeys([*(branch.lead for branch in branches), *(name for one in branches for name in one.spreads)])
