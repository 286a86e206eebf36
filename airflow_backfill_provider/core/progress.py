"""
How far a backfill is, per vnode.

Ports ``BackfillProgressPerVnode`` and ``BackfillState``: a vnode has not started, is in progress at a position, or
is completed. What was committed is one :class:`BackfillState`; an epoch computes the next one from its pinned
barrier and the number of rows it read, and :meth:`BackfillState.require_successor` holds I3 (monotonic).
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_backfill_provider.core.errors import StateError
from airflow_backfill_provider.core.keys import KeyOrder, Position


@dataclass(frozen=True, slots=True)
class NotStarted:
    """No snapshot row of the vnode was read; every change of it is dropped."""

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
    The whole snapshot was read; every change goes through.

    :param position: the last position before the chunk that had no upper bound, or ``None`` if that was the
        first chunk (an empty upstream among them). Nothing depends on it any more.
    :param row_count: snapshot rows read.
    """

    position: Position | None
    row_count: int


VnodeProgress = NotStarted | InProgress | Completed


def position_of(progress: VnodeProgress) -> Position | None:
    """Return the position that the vnode's progress records, if it has one."""
    return None if isinstance(progress, NotStarted) else progress.position


@dataclass(frozen=True, slots=True)
class SnapshotRange:
    """
    The chunk of the snapshot that one epoch reads: keys in ``(after, up_to]``.

    :param after: exclusive lower bound; ``None`` reads from the first row.
    :param up_to: inclusive upper bound; ``None`` reads to the last row, which completes the vnodes.
    """

    after: Position | None
    up_to: Position | None


@dataclass(frozen=True, slots=True)
class BackfillState:
    """
    The progress of every vnode, as one epoch's commit left it.

    :param epoch: the epoch that wrote it; 0 before the first.
    :param vnodes: one progress per vnode; the index is the vnode.
    """

    epoch: int
    vnodes: tuple[VnodeProgress, ...]

    @classmethod
    def initial(cls, vnode_count: int) -> BackfillState:
        """Return the state of a job that has read nothing."""
        return cls(epoch=0, vnodes=(NotStarted(),) * vnode_count)

    @property
    def completed(self) -> bool:
        """Whether every vnode is Completed, in whatever mixture with others they got there."""
        return all(isinstance(progress, Completed) for progress in self.vnodes)

    @property
    def shared(self) -> VnodeProgress:
        """
        The one progress that all vnodes share under ``no_shuffle``.

        :raises StateError: if vnodes differ. (The executor asserts the same on recovery.)
        """
        first = self.vnodes[0]
        if any(progress != first for progress in self.vnodes):
            raise StateError(
                f"the vnodes' states differ as of epoch {self.epoch}, but no_shuffle keeps one position for all; "
                "the state table was changed by something else: rebuild the job"
            )
        return first

    def advanced(self, *, epoch: int, chunk: SnapshotRange | None, rows_read: int) -> BackfillState:
        """
        Return the state after an epoch of ``no_shuffle``.

        As in the executor, every vnode records the same position and the same count of rows read in all.

        :param epoch: the epoch that read the chunk.
        :param chunk: what it read, or ``None`` if it read no snapshot; then the state stays as it is.
        :param rows_read: rows in the chunk.
        """
        if chunk is None:
            return self
        count = self.shared.row_count + rows_read
        progress: VnodeProgress = (
            Completed(chunk.after, count) if chunk.up_to is None else InProgress(chunk.up_to, count)
        )
        return BackfillState(epoch=epoch, vnodes=(progress,) * len(self.vnodes))

    def require_successor(self, after: BackfillState, order: KeyOrder) -> None:
        """
        Refuse a state that would go back (I3).

        :param after: the state about to be committed on top of this one.
        :raises StateError: showing both sides.
        """
        if len(after.vnodes) != len(self.vnodes):
            raise StateError(f"the state has {len(self.vnodes)} vnodes, the next one {len(after.vnodes)}")
        if after.epoch < self.epoch:
            raise StateError(f"epoch {after.epoch} cannot be committed after epoch {self.epoch}")
        for vnode, (old, new) in enumerate(zip(self.vnodes, after.vnodes, strict=True)):
            if old is not new and not _is_successor(old, new, order):
                raise StateError(f"vnode {vnode} would go back from {old} to {new}")


def _is_successor(old: VnodeProgress, new: VnodeProgress, order: KeyOrder) -> bool:
    if new.row_count < old.row_count:
        return False
    match old, new:
        case Completed(), _:
            return old == new
        case _, Completed():
            return True
        case InProgress(), InProgress():
            return order.compare(old.position, new.position) <= 0
        case InProgress(), NotStarted():
            return False
        case _:
            return True
