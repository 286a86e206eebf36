"""
What a strategy is to the epoch protocol: the order in which it scans, and what ranges of that order mean for vnodes.

A scan by key keeps one position for all vnodes; in a scan by (vnode, key) each vnode has a position of its own and
completes alone. Everything else about an epoch (which changes go through, what the chunk reads, what the next state is)
follows from three questions to the scan: which ranges are read, which are not, and what the state is once some more
are.

Ports the bookkeeping of both executors: ``no_shuffle``'s one ``current_pos`` persisted for every vnode, and
arrangement's ``update_pos_by_vnode``, with the difference that here a vnode completes as soon as its own snapshot
ends, and not when all do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from airflow_backfill_provider.core.columns import OwnColumns
from airflow_backfill_provider.core.keys import KeyField, KeyOrder, KeyRange
from airflow_backfill_provider.core.progress import (
    BackfillState,
    Completed,
    VnodeProgress,
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

    def rows_in(self, vnodes: Sequence[VnodeProgress]) -> int:
        """Return the snapshot rows read so far, in some vnodes together."""
        ...

    def rows_of_one(self, rows: int) -> float:
        """
        Return about how many rows the count of one vnode comes to.

        :param rows: the rows that the job is about.
        """
        ...


def rows_read(scan: Scan, state: BackfillState) -> int:
    """Return the snapshot rows that a job has read so far."""
    return scan.rows_in(state.vnodes)


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

    That is as soon as the one before has its share, and early enough for those after it.
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
