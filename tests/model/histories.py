"""Random histories by seed, and those that go wrong."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Protocol as Interface
from typing import TypeVar

from tests.model.explore import Result

P = TypeVar("P")
P_contra = TypeVar("P_contra", contravariant=True)


class Kind(Interface[P_contra]):
    """What can be played under rules."""

    def fault(self, seed: int, protocol: P_contra | None = None) -> str | None:
        """Play one history; return what broke."""
        ...


def play_histories(kinds: Iterable[Kind[P]], seeds: Iterable[int], protocol: P | None = None) -> Result:
    """Play histories of some kinds; stop at the first broken invariant. A state is one history."""
    played = 0
    for kind, seed in product(kinds, seeds):
        played += 1
        if (fault := kind.fault(seed, protocol)) is not None:
            return Result(played, exhausted=False, error=fault, trace=(f"{kind}, seed {seed}",))
    return Result(played, exhausted=True)


def wrong(kind: Kind[P], seeds: Iterable[int], protocol: P | None = None) -> int:
    """Return how many histories go wrong."""
    return sum(kind.fault(seed, protocol) is not None for seed in seeds)
