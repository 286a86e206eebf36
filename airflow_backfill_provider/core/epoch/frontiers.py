"""
Frontiers: the offset of each root that a view has, and the epochs of several views that go together.

A root is a table that is no view. What a view has is a function of the offsets of its roots, so two views that have one
offset of a common root can be read together. A job over several views reads of each the newest epoch such that all
**agree on every root that they share**. A table that is itself a root of a view beside it is a side, too.

There is one newest choice. It is found from the newest epochs: whoever is ahead in a shared root steps back. Two rules
that look alike are wrong. The newest offset of each root that both logs have may be in no pair of epochs, and the
newest epochs at or before the lesser frontier may still differ.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, Self

from airflow_backfill_provider.core.scan.offset import Offset

Frontier = Mapping[str, Offset]
"""Root → the offset of it; roots are named by the ids of their tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """
    What can be read of an upstream: an epoch of a view, or an offset of a table.

    :param offset: the upstream's offset that has it.
    :param frontier: the offsets of the roots that it has.
    :param instant: when the newest of these was committed.
    """

    offset: Offset
    frontier: Frontier
    instant: dt.datetime

    def is_within(self, bounds: Frontier) -> bool:
        """Return whether no root is after its bound; a root without a bound never is."""
        return all(offset <= bounds[root] for root, offset in self.frontier.items() if root in bounds)


class Side(Protocol):
    """One of the upstreams that have to agree."""

    def newest_within(self, bounds: Frontier) -> Looked | None:
        """Return the newest that has no root after its bound; ``None`` if there is none."""

    def up_to(self, end: Offset) -> Side:
        """Return the same upstream without what is after an offset of it."""


class ViewSide:
    """
    The epochs of a view. They are read only as far as somebody asks.

    :param epochs: the epochs, newest first. No root of an older one is after that of a newer one.
    """

    def __init__(self, epochs: Iterable[Looked]) -> None:
        self._unread = iter(epochs)
        self._read: list[Looked] = []

    def newest_within(self, bounds: Frontier) -> Looked | None:
        """Return the newest epoch that has no root after its bound."""
        return next((looked for looked in self if looked.is_within(bounds)), None)

    def up_to(self, end: Offset) -> ViewSide:
        """Return the epochs of which the view's offset is not after another one."""
        return ViewSide(looked for looked in self if looked.offset <= end)

    def before(self, offset: Offset) -> ViewSide:
        """Return the epochs of which the view's offset is before another one."""
        return ViewSide(looked for looked in self if looked.offset < offset)

    def __iter__(self) -> Iterator[Looked]:
        """Yield the epochs, newest first; several may ask in turns."""
        number = 0
        while True:
            if number == len(self._read):
                looked = next(self._unread, None)
                if looked is None:
                    return
                self._read.append(looked)
            yield self._read[number]
            number += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSide:
    """
    The offsets of a table, which is its own only root.

    :param root: the id of the table.
    :param newest: the newest offset to read.
    :param since: the oldest one.
    :param committed_at: tells when an offset was committed.
    """

    root: str
    newest: Offset
    since: Offset
    committed_at: Callable[[Offset], dt.datetime]

    def newest_within(self, bounds: Frontier) -> Looked | None:
        """Return the newest offset that is not after the table's bound."""
        offset = min(self.newest, bounds.get(self.root, self.newest))
        if offset < self.since:
            return None
        return Looked(offset=offset, frontier={self.root: offset}, instant=self.committed_at(offset))

    def up_to(self, end: Offset) -> Self:
        """Return the table without what is after an offset."""
        return replace(self, newest=min(self.newest, end))


Sides = Mapping[str, Side]
"""The upstreams of a job by their names."""

Choice = Mapping[str, Looked]
"""What is read of each."""


def newest_agreeing(sides: Sides) -> Choice | None:
    """
    Return the newest of each side such that all agree on every root that they share.

    :returns: ``None`` if there is none; then the job has to wait.
    """
    bounds: dict[str, Offset] = {}
    while True:
        chosen: dict[str, Looked] = {}
        for name, side in sides.items():
            looked = side.newest_within(bounds)
            if looked is None:
                return None
            chosen[name] = looked
        least = _least(chosen)
        if all(looked.is_within(least) for looked in chosen.values()):
            return chosen
        bounds |= least


def oldest_agreeing_after(sides: Sides, name: str, end: Offset) -> Choice | None:
    """
    Return the oldest of each side such that all agree, and one of them is after an offset.

    :param name: the side that has to be after it.
    :param end: its offset.
    """
    found, left = None, dict(sides)
    while (chosen := newest_agreeing(left)) is not None and chosen[name].offset > end:
        found = chosen
        pace = _sets_the_pace(left, chosen, name)
        if pace is None:
            break
        left |= pace
    return found


def merged(choice: Choice) -> Frontier:
    """Return the frontier of a view that reads what was chosen."""
    return {root: offset for looked in choice.values() for root, offset in looked.frontier.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """
    An upstream that could be read further if another one had as much of a root.

    :param ahead: its name.
    :param behind: the name of the other one.
    :param root: the id of the root.
    """

    ahead: str
    behind: str
    root: str


def held_back(sides: Sides, ends: Mapping[str, Offset]) -> Iterator[HeldBack]:
    """
    Yield each side that waits for another one.

    :param ends: the offsets up to which the sides are read.
    """
    newest = {name: looked for name, side in sides.items() if (looked := side.newest_within({})) is not None}
    because = _stepped_back(sides)
    for name, looked in newest.items():
        if name in because and looked.offset > ends[name]:
            behind, root = because[name]
            seen = {name}
            # Who is behind may have stepped back itself, because of a third one.
            while behind in because and behind not in seen:
                seen.add(behind)
                behind, root = because[behind]
            yield HeldBack(ahead=name, behind=behind, root=root)


def _stepped_back(sides: Sides) -> Mapping[str, tuple[str, str]]:
    """Return each side that steps back, with who is behind it first, and in which root."""
    because: dict[str, tuple[str, str]] = {}
    bounds: dict[str, Offset] = {}
    while True:
        chosen = {name: found for name, side in sides.items() if (found := side.newest_within(bounds)) is not None}
        least = _least(chosen)
        ahead = {
            name: root
            for name, looked in chosen.items()
            for root, offset in looked.frontier.items()
            if offset > least[root]
        }
        if not ahead or len(chosen) < len(sides):
            return because
        for name, root in ahead.items():
            behind = next(other for other, their in chosen.items() if their.frontier.get(root) == least[root])
            because.setdefault(name, (behind, root))
        bounds |= least


def _least(chosen: Choice) -> dict[str, Offset]:
    """Return the least offset of each root."""
    least: dict[str, Offset] = {}
    for looked in chosen.values():
        for root, offset in looked.frontier.items():
            least[root] = min(offset, least.get(root, offset))
    return least


def _sets_the_pace(sides: Sides, chosen: Choice, name: str) -> dict[str, Side] | None:
    """
    Return the views without what was chosen, of those that decide how far a side is read.

    A view decides that itself. A table has every offset, so the views of it decide.
    """
    side = sides[name]
    if isinstance(side, ViewSide):
        return {name: side.before(chosen[name].offset)}
    for other, their in sides.items():
        if isinstance(their, ViewSide) and chosen[name].frontier.keys() & chosen[other].frontier.keys():
            return {other: their.before(chosen[other].offset)}
    return None
