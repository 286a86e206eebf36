"""
The barrier: everything that one epoch depends on, pinned before the first write (I2).

A barrier is a value. It is written to the barrier log as JSON, read back by whoever runs the epoch, and its digest
is stamped on every commit that the epoch makes. Ports ``Barrier`` with its ``EpochPair`` and mutation, and
adds what a streaming engine keeps in its stream: the windows of the upstreams and the new positions.

Positions here are text, in the order in which the job's strategy scans: the key, or (vnode, key). See
:mod:`~airflow_backfill_provider.core.scan`.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from airflow_backfill_provider.core.failures import GivenUp
from airflow_backfill_provider.core.frozen import Frozen
from airflow_backfill_provider.core.keys import EncodedPosition, KeyOrder, KeyRange
from airflow_backfill_provider.core.offset import BEGINNING, HistoryPoint, Offset
from airflow_backfill_provider.core.requester import Requester
from airflow_backfill_provider.core.sql import RELATION
from airflow_backfill_provider.core.table_version import TableVersions


class Mutation(StrEnum):
    """What a barrier changes about the job from this epoch on."""

    PAUSE = "pause"
    RESUME = "resume"
    THROTTLE = "throttle"
    RESCALE = "rescale"
    REPAIR = "repair"


class PinnedMutation(Frozen):
    """A change of the settings that this barrier is the first to carry."""

    mutation: Mutation
    value: int | None = None
    requested_by: str
    requested_at: dt.datetime


class UpstreamWindow(Frozen):
    """
    What one epoch covers of an upstream's history, half-open: ``(from_offset, to_offset]``.

    :param relation: the upstream's name in the query.
    :param table_id: the upstream's id; another table at the same path is refused.
    :param from_offset: the end of the previous epoch's window.
    :param to_offset: the changes run up to it, and the chunk is read at it unless changes wait.
    :param watermark: commit timestamp of ``to_offset``; never earlier than that of the epoch before.
    :param row_count: rows at the chunk's offset; an estimate for progress only.
    :param mark: how the source knows ``to_offset`` again; see :class:`.HistoryPoint`.
    """

    relation: str = RELATION
    table_id: str
    from_offset: Offset
    to_offset: Offset
    watermark: dt.datetime
    row_count: int
    mark: str | None = None

    @property
    def end(self) -> HistoryPoint:
        """The point that the job has come to with the epoch."""
        return HistoryPoint(offset=self.to_offset, mark=self.mark)

    @property
    def come_to(self) -> HistoryPoint | None:
        """The same, or ``None`` if the job has come to no offset yet: its first epoch was given up."""
        return None if self.to_offset == BEGINNING else self.end


class PinnedRange(Frozen):
    """A :class:`~airflow_backfill_provider.core.keys.KeyRange`, positions encoded as text."""

    after: EncodedPosition | None
    up_to: EncodedPosition | None

    @classmethod
    def of(cls, covered: KeyRange, order: KeyOrder) -> PinnedRange:
        """Write a range down."""
        return cls(after=order.encode(covered.after), up_to=order.encode(covered.up_to))

    def decoded(self, order: KeyOrder) -> KeyRange:
        """
        Return the range with its positions as values.

        :raises StateLayoutError: if they are not of the order's types.
        """
        return KeyRange(order.decode(self.after), order.decode(self.up_to))


def decoded(ranges: Iterable[PinnedRange], order: KeyOrder) -> tuple[KeyRange, ...]:
    """Return pinned ranges with their positions as values."""
    return tuple(pinned.decoded(order) for pinned in ranges)


class PinnedRead(Frozen):
    """
    Rows of the view, and the upstream's offset that it has them as of.

    :param ranges: where they lie.
    """

    ranges: tuple[PinnedRange, ...]
    offset: Offset


class PinnedPart(Frozen):
    """
    The part of an epoch's snapshot chunk that one run reads; several runs read side by side.

    :param ranges: what it reads, in scan order; several after a rescale.
    """

    ranges: tuple[PinnedRange, ...]


class Repair(Frozen):
    """
    Rows of the view to be written anew, whatever they are, as the upstream has them at ``to_offset``.

    :param vnodes: whole vnodes.
    :param keys: single keys, encoded as text.
    """

    vnodes: tuple[int, ...] = ()
    keys: tuple[EncodedPosition, ...] = ()

    def __add__(self, other: Repair) -> Repair:
        """Return both together."""
        return Repair(
            vnodes=tuple(sorted({*self.vnodes, *other.vnodes})), keys=tuple(dict.fromkeys((*self.keys, *other.keys)))
        )

    def __bool__(self) -> bool:
        """Tell whether there is anything to repair."""
        return bool(self.vnodes or self.keys)


_DECIDING = {
    "job",
    "incarnation",
    "epoch",
    "prev_epoch",
    "windows",
    "definition",
    "read_before",
    "read_as_of",
    "publishes",
    "older_offset",
    "parts",
    "repair",
}
"""The fields of a barrier that decide which rows its epoch writes."""


class Barrier(Frozen):
    """
    One epoch of one job, pinned.

    :param job: the job's name.
    :param incarnation: changes with every rebuild; part of every transaction id.
    :param epoch: consecutive, from 1.
    :param prev_epoch: the epoch whose committed state this one starts from.
    :param windows: one for each upstream. The first one is of the upstream that positions are of.
    :param definition: digest of the job's definition and of the upstream's schema as used.
    :param read_before: what was read before the epoch. Changes of these rows go through to the view, no others: the
        chunk, which is read at ``to_offset``, or a later one has them, or they wait. (The executor reads the chunk at
        the previous epoch and filters by the new position; both orders give the same rows, mixing them loses some.)
    :param read_as_of: the offsets that the view has these rows as of, where epochs left changes for a later one; empty
        if it has all of them as of ``from_offset``.
    :param publishes: whether the epoch applies the changes of what was read before; otherwise a later one does.
    :param older_offset: the offset that the chunk is read at, if it is not ``to_offset``: while changes wait, all
        chunks may be of one offset. Changes after it wait then for the chunk, too.
    :param parts: the snapshot chunk, divided among parallel runs; none if nothing is read (paused, or completed).
    :param vnode_ranges: the vnodes that each parallel run owns, until a rescale; empty if runs don't divide them.
    :param repair: rows to write anew, of those that were read before.
    :param completes: whether every vnode is Completed once the epoch is committed.
    :param rate_limit: the rate limit in force, snapshot rows.
    :param parallelism: the runs that share the vnodes.
    :param paused: whether the job was paused.
    :param mutations: changes of the settings that took effect with this barrier.
    :param settings_sequence: the settings' version that was in force.
    :param warnings: what the planner had to say.
    :param injected_by: who asked for it.
    :param injected_at: when.
    :param given_up: why nothing, or not all, of what was pinned was done. The other fields say what was done.
    """

    job: str
    incarnation: str
    epoch: int
    prev_epoch: int
    windows: Annotated[tuple[UpstreamWindow, ...], Field(min_length=1)]
    definition: str
    read_before: tuple[PinnedRange, ...]
    read_as_of: tuple[PinnedRead, ...] = ()
    publishes: bool = True
    older_offset: Offset | None = None
    parts: tuple[PinnedPart, ...]
    vnode_ranges: tuple[tuple[int, int], ...] = ()
    repair: Repair = Repair()
    completes: bool
    rate_limit: int | None
    parallelism: int = 1
    paused: bool
    mutations: tuple[PinnedMutation, ...] = ()
    settings_sequence: int
    warnings: tuple[str, ...] = ()
    injected_by: Requester
    injected_at: dt.datetime
    given_up: GivenUp | None = None

    @property
    def upstream(self) -> UpstreamWindow:
        """The window of the upstream that positions are of."""
        return self.windows[0]

    @property
    def digest(self) -> str:
        """Digest of all that decides which rows the epoch writes; not of who asked, or when."""
        deciding = self.model_dump(mode="json", include=_DECIDING)
        for window in deciding["windows"]:
            # It tells which log it is, and nothing of rows.
            window.pop("mark")
        return digest(deciding)

    @property
    def has_window(self) -> bool:
        """Whether the upstream got on since the previous epoch."""
        return self.upstream.to_offset > self.upstream.from_offset

    @property
    def chunk_offset(self) -> Offset:
        """The upstream's offset that the chunk is read at."""
        return self.upstream.to_offset if self.older_offset is None else self.older_offset

    @property
    def view_before(self) -> tuple[PinnedRead, ...]:
        """What the view shows before the epoch; each row once."""
        if self.read_as_of or not self.read_before:
            return self.read_as_of
        return (PinnedRead(ranges=self.read_before, offset=self.upstream.from_offset),)

    @property
    def view_after(self) -> tuple[PinnedRead, ...]:
        """What the view shows once the epoch is committed (I1); each row once."""
        chunk = tuple(pinned for part in self.parts for pinned in part.ranges)
        before = (PinnedRead(ranges=self.read_before, offset=self.upstream.to_offset),)
        reads = {read.offset: read.ranges for read in (before if self.publishes else self.view_before)}
        reads[self.chunk_offset] = _joined((*reads.get(self.chunk_offset, ()), *chunk))
        return tuple(PinnedRead(ranges=ranges, offset=offset) for offset, ranges in reads.items() if ranges)

    @property
    def oldest_offset_after(self) -> Offset:
        """The oldest offset that rows of the view are as of once the epoch is committed."""
        return min((read.offset for read in self.view_after), default=self.upstream.to_offset)

    @property
    def changes_after(self) -> Offset:
        """The offset after which the epoch looks for changes."""
        oldest = [read.offset for read in self.view_before] if self.publishes else []
        return min(oldest, default=self.upstream.from_offset)

    @property
    def has_changes(self) -> bool:
        """Whether the upstream got on since the offset after which the epoch looks for changes."""
        return self.upstream.to_offset > self.changes_after

    @property
    def most_rows(self) -> int:
        """
        The most rows that the epoch reads, of the upstream or of its changes, as far as that is known before.

        How many rows a window changed is not, so with changes, a repair or an arrangement to make it is all there are.
        """
        rows = self.upstream.row_count
        # A strategy with parallel runs may take in the changes of rows that were not read yet, too.
        looks_for_changes = self.has_changes and ((self.publishes and self.read_before) or self.vnode_ranges)
        if self.rate_limit is None or not self.parts or self.repair or looks_for_changes:
            return rows
        return min(self.rate_limit, rows)

    @property
    def single_offset(self) -> Offset | None:
        """The one offset that all rows of the view are as of once the epoch is committed; ``None`` of several."""
        offsets = {read.offset for read in self.view_after}
        return offsets.pop() if len(offsets) == 1 else None

    def rows_present(self, left: TableVersions | None, *, chunk: int, added: int) -> int | None:
        """
        Return how many rows were read, and are there, once the epoch is committed.

        :param left: what the previous epoch left, if that is known.
        :param chunk: rows of the chunk.
        :param added: rows that the changes add to what was read before; negative if they remove more.
        :returns: ``None`` if it is not known how many there were before.
        """
        before = 0 if not self.read_before else left.rows_present if left else None
        return None if before is None else before + chunk + added

    def chunk(self, order: KeyOrder) -> tuple[KeyRange, ...]:
        """Return what all parts read together, in scan order."""
        return decoded((pinned for part in self.parts for pinned in part.ranges), order)


def _joined(ranges: Iterable[PinnedRange]) -> tuple[PinnedRange, ...]:
    """Return ranges in scan order with those as one of which each begins where the one before ends."""
    joined: list[PinnedRange] = []
    for following in ranges:
        if joined and joined[-1].up_to is not None and joined[-1].up_to == following.after:
            joined[-1] = PinnedRange(after=joined[-1].after, up_to=following.up_to)
        else:
            joined.append(following)
    return tuple(joined)


def digest(value: Any) -> str:
    """Return a short digest of a JSON value, independent of the order of its fields."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:32]
