"""
Chunks of splits: how one rate limit is shared, and which places of which splits a range of positions has.

A position is a place: everything in the split up to it was read. Splits of one vnode are read one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from airflow_backfill_provider.core.errors import StateError
from airflow_backfill_provider.core.scan.keys import KeyRange, Position
from airflow_backfill_provider.core.scan.progress import BackfillState
from airflow_backfill_provider.core.scan.scan import VnodeRange
from airflow_backfill_provider.core.scan.splits import SplitRange, splits_by_vnode
from airflow_backfill_provider.strategies.vnode_scan import VnodeScan


@dataclass(frozen=True, slots=True)
class SplitBounds:
    """
    The places that a backfill reads, as of one offset.

    :param begins: split → its first place; 0 if it is missing, as for a split that was added later.
    :param ends: split → the place after its last row.
    """

    begins: Mapping[int, int]
    ends: Mapping[int, int]

    def whole(self, split: int) -> SplitRange:
        """Return all places of a split."""
        return SplitRange(split, self.begins.get(split, 0), self.ends[split])

    @property
    def size(self) -> int:
        """The number of all places."""
        return sum(self.whole(split).size for split in self.ends)


def places_of(scan: VnodeScan, ranges: Iterable[KeyRange], bounds: SplitBounds) -> list[SplitRange]:
    """Return the places of splits in some ranges of the scan's order, in this order; without empty ones."""
    by_vnode = splits_by_vnode(bounds.ends, scan.vnode_count)
    found = []
    for covered in ranges:
        for vnode in scan.vnodes_of(covered):
            if vnode in scan.vnodes:
                found += [_within(bounds.whole(split), vnode, covered) for split in by_vnode.get(vnode, ())]
    return [places for places in found if places.size]


def next_ranges(
    scan: VnodeScan, state: BackfillState, bounds: SplitBounds, *, limit: int | None, vnodes: VnodeRange | None = None
) -> tuple[KeyRange, ...]:
    """
    Return the ranges to read next, in the scan's order: of each vnode its share of the limit.

    A vnode whose splits have no row that is left to read is covered to its end.

    :param limit: the most places, from 1; ``None`` for all.
    :param vnodes: the vnodes of one of several task runs.
    """
    first, last = vnodes or (0, scan.vnode_count - 1)
    unread = [covered for vnode in range(first, last + 1) for covered in scan.unread(state, (vnode, vnode))]
    places = [places_of(scan, [covered], bounds) for covered in unread]
    shares = fair_shares([sum(part.size for part in parts) for parts in places], limit)
    found = []
    for covered, parts, share in zip(unread, places, shares, strict=True):
        cut = _cut(parts, share)
        if cut is None:
            found.append(covered)
        elif share:
            (vnode,) = scan.vnodes_of(covered)
            found.append(KeyRange(covered.after, (vnode, *cut)))
    return scan.merged(found)


def fair_shares(sizes: Sequence[int], limit: int | None) -> list[int]:
    """
    Divide a limit among parts so that each gets the same, but none more than its size.

    What a part does not need goes to the others; the first ones get what cannot be divided.
    """
    if limit is None or limit >= sum(sizes):
        return list(sizes)
    shares = [0] * len(sizes)
    left, waiting = limit, sorted(range(len(sizes)), key=lambda part: (sizes[part], part))
    for index, part in enumerate(waiting):
        others = len(waiting) - index
        share, remainder = divmod(left, others)
        if sizes[part] > share:
            for number, larger in enumerate(sorted(waiting[index:])):
                shares[larger] = min(share + (number < remainder), sizes[larger])
            return shares
        shares[part] = sizes[part]
        left -= sizes[part]
    return shares


def _cut(places: Sequence[SplitRange], count: int) -> Position | None:
    """Return the last of the first places, as (split, place); ``None`` if these are all."""
    left = count
    for number, part in enumerate(places):
        if left < part.size:
            if left:
                return (part.split, part.begin + left - 1)
            before = places[number - 1] if number else None
            return (before.split, before.end - 1) if before else (part.split, part.begin - 1)
        left -= part.size
    return None


def _within(whole: SplitRange, vnode: int, covered: KeyRange) -> SplitRange:
    """Return the places of a split in a range that has at least a part of its vnode."""
    begin, end = whole.begin, whole.end
    after, up_to = _place(covered.after, vnode), _place(covered.up_to, vnode)
    if after is not None and whole.split < after[0]:
        begin = end
    elif after is not None and whole.split == after[0]:
        begin = max(begin, after[1] + 1)
    if up_to is not None and whole.split > up_to[0]:
        end = begin
    elif up_to is not None and whole.split == up_to[0]:
        end = min(end, up_to[1] + 1)
    return SplitRange(whole.split, begin, end)


def _place(position: Position | None, vnode: int) -> tuple[int, int] | None:
    """Return the split and the place of a position within a vnode; ``None`` if it has none there."""
    if position is None or len(position) == 1 or position[0] != vnode:
        return None
    _, split, place = position
    if not isinstance(split, int) or not isinstance(place, int):
        raise StateError(f"the position {position} is not a place in a split; rebuild the job")
    return split, place
