"""
What must hold, independent of how a backfill gets there: the invariants I1 and I3 as functions.

``Progress`` is how far a backfill is, in the vocabulary of both algorithms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from tests.strategies import Key, Row

if TYPE_CHECKING:
    from tests.model.upstream import KeyOrder, Upstream

Output = tuple[Any, ...]
Query = Callable[[Row], Output | None]
"""A row-level query: the projected row, or ``None`` if the row doesn't pass the filter."""


class InvariantError(AssertionError):
    """An invariant does not hold. The message begins with its name."""


def paid_in_cents(row: Row) -> Output | None:
    """SELECT key, amount * 100 FROM upstream WHERE status = 'paid'."""
    if row.status != "paid":
        return None
    return (None if row.amount is None else row.amount * 100,)


def everything(row: Row) -> Output:
    """SELECT * FROM upstream."""
    return (row.status, row.amount)


class Phase(IntEnum):
    """How far a backfill is."""

    NOT_STARTED = 0
    IN_PROGRESS = 1
    COMPLETED = 2


@dataclass(frozen=True, slots=True)
class Progress:
    """A phase, and while in progress the key up to which the snapshot was read. ``(None,)`` is a position."""

    phase: Phase = Phase.NOT_STARTED
    position: Key | None = None

    def covers(self, key: Key, order: KeyOrder) -> bool:
        """Return whether rows with this key already belong to the view."""
        if self.phase is not Phase.IN_PROGRESS:
            return self.phase is Phase.COMPLETED
        assert self.position is not None
        return order.at_or_before(key, self.position)

    def at_least(self, other: Progress, order: KeyOrder) -> bool:
        """Return whether this is no step back from ``other``."""
        if self.phase is not Phase.IN_PROGRESS or other.phase is not Phase.IN_PROGRESS:
            return self.phase >= other.phase
        assert self.position is not None
        assert other.position is not None
        return order.at_or_before(other.position, self.position)


NOT_STARTED = Progress()
COMPLETED = Progress(Phase.COMPLETED)


def true_view(upstream: Upstream, query: Query, version: int, progress: Progress) -> dict[Key, Output]:
    """Return the view that I1 asks for: the query over the upstream at a version, over the covered keys."""
    result = {}
    for key, row in upstream.as_of(version).items():
        output = query(row)
        if output is not None and progress.covers(key, upstream.order):
            result[key] = output
    return result


def check_truth(view: Mapping[Key, object], truth: Mapping[Key, object]) -> None:
    """I1: the view holds the covered rows and no other."""
    if view != truth:
        lost = {key: row for key, row in truth.items() if view.get(key) != row}
        extra = {key: row for key, row in view.items() if truth.get(key) != row}
        raise InvariantError(f"I1 truth: lost {lost}, extra {extra}")


def check_monotonic(order: KeyOrder, before: tuple[int, Progress, int], after: tuple[int, Progress, int]) -> None:
    """
    I3: epochs (or versions) are never lower, positions and row counts neither, and finished stays finished.
    """
    if after[0] < before[0] or after[2] < before[2] or not after[1].at_least(before[1], order):
        raise InvariantError(f"I3 monotonic: {before} went back to {after}")
