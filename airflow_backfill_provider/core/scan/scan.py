"""
The scan of a strategy, as the epoch protocol sees it: its order, and the bookkeeping of vnodes.

A scan by key has one position for all vnodes. In a scan by (vnode, key) each vnode has its own position and completes
alone. Everything else about an epoch (which changes go through, what the chunk reads, what the next state is) follows
from three answers of the scan: which ranges are read, which are unread, and what the state is after more are read.

Ports the bookkeeping of both executors: ``no_shuffle``'s one ``current_pos``, persisted for every vnode, and
arrangement's ``update_pos_by_vnode``. One difference: here a vnode completes as soon as its own snapshot ends, not when
all snapshots have ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from airflow_backfill_provider.core.scan.columns import OwnColumns
from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder, KeyRange
from airflow_backfill_provider.core.scan.progress import (
    BackfillState,
    Completed,
    VnodeProgress,
)

VnodeRange = tuple[int, int]
"""Vnodes from the first to the last, both included."""


def by_vnode(key: KeyOrder, own: OwnColumns) -> KeyOrder:
    """Return the order of (vnode, key)."""
    return KeyOrder((KeyField(name=own.vnode, type="integer"), *key.fields))


def with_key(scan: KeyOrder, key: KeyOrder) -> KeyOrder:
    """Return the order of a scan, and in it of the key, so that it tells all rows apart."""
    return KeyOrder((*scan.fields, *(field for field in key.fields if field.name not in scan.names)))


class Scan(Protocol):
    """The order and bookkeeping of a strategy's snapshot read."""

    @property
    def order(self) -> KeyOrder:
        """The order of the scan's positions."""
        ...

    def initial(self, epoch: int) -> BackfillState:
        """
        Return the state of a job that has read nothing.

        :param epoch: the epoch after which the job begins.
        """
        ...

    def read(self, state: BackfillState) -> tuple[KeyRange, ...]:
        """Return the ranges that were read; only changes of these rows go through."""
        ...

    def unread(self, state: BackfillState, vnodes: VnodeRange | None = None) -> tuple[KeyRange, ...]:
        """Return the unread ranges in scan order; of all vnodes, or of some."""
        ...

    def advanced(
        self, state: BackfillState, *, epoch: int, ranges: Sequence[KeyRange], rows: Mapping[int, int]
    ) -> BackfillState:
        """
        Return the state after an epoch; the same state if the epoch read no range.

        :param ranges: the ranges that the epoch read.
        :param rows: snapshot rows that it read, by vnode.
        """
        ...

    def rows_in(self, vnodes: Sequence[VnodeProgress]) -> int:
        """Return the total of snapshot rows read so far in some vnodes."""
        ...

    def rows_of_one(self, rows: int) -> float:
        """
        Estimate the final row count of one vnode.

        :param rows: the rows that the job reads in total.
        """
        ...


def rows_read(scan: Scan, state: BackfillState) -> int:
    """Return the snapshot rows that a job has read so far."""
    return scan.rows_in(state.vnodes)


def divide(state: BackfillState, parallelism: int, weights: Sequence[float]) -> tuple[VnodeRange, ...]:
    """
    Divide the vnodes among parallel task runs, as contiguous ranges with about the same number of unread rows.

    :param parallelism: the most ranges; there are fewer if fewer vnodes are unfinished.
    :param weights: estimated unread rows by vnode.
    """
    unfinished = [vnode for vnode, progress in enumerate(state.vnodes) if not isinstance(progress, Completed)]
    count = min(parallelism, len(unfinished))
    if not count:
        return ()
    starts = _starts([max(weights[vnode], 1.0) for vnode in unfinished], count)
    firsts = [0, *(unfinished[start] for start in starts)]
    return tuple(zip(firsts, [*(first - 1 for first in firsts[1:]), len(state.vnodes) - 1], strict=True))


def _starts(weights: Sequence[float], count: int) -> Iterator[int]:
    """
    Yield the start of each range but the first.

    A range begins when the previous one has its share, and early enough to leave one vnode for each later range.
    """
    remaining, current, left = sum(weights), weights[0], count
    for index, weight in enumerate(weights[1:], start=1):
        if left == 1:
            return
        # Half of the next weight is added, so that the boundary lies on the nearer side of the next vnode.
        has_its_share = current + weight / 2 > remaining / left
        if has_its_share or len(weights) - index < left:
            yield index
            remaining, current, left = remaining - current, 0.0, left - 1
        current += weight
