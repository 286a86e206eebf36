"""
How history is read: what a position means, which rows are read, and what the next chunk is.

A **spot** is a place in the scan order of a vnode. The vnode comes from the unit, never from the upstream's key, except
where the scan knows no units. A position is a spot, or the vnode is not started or completed. The position of a unit of
nulls is a position like any other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any, Literal
from zlib import crc32

from tests.model.groups_queries import GroupQuery, Unit
from tests.model.groups_rows import KEYS, Sale
from tests.model.truth import Phase

Spot = tuple[tuple[Any, ...], int]
"""A unit, in storage order, and a key in it."""

END_OF_UNIT = 99


@dataclass(frozen=True, slots=True)
class Position:
    """How far a vnode is read."""

    phase: Phase = Phase.NOT_STARTED
    spot: Spot | None = None

    def covers(self, spot: Spot) -> bool:
        """Return whether a row at this spot was read."""
        if self.phase is not Phase.IN_PROGRESS:
            return self.phase is Phase.COMPLETED
        assert self.spot is not None
        return spot <= self.spot


UNREAD = Position()
READ = Position(Phase.COMPLETED)

Positions = tuple[Position, ...]
"""The position of each vnode."""

Order = Literal["units", "within units", "keys", "whole"]
"""
Units: a chunk ends between units. Within units: it may end inside one. Keys: in the order of the upstream's key, which
cuts units anywhere. Whole: one chunk has everything.
"""


@dataclass(frozen=True, slots=True)
class Scan:
    """The scan order of a query's units."""

    query: GroupQuery
    order: Order

    @property
    def vnodes(self) -> int:
        """How many vnodes there are."""
        return 3 if self.knows_units else 1

    @property
    def knows_units(self) -> bool:
        """Whether rows are laid out by their unit, in an arrangement."""
        return self.order in {"units", "within units"}

    @property
    def ends_at_keys(self) -> bool:
        """Whether a chunk may end at any key."""
        return self.order in {"within units", "keys"}

    @property
    def cuts_units(self) -> bool:
        """Whether a chunk may end inside a unit."""
        return self.ends_at_keys and not self.query.is_of_keys

    def vnode(self, row: Sale) -> int:
        """Return the vnode of a row."""
        return self.vnode_of_unit(self.query.unit(row))

    def vnode_of_unit(self, unit: Unit) -> int:
        """Return the vnode of a unit."""
        return crc32(repr(unit).encode()) % self.vnodes

    def spot(self, row: Sale) -> Spot:
        """Return where a row lies in its vnode."""
        return self._spot_of(self.query.unit(row), row.key[0])

    def is_read(self, positions: Positions, row: Sale) -> bool:
        """Return whether a row lies at or before its vnode's position."""
        return positions[self.vnode(row)].covers(self.spot(row))

    def atom(self, row: Sale) -> Spot:
        """Return the spot at which a chunk ends if this is its last row: its unit's end, if it ends at no key."""
        unit, key = self.spot(row)
        return (unit, key) if self.ends_at_keys else (unit, END_OF_UNIT)

    def spots(self, vnode: int) -> list[Spot]:
        """Return every spot of a vnode at which a chunk may end, also those without rows."""
        units = self.query.all_units() if self.knows_units else [()]
        keys: Iterable[int] = KEYS if self.ends_at_keys else (END_OF_UNIT,)
        return [self._spot_of(unit, key) for unit in units if self.vnode_of_unit(unit) == vnode for key in keys]

    def _spot_of(self, unit: Unit, key: Any) -> Spot:
        return rank(unit) if self.knows_units else (), key


def rank(unit: Unit) -> tuple[Any, ...]:
    """Return something that sorts as units do: column by column, nulls first."""
    return tuple((value is not None, str(value or "")) for value in unit)


def next_chunk(
    random: Random, scan: Scan, rows: Iterable[Sale], before: Positions
) -> tuple[Positions, frozenset[tuple[int, Spot]]]:
    """
    Return the new positions, and what the planner saw: from the rows as the previous epoch left them.

    At least one unit is read, also if it is above the rate limit. A vnode completes only by a chunk without an upper
    bound; one without rows completes at once.
    """
    after, budget = list(before), random.randint(1, 4)
    sizes: dict[tuple[int, Spot], int] = {}
    for row in rows:
        if not scan.is_read(before, row):
            atom = (scan.vnode(row), scan.atom(row))
            sizes[atom] = sizes.get(atom, 0) + 1
    if scan.order == "whole":
        return (READ,), frozenset(sizes)
    is_first = True
    for vnode in sorted(range(scan.vnodes), key=lambda vnode: (before[vnode] == UNREAD, random.random())):
        left = sorted(spot for at, spot in sizes if at == vnode)
        while left and (is_first or sizes[vnode, left[0]] <= budget):
            spot, is_first = left[0], False
            budget -= sizes[vnode, spot]
            if random.random() < 0.3:  # any spot may be a position, also one without rows
                spot = random.choice([other for other in scan.spots(vnode) if other >= spot])
            after[vnode] = Position(Phase.IN_PROGRESS, spot)
            left = [other for other in left if other > spot]
        if before[vnode] != READ and not left and budget > 0:
            after[vnode] = READ
    return tuple(after), frozenset(sizes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Barrier:
    """All that an epoch needs and that could change, pinned."""

    epoch: int
    start: int
    """The window is ``(start, end]``."""
    end: int
    before: Positions
    after: Positions
    filter_by: Positions
    """The positions by which changes are filtered."""
    planned: Collection[tuple[int, Spot]] = frozenset()
    changes_after: int
    """The offset after which the epoch looks for changes."""
    arranged_up_to: int
    """The offset that the arrangement is as of."""
    is_arranged: bool
    """Whether the arrangement gets changes."""
    applies: bool
    """Whether the view gets changes."""
    chunk_at_base: bool = False
    """Whether the chunk is as of V0, before the changes."""
    read_at: tuple[tuple[int, Position, int], ...] = ()
    """For rows that were read at several offsets: vnode, position, offset."""
    publishes: bool
    """Whether readers may see the view after this epoch."""
    is_steady: bool
    """Whether they could before it."""
    parts: int
    commits: Literal["one", "chunk apart", "removal apart"]
    since: int
    """The view's version that the previous epoch left."""
    repairs: frozenset[Unit] = frozenset()

    @property
    def is_complete(self) -> bool:
        """Whether every vnode is read after this epoch."""
        return all(position == READ for position in self.after)
