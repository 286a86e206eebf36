"""
The progress of a backfill, per vnode.

Ports ``BackfillProgressPerVnode`` and ``BackfillState``: a vnode has not started, is in progress at a position, or is
completed. One :class:`BackfillState` is the committed progress. The strategy's scan advances it
(:mod:`~airflow_backfill_provider.core.scan.scan`), and :meth:`BackfillState.require_successor` enforces I3 (monotonic).
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_backfill_provider.core.errors import StateError
from airflow_backfill_provider.core.scan.keys import KeyOrder, Position


@dataclass(frozen=True, slots=True)
class NotStarted:
    """No snapshot row of the vnode was read, so all of its changes are dropped."""

    row_count: int = 0


@dataclass(frozen=True, slots=True)
class InProgress:
    """
    Snapshot rows up to and including ``position`` were read.

    :param position: a point of the key space; not necessarily the key of a row.
    :param row_count: snapshot rows read so far.
    """

    position: Position
    row_count: int


@dataclass(frozen=True, slots=True)
class Completed:
    """
    The vnode's whole snapshot was read, so all of its changes go through.

    :param position: the position before the last chunk, which has no upper bound; ``None`` if that was the only chunk,
        as for an empty upstream. It is not used.
    :param row_count: snapshot rows read.
    """

    position: Position | None
    row_count: int


VnodeProgress = NotStarted | InProgress | Completed


def position_of(progress: VnodeProgress) -> Position | None:
    """Return the position in a vnode's progress, if it has one."""
    return None if isinstance(progress, NotStarted) else progress.position


@dataclass(frozen=True, slots=True)
class BackfillState:
    """
    The progress of every vnode, as committed by one epoch.

    :param epoch: the epoch that wrote it; 0 before the first.
    :param vnodes: one progress per vnode; the index is the vnode.
    """

    epoch: int
    vnodes: tuple[VnodeProgress, ...]

    @property
    def completed(self) -> bool:
        """Whether every vnode is Completed."""
        return all(isinstance(progress, Completed) for progress in self.vnodes)

    def require_successor(self, after: BackfillState, order: KeyOrder) -> None:
        """
        Refuse a next state that goes back (I3).

        :param after: the state to commit next.
        :raises StateError: with both sides.
        """
        if len(after.vnodes) != len(self.vnodes):
            raise StateError(f"the state has {len(self.vnodes)} vnodes, but the next one has {len(after.vnodes)}")
        if after.epoch < self.epoch:
            raise StateError(f"epoch {after.epoch} cannot be committed after epoch {self.epoch}")
        for vnode, (old, new) in enumerate(zip(self.vnodes, after.vnodes, strict=True)):
            if old is not new and not _is_successor(old, new, order):
                raise StateError(f"vnode {vnode} would go back from {old} to {new}")


def _is_successor(old: VnodeProgress, new: VnodeProgress, order: KeyOrder) -> bool:
    if new.row_count < old.row_count:
        return False
    if isinstance(old, Completed):
        return old == new
    if isinstance(old, InProgress) and isinstance(new, InProgress):
        return order.compare(old.position, new.position) <= 0
    return isinstance(old, NotStarted) or isinstance(new, Completed)
