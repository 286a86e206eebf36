"""
Which epochs of its upstreams a view over views reads: the newest ones that agree on every root that they share.

There is exactly one newest choice. It is found from the newest epochs: whoever is ahead in a shared root steps back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

Frontier = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Looked:
    """An epoch in a log: the instant up to which it looked, and its frontier."""

    instant: int
    frontier: Frontier


Epochs = Sequence[Looked]


@dataclass(frozen=True, slots=True)
class Side:
    """An upstream, and its epochs so far. Those of a table are its versions."""

    epochs: Epochs
    is_view: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """The rules; each default is what keeps an invariant."""

    sides: Literal[
        "agree on every shared root",
        "agree on one root",
        "agree in the instant",
        "newest",
        "at or before the lesser frontier",
        "oldest that agree",
    ] = "agree on every shared root"
    tables: Literal["step back", "stay at T"] = "step back"
    """Of a table that is also a root of a view beside it."""
    logged: Literal["every epoch", "epochs with rows"] = "every epoch"
    instant: Literal["T", "not after an upstream view's", "one of all upstream views"] = "T"
    """
    Up to which instant an epoch looks. What is not shared may be of several instants, unless it is the same instant for
    all upstream views; beside one upstream view it is enough that tables are not read behind it.
    """

    def chosen(self, sides: Sequence[Side]) -> list[Looked] | None:
        """Return an epoch of each side; None if the view has to wait."""
        epochs = [side.epochs for side in sides]
        if not all(epochs):
            return None
        if self.instant == "one of all upstream views" and any(side.is_view for side in sides):
            return _of_one_instant(sides)
        if self.tables == "stay at T":
            epochs = [side.epochs if side.is_view else side.epochs[-1:] for side in sides]
            at = newest_agreeing([side for side, of in zip(epochs, sides, strict=True) if of.is_view])
            numbers = iter(at or ())
            return None if at is None else [of[next(numbers)] if len(of) > 1 else of[-1] for of in epochs]
        choose: dict[str, Callable[[Sequence[Epochs]], list[Looked] | None]] = {
            "agree on every shared root": agreeing,
            "agree on one root": lambda epochs: agreeing(epochs, of=_on_one_root),
            "agree in the instant": lambda epochs: agreeing(epochs, of=lambda looked: {"T": looked.instant}),
            "newest": lambda epochs: [side[-1] for side in epochs],
            "at or before the lesser frontier": _at_or_before,
            "oldest that agree": _oldest_agreeing,
        }
        return choose[self.sides](epochs)


def newest_agreeing(sides: Sequence[Epochs]) -> list[int] | None:
    """Return the number of each side's newest epoch such that all agree on the roots that they share; or None."""
    at = [len(side) - 1 for side in sides]
    while min(at, default=0) >= 0:
        ahead = _ahead([side[n].frontier for side, n in zip(sides, at, strict=True)])
        if ahead is None:
            return at
        at[ahead] -= 1
    return None


def agreeing(
    sides: Sequence[Epochs], *, of: Callable[[Looked], Frontier] = lambda looked: looked.frontier
) -> list[Looked] | None:
    """Return each side's newest epoch such that all agree on ``of`` it."""
    at = newest_agreeing([[Looked(looked.instant, of(looked)) for looked in side] for side in sides])
    return None if at is None else [side[n] for side, n in zip(sides, at, strict=True)]


def _ahead(frontiers: Sequence[Frontier]) -> int | None:
    """Return who is ahead of another one in a shared root."""
    for one, other in combinations(range(len(frontiers)), 2):
        for root in frontiers[one].keys() & frontiers[other].keys():
            if frontiers[one][root] != frontiers[other][root]:
                return max(one, other, key=lambda side: frontiers[side][root])
    return None


def _of_one_instant(sides: Sequence[Side]) -> list[Looked] | None:
    """Return the newest epochs of all views that looked up to the same instant, and the tables as of then."""
    instants = set.intersection(*({one.instant for one in side.epochs} for side in sides if side.is_view))
    for instant in sorted(instants, reverse=True):
        then = [
            [one for one in side.epochs if one.instant == instant or (not side.is_view and one.instant < instant)]
            for side in sides
        ]
        if (chosen := agreeing(then)) is not None:
            return chosen
    return None


def _on_one_root(looked: Looked) -> Frontier:
    root = min(looked.frontier)
    return {root: looked.frontier[root]}


def _at_or_before(sides: Sequence[Epochs]) -> list[Looked] | None:
    """Return each side's newest epoch that is not after another side's newest one, in any root."""
    newest = [side[-1].frontier for side in sides]
    least = {root: min(f[root] for f in newest if root in f) for frontier in newest for root in frontier}
    found = [[one for one in side if all(v <= least[root] for root, v in one.frontier.items())] for side in sides]
    return [side[-1] for side in found] if all(found) else None


def _oldest_agreeing(sides: Sequence[Epochs]) -> list[Looked] | None:
    """Return each side's first epoch with the versions of the shared roots in which the newest ones agree."""
    chosen = agreeing(sides)
    roots = [root for looked in chosen or () for root in looked.frontier]
    shared = {root for root in roots if roots.count(root) > 1}
    if chosen is None or not shared:
        return chosen
    return [
        next(one for one in side if all(one.frontier[r] == looked.frontier[r] for r in looked.frontier.keys() & shared))
        for side, looked in zip(sides, chosen, strict=True)
    ]
