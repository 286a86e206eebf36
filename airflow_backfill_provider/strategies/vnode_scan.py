"""A scan by (vnode, key), in which each vnode has its own position and completes alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from airflow_backfill_provider.core.errors import StateError
from airflow_backfill_provider.core.scan.columns import OwnColumns
from airflow_backfill_provider.core.scan.keys import KeyOrder, KeyRange, Position
from airflow_backfill_provider.core.scan.progress import (
    BackfillState,
    Completed,
    InProgress,
    NotStarted,
    VnodeProgress,
    position_of,
)
from airflow_backfill_provider.core.scan.scan import VnodeRange, by_vnode


@dataclass(frozen=True, slots=True)
class VnodeScan:
    """
    The scan by (vnode, key): one vnode after the other.

    :param key_order: the key's order.
    :param vnode_count: the number of vnodes.
    :param vnodes: the job's vnodes.
    :param own: the names of the package's own columns.
    """

    key_order: KeyOrder
    vnode_count: int
    vnodes: frozenset[int]
    own: OwnColumns = field(default_factory=OwnColumns)

    def initial(self, epoch: int) -> BackfillState:
        """Return a state with the job's vnodes not started, and the others completed."""
        states = (NotStarted() if vnode in self.vnodes else Completed(None, 0) for vnode in range(self.vnode_count))
        return BackfillState(epoch=epoch, vnodes=tuple(states))

    @property
    def order(self) -> KeyOrder:
        """The vnode, then the key."""
        return by_vnode(self.key_order, self.own)

    def read(self, state: BackfillState) -> tuple[KeyRange, ...]:
        """Return the whole completed vnodes, and those in progress up to their positions."""
        return self.merged(
            self._range((vnode - 1,), (vnode,) if isinstance(progress, Completed) else (vnode, *progress.position))
            for vnode, progress in enumerate(state.vnodes)
            if vnode in self.vnodes and not isinstance(progress, NotStarted)
        )

    def unread(self, state: BackfillState, vnodes: VnodeRange | None = None) -> tuple[KeyRange, ...]:
        """
        Return the rest of each vnode in progress, and then the vnodes that have not started.

        After a rescale a task run may own several vnodes in progress. They go first, so that at most one remains.
        """
        first, last = vnodes or (0, self.vnode_count - 1)
        owned = [(vnode, state.vnodes[vnode]) for vnode in range(first, last + 1)]
        begun = (
            self._range((vnode, *progress.position), (vnode,))
            for vnode, progress in owned
            if isinstance(progress, InProgress)
        )
        untouched = (
            self._range((vnode - 1,), (vnode,)) for vnode, progress in owned if isinstance(progress, NotStarted)
        )
        return self.merged((*begun, *untouched))

    def advanced(
        self, state: BackfillState, *, epoch: int, ranges: Sequence[KeyRange], rows: Mapping[int, int]
    ) -> BackfillState:
        """Return the state with each range's vnodes completed, except a vnode in which the range ends."""
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

    def rows_in(self, vnodes: Sequence[VnodeProgress]) -> int:
        """Return the sum over the vnodes."""
        return sum(progress.row_count for progress in vnodes)

    def rows_of_one(self, rows: int) -> float:
        """Return the rows of one vnode; rows are spread by a hash, so each vnode has about the same number."""
        return rows / len(self.vnodes)

    def vnodes_of(self, covered: KeyRange) -> range:
        """Return the vnodes of the keys in a range."""
        first = 0 if covered.after is None else _vnode(covered.after) + (len(covered.after) == 1)
        last = self.vnode_count - 1 if covered.up_to is None else _vnode(covered.up_to)
        return range(first, last + 1)

    def _range(self, after: Position, up_to: Position) -> KeyRange:
        return KeyRange(None if after == (-1,) else after, None if up_to == (self.vnode_count - 1,) else up_to)

    def merged(self, ranges: Iterable[KeyRange]) -> tuple[KeyRange, ...]:
        """Join each range with the one before it if no vnode or key of the job lies in between."""
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


def _vnode(position: Position) -> int:
    vnode = position[0]
    if not isinstance(vnode, int):
        raise StateError(f"the position {position} does not begin with a vnode; rebuild the job")
    return vnode
