"""
What a strategy is to the epoch protocol: the order in which it scans, and what ranges of that order mean for vnodes.

``no_shuffle`` scans by key and keeps one position for all vnodes. ``arrangement`` scans by (vnode, key), so that each
vnode has a position of its own and completes alone. Everything else about an epoch (which changes go through,
what the chunk reads, what the next state is) follows from three questions to the scan: which ranges are read, which
are not, and what the state is once some more are.

Ports the bookkeeping of both executors: ``no_shuffle``'s one ``current_pos`` persisted for every vnode, and
arrangement's ``update_pos_by_vnode``, with the difference that here a vnode completes as soon as its own snapshot
ends, and not when all do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from airflow_backfill_provider.core.columns import OwnColumns
from airflow_backfill_provider.core.errors import StateError
from airflow_backfill_provider.core.keys import EVERYTHING, KeyField, KeyOrder, KeyRange, Position
from airflow_backfill_provider.core.progress import (
    BackfillState,
    Completed,
    InProgress,
    NotStarted,
    VnodeProgress,
    position_of,
)

VnodeRange = tuple[int, int]
"""Vnodes from the first to the last, both included."""


def by_vnode(key: KeyOrder, own: OwnColumns) -> KeyOrder:
    """Return the order of (vnode, key)."""
    return KeyOrder((KeyField(name=own.vnode, type="integer"), *key.fields))


class Scan(Protocol):
    """How one strategy reads the snapshot."""

    @property
    def order(self) -> KeyOrder:
        """The order of the scan's positions."""
        ...

    @property
    def by_vnode(self) -> bool:
        """Whether vnodes advance on their own, so that several runs can share them."""
        ...

    def initial(self, epoch: int) -> BackfillState:
        """
        Return the state of a job that has read nothing.

        :param epoch: the epoch that it begins after.
        """
        ...

    def read(self, state: BackfillState) -> tuple[KeyRange, ...]:
        """Return the ranges that were read; changes of these, and no others, go through."""
        ...

    def unread(self, state: BackfillState, vnodes: VnodeRange | None = None) -> tuple[KeyRange, ...]:
        """Return the ranges still to be read, in the order of reading; all of them, or those of some vnodes."""
        ...

    def advanced(
        self, state: BackfillState, *, epoch: int, ranges: Sequence[KeyRange], rows: Mapping[int, int]
    ) -> BackfillState:
        """
        Return the state after an epoch; the same state if it read no range.

        :param ranges: what the epoch read.
        :param rows: snapshot rows that it read, by vnode.
        """
        ...

    def rows_read(self, state: BackfillState) -> int:
        """Return the snapshot rows read so far, in all vnodes together."""
        ...


@dataclass(frozen=True, slots=True)
class NoShuffleScan:
    """
    By key, with one position for all vnodes: each records the same progress and the same count of rows in all.

    :param order: the key's order.
    :param vnode_count: vnodes of the job.
    :param keys: the keys that the job is about; by default all.
    """

    order: KeyOrder
    vnode_count: int
    keys: KeyRange = EVERYTHING

    by_vnode = False

    def initial(self, epoch: int) -> BackfillState:
        """Return every vnode as not started."""
        return BackfillState(epoch=epoch, vnodes=(NotStarted(),) * self.vnode_count)

    def read(self, state: BackfillState) -> tuple[KeyRange, ...]:
        """Return everything up to the position."""
        match _shared(state):
            case NotStarted():
                return ()
            case InProgress(position=position):
                return (KeyRange(None, position),)
            case _:
                return (KeyRange(None, None),)

    def unread(self, state: BackfillState, vnodes: VnodeRange | None = None) -> tuple[KeyRange, ...]:
        """Return everything behind the position; vnodes make no difference."""
        del vnodes
        progress = _shared(state)
        if isinstance(progress, Completed):
            return ()
        after = self.keys.after if isinstance(progress, NotStarted) else progress.position
        return (KeyRange(after, self.keys.up_to),)

    def advanced(
        self, state: BackfillState, *, epoch: int, ranges: Sequence[KeyRange], rows: Mapping[int, int]
    ) -> BackfillState:
        """Return the state with the position at the end of the one range."""
        if not ranges:
            return state
        (chunk,) = ranges
        before = _shared(state)
        count = before.row_count + sum(rows.values())
        progress: VnodeProgress = (
            Completed(position_of(before), count)
            if chunk.up_to is None or chunk.up_to == self.keys.up_to
            else InProgress(chunk.up_to, count)
        )
        return BackfillState(epoch=epoch, vnodes=(progress,) * len(state.vnodes))

    def rows_read(self, state: BackfillState) -> int:
        """Return the count that every vnode records."""
        return _shared(state).row_count


@dataclass(frozen=True, slots=True)
class ArrangementScan:
    """
    By (vnode, key): each vnode on its own, one after the other.

    :param key_order: the key's order.
    :param vnode_count: vnodes of the job.
    :param vnodes: those that the job is about.
    :param own: the package's names beside the used columns.
    """

    key_order: KeyOrder
    vnode_count: int
    vnodes: frozenset[int]
    own: OwnColumns = field(default_factory=OwnColumns)

    by_vnode = True

    def initial(self, epoch: int) -> BackfillState:
        """Return the job's vnodes as not started, and the others as completed: nothing of them is asked for."""
        states = (NotStarted() if vnode in self.vnodes else Completed(None, 0) for vnode in range(self.vnode_count))
        return BackfillState(epoch=epoch, vnodes=tuple(states))

    @property
    def order(self) -> KeyOrder:
        """The vnode, then the key."""
        return by_vnode(self.key_order, self.own)

    def read(self, state: BackfillState) -> tuple[KeyRange, ...]:
        """Return completed vnodes whole, and those in progress up to their positions."""
        return self._merged(
            self._range((vnode - 1,), (vnode,) if isinstance(progress, Completed) else (vnode, *progress.position))
            for vnode, progress in enumerate(state.vnodes)
            if vnode in self.vnodes and not isinstance(progress, NotStarted)
        )

    def unread(self, state: BackfillState, vnodes: VnodeRange | None = None) -> tuple[KeyRange, ...]:
        """
        Return the rests of vnodes in progress, and then those that have not started whole.

        After a rescale a run may own several vnodes in progress; ended first, they leave it with one at most.
        """
        first, last = vnodes or (0, self.vnode_count - 1)
        mine = [(vnode, state.vnodes[vnode]) for vnode in range(first, last + 1)]
        begun = (
            self._range((vnode, *progress.position), (vnode,))
            for vnode, progress in mine
            if isinstance(progress, InProgress)
        )
        untouched = (
            self._range((vnode - 1,), (vnode,)) for vnode, progress in mine if isinstance(progress, NotStarted)
        )
        return self._merged((*begun, *untouched))

    def advanced(
        self, state: BackfillState, *, epoch: int, ranges: Sequence[KeyRange], rows: Mapping[int, int]
    ) -> BackfillState:
        """Return the state with each range's vnodes completed, except the one that it ends within."""
        if not ranges:
            return state
        vnodes = list(state.vnodes)
        for read in ranges:
            for vnode in self.vnodes_of(read):
                old = vnodes[vnode]
                count = old.row_count + rows.get(vnode, 0)
                ends_within = read.up_to is not None and read.up_to[0] == vnode and len(read.up_to) > 1
                vnodes[vnode] = (
                    InProgress((read.up_to or ())[1:], count) if ends_within else Completed(position_of(old), count)
                )
        return BackfillState(epoch=epoch, vnodes=tuple(vnodes))

    def rows_read(self, state: BackfillState) -> int:
        """Return the sum over all vnodes."""
        return sum(progress.row_count for progress in state.vnodes)

    def vnodes_of(self, covered: KeyRange) -> range:
        """Return the vnodes that a range has keys of."""
        first = 0 if covered.after is None else _vnode(covered.after) + (len(covered.after) == 1)
        last = self.vnode_count - 1 if covered.up_to is None else _vnode(covered.up_to)
        return range(first, last + 1)

    def _range(self, after: Position, up_to: Position) -> KeyRange:
        return KeyRange(None if after == (-1,) else after, None if up_to == (self.vnode_count - 1,) else up_to)

    def _merged(self, ranges: Iterable[KeyRange]) -> tuple[KeyRange, ...]:
        """Join ranges of which one begins where the last one ends, or with nothing of the job's in between."""
        merged: list[KeyRange] = []
        for following in ranges:
            if merged and self._is_next(merged[-1].up_to, following.after):
                merged[-1] = KeyRange(merged[-1].after, following.up_to)
            else:
                merged.append(following)
        return tuple(merged)

    def _is_next(self, up_to: Position | None, after: Position | None) -> bool:
        if up_to is None or after is None or len(up_to) > 1 or len(after) > 1:
            return up_to is not None and up_to == after
        return up_to <= after and not any(vnode in self.vnodes for vnode in range(_vnode(up_to) + 1, _vnode(after) + 1))


def divide(state: BackfillState, parallelism: int, weights: Sequence[float]) -> tuple[VnodeRange, ...]:
    """
    Divide the vnodes among parallel runs, each a contiguous range, so that what is left to read is about even.

    :param parallelism: runs at most; there are fewer if fewer vnodes are unfinished.
    :param weights: rows left, by vnode; estimates.
    """
    unfinished = [vnode for vnode, progress in enumerate(state.vnodes) if not isinstance(progress, Completed)]
    runs = min(parallelism, len(unfinished))
    if not runs:
        return ()
    starts = _starts([max(weights[vnode], 1.0) for vnode in unfinished], runs)
    firsts = [0, *(unfinished[start] for start in starts)]
    return tuple(zip(firsts, [*(first - 1 for first in firsts[1:]), len(state.vnodes) - 1], strict=True))


def _starts(weights: Sequence[float], runs: int) -> Iterator[int]:
    """
    Yield where each run but the first begins.

    That is as soon as the one before has its share, and early enough for those behind.
    """
    rest, mine, left = sum(weights), weights[0], runs
    for index, weight in enumerate(weights[1:], start=1):
        if left == 1:
            return
        # Half of the next one's weight decides on which side of the boundary it lies nearer.
        has_its_share = mine + weight / 2 > rest / left
        if has_its_share or len(weights) - index < left:
            yield index
            rest, mine, left = rest - mine, 0.0, left - 1
        mine += weight


def _shared(state: BackfillState) -> VnodeProgress:
    """
    Return the one progress that all vnodes share under ``no_shuffle``.

    :raises StateError: if vnodes differ. (The executor asserts the same on recovery.)
    """
    first = state.vnodes[0]
    if any(progress != first for progress in state.vnodes):
        raise StateError(
            f"the vnodes' states differ as of epoch {state.epoch}, but no_shuffle keeps one position for all; "
            "the state table was changed by something else: rebuild the job"
        )
    return first


def _vnode(position: Position) -> int:
    vnode = position[0]
    if not isinstance(vnode, int):
        raise StateError(f"the position {position} does not begin with a vnode; rebuild the job")
    return vnode
