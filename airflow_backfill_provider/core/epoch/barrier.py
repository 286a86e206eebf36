"""
The barrier: everything that one epoch depends on, pinned before the first write (I2).

A barrier is a value. It is written to the barrier log as JSON and read back by each process that runs the epoch. Its
digest is stamped on every commit of the epoch. Ports ``Barrier`` with its ``EpochPair`` and mutation, and adds what a
streaming engine keeps in its stream: the windows of the upstreams and the new positions.

Positions are encoded as text, in the scan order of the job's strategy: by key, or by (vnode, key). See
:mod:`~airflow_backfill_provider.core.scan.scan`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from airflow_backfill_provider.core.digest import digest
from airflow_backfill_provider.core.epoch.failures import GivenUp
from airflow_backfill_provider.core.epoch.repair import Repair
from airflow_backfill_provider.core.epoch.window import UpstreamWindow
from airflow_backfill_provider.core.errors import StateError
from airflow_backfill_provider.core.frozen import Frozen
from airflow_backfill_provider.core.job.definition_change import ColumnsChange, FilterChange
from airflow_backfill_provider.core.job.rate_limit import PinnedRate, RateLimit
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.core.refresh import PinnedRefresh
from airflow_backfill_provider.core.scan.keys import EncodedPosition, KeyOrder, KeyRange
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.scan.table_version import TableVersions


class Mutation(StrEnum):
    """A change of the job that takes effect with a barrier."""

    PAUSE = "pause"
    RESUME = "resume"
    THROTTLE = "throttle"
    RESCALE = "rescale"
    REPAIR = "repair"
    CHANGE = "change"


class PinnedMutation(Frozen):
    """A change of the settings that takes effect with this barrier."""

    mutation: Mutation
    value: RateLimit = None
    requested_by: str
    requested_at: dt.datetime


class PinnedRange(Frozen):
    """A :class:`~airflow_backfill_provider.core.scan.keys.KeyRange` with its positions encoded as text."""

    after: EncodedPosition | None
    up_to: EncodedPosition | None

    @classmethod
    def of(cls, covered: KeyRange, order: KeyOrder) -> PinnedRange:
        """Encode a range."""
        return cls(after=order.encode(covered.after), up_to=order.encode(covered.up_to))

    def decoded(self, order: KeyOrder) -> KeyRange:
        """
        Return the range with its positions decoded.

        :raises StateLayoutError: if a position does not have the order's types.
        """
        return KeyRange(order.decode(self.after), order.decode(self.up_to))


def decoded(ranges: Iterable[PinnedRange], order: KeyOrder) -> tuple[KeyRange, ...]:
    """Return pinned ranges with their positions decoded."""
    return tuple(pinned.decoded(order) for pinned in ranges)


class PinnedRead(Frozen):
    """
    Rows of the view, and the upstream's offset that they are as of.

    :param ranges: the ranges of the rows.
    """

    ranges: tuple[PinnedRange, ...]
    offset: Offset


class PinnedPart(Frozen):
    """
    The part of an epoch's snapshot chunk that one task run reads; parts are read in parallel.

    :param ranges: the part's ranges, in scan order; several after a rescale.
    """

    ranges: tuple[PinnedRange, ...]


class CountedRows(Frozen):
    """
    The snapshot rows that were left to read when they were counted last.

    :param rows: about how many.
    :param epochs: how many epochs have read rows since then, up to the one before the barrier's own.
    """

    rows: int
    epochs: int = 0


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
    "filter_change",
    "columns_change",
}
"""The fields of a barrier that decide which rows its epoch writes."""


class Barrier(Frozen):
    """
    One epoch of one job, pinned.

    :param job: the job's name.
    :param incarnation: changes with every rebuild; part of every transaction id.
    :param epoch: consecutive, from 1.
    :param prev_epoch: the previous epoch; this one starts from its committed state.
    :param windows: the window of each upstream; the first is of the upstream that leads, which chunks are read from.
    :param instant: the instant that the windows of several upstreams end at; ``None`` if there is only one upstream,
        whose window ends at its newest offset.
    :param definition: digest of the job's definition and of the schema of the used columns.
    :param read_before: the ranges that were read before the epoch. Only changes of these rows go to the view. All other
        changes are in the chunk, which is read at ``to_offset``, or in a later chunk, or they wait. (The executor reads
        the chunk at the previous epoch and filters by the new position. Both orders give the same rows; mixing them
        loses rows.)
    :param read_as_of: the offsets that these rows of the view are as of, if changes wait for a later epoch; empty if
        all are as of ``from_offset``.
    :param publishes: whether the epoch applies the changes of rows that were read before; otherwise a later epoch does.
    :param refresh: what the epoch computes to apply the changes; ``None`` if it is what they touch, as always without
        ``refresh``. Both ways give the same rows.
    :param older_offset: the offset that the chunk is read at, if it is not ``to_offset``. While changes wait, several
        chunks may be read at one offset; changes of the chunk after this offset wait, too.
    :param parts: the snapshot chunk, divided among parallel task runs; empty if nothing is read (paused or completed).
    :param vnode_ranges: the vnodes of each parallel task run, until a rescale; empty if the strategy does not divide
        vnodes.
    :param repair: rows to rewrite, of those that were read before.
    :param filter_change: the conditions of the query that the view has and of the one that it gets; ``None`` if the
        query stays as it is, or the epoch compares all rows instead.
    :param columns_change: the columns that the view gets or loses; ``None`` if it keeps its columns.
    :param completes: whether every vnode is Completed once the epoch is committed.
    :param withheld: whether the view is not marked as finished, even if it is complete, because nobody has approved it.
    :param rate_limit: the rate limit in force, in snapshot rows.
    :param rate: why it is another one than that in the settings; ``None`` if it is the same.
    :param parallelism: the number of task runs that share the vnodes.
    :param paused: whether the job was paused.
    :param mutations: changes of the settings that take effect with this barrier.
    :param settings_sequence: the number of the settings' record in force.
    :param replay: the number of the epoch among those that replay the changes after history was read, from 1; 0 if it
        is none of them. The next barrier's number follows from it.
    :param unread: the snapshot rows that were left when they were counted last; ``None`` if that is not known.
    :param held_up: how many epochs before it left about as many rows as they found, because writers added others.
    :param warnings: warnings about the chunk.
    :param injected_by: who requested the epoch.
    :param injected_at: when.
    :param given_up: why the epoch was given up, whole or in part. The other fields say what was done.
    """

    job: str
    incarnation: str
    epoch: int
    prev_epoch: int
    windows: Annotated[tuple[UpstreamWindow, ...], Field(min_length=1)]
    instant: Annotated[dt.datetime | None, Field(exclude_if=lambda instant: instant is None)] = None
    definition: str
    read_before: tuple[PinnedRange, ...]
    read_as_of: tuple[PinnedRead, ...] = ()
    publishes: bool = True
    refresh: Annotated[PinnedRefresh | None, Field(exclude_if=lambda refresh: refresh is None)] = None
    older_offset: Offset | None = None
    parts: tuple[PinnedPart, ...]
    vnode_ranges: tuple[tuple[int, int], ...] = ()
    repair: Repair = Repair()
    filter_change: Annotated[FilterChange | None, Field(exclude_if=lambda change: change is None)] = None
    columns_change: Annotated[ColumnsChange | None, Field(exclude_if=lambda change: change is None)] = None
    completes: bool
    withheld: Annotated[bool, Field(exclude_if=lambda withheld: not withheld)] = False
    rate_limit: int | None
    rate: PinnedRate | None = None
    parallelism: int = 1
    paused: bool
    mutations: tuple[PinnedMutation, ...] = ()
    settings_sequence: int
    replay: int = 0
    unread: CountedRows | None = None
    held_up: int = 0
    warnings: tuple[str, ...] = ()
    injected_by: Requester
    injected_at: dt.datetime
    given_up: GivenUp | None = None

    @property
    def upstream(self) -> UpstreamWindow:
        """The window of the upstream that leads, which the snapshot is read from."""
        return self.windows[0]

    @property
    def others(self) -> Mapping[str, UpstreamWindow]:
        """The windows of the other upstreams, by their names in the query; empty for most jobs."""
        return {window.relation: window for window in self.windows[1:]}

    def window(self, relation: str) -> UpstreamWindow:
        """
        Return the window of an upstream.

        :raises StateError: if the barrier has none of this name.
        """
        found = next((window for window in self.windows if window.relation == relation), None)
        if found is None:
            raise StateError(f"epoch {self.epoch} of job {self.job} has no window of upstream {relation}")
        return found

    @property
    def digest(self) -> str:
        """Digest of the fields that decide which rows the epoch writes; requester and time are left out."""
        deciding = self.model_dump(mode="json", include=_DECIDING)
        for window in deciding["windows"]:
            # The mark identifies the log; rows do not depend on it.
            window.pop("mark")
        return digest(deciding)

    @property
    def has_window(self) -> bool:
        """Whether any upstream has new offsets since the previous epoch."""
        return any(window.is_wide for window in self.windows)

    @property
    def chunk_offset(self) -> Offset:
        """The upstream's offset that the chunk is read at."""
        return self.upstream.to_offset if self.older_offset is None else self.older_offset

    @property
    def view_before(self) -> tuple[PinnedRead, ...]:
        """The rows that the view has before the epoch, each once."""
        if self.read_as_of or not self.read_before:
            return self.read_as_of
        return (PinnedRead(ranges=self.read_before, offset=self.upstream.from_offset),)

    @property
    def view_with_changes(self) -> tuple[PinnedRead, ...]:
        """The rows that the view has once the epoch's changes are written, and before its chunk is, each once."""
        if not self.publishes:
            return self.view_before
        return (PinnedRead(ranges=self.read_before, offset=self.upstream.to_offset),) if self.read_before else ()

    @property
    def view_after(self) -> tuple[PinnedRead, ...]:
        """The rows that the view has once the epoch is committed (I1), each once."""
        chunk = tuple(pinned for part in self.parts for pinned in part.ranges)
        reads = {read.offset: read.ranges for read in self.view_with_changes}
        reads[self.chunk_offset] = _joined((*reads.get(self.chunk_offset, ()), *chunk))
        return tuple(PinnedRead(ranges=ranges, offset=offset) for offset, ranges in reads.items() if ranges)

    @property
    def oldest_offset_after(self) -> Offset:
        """The oldest offset that rows of the view are as of once the epoch is committed."""
        return min((read.offset for read in self.view_after), default=self.upstream.to_offset)

    @property
    def kept_up_to(self) -> Offset:
        """
        The offset that a strategy's own tables have the unread rows as of, before the epoch.

        While changes wait, they wait for these tables, too, so this is the offset of the newest chunk.
        """
        return max((read.offset for read in self.view_before), default=self.upstream.from_offset)

    @property
    def kept_up_to_after(self) -> Offset:
        """The same once the epoch is committed; see :attr:`kept_up_to`."""
        return max((read.offset for read in self.view_after), default=self.upstream.to_offset)

    @property
    def changes_after(self) -> Offset:
        """The offset after which the epoch looks for changes."""
        oldest = [read.offset for read in self.view_before] if self.publishes else []
        return min(oldest, default=self.upstream.from_offset)

    @property
    def has_changes(self) -> bool:
        """Whether the epoch has changes to look for: an upstream has newer offsets, and changes do not wait."""
        return self.lead_has_changes or bool(self.changed_others)

    @property
    def lead_has_changes(self) -> bool:
        """Whether the epoch has changes to look for of the upstream that leads."""
        return self.publishes and self.upstream.to_offset > self.changes_after

    @property
    def changed_others(self) -> Mapping[str, UpstreamWindow]:
        """The windows of the other upstreams in which the epoch has changes to look for, by their names."""
        return {name: window for name, window in self.others.items() if self.publishes and window.is_wide}

    @property
    def rewrites_rows(self) -> bool:
        """Whether the epoch also writes rows that did not change: of a repair, or because of another filter."""
        return bool(self.repair) or self.filter_change is not None

    @property
    def computes_whole(self) -> bool:
        """Whether the epoch computes the whole view, so that it does not read the changes."""
        if self.columns_change is not None:
            return True
        return self.has_changes and self.refresh is not None and self.refresh.whole

    @property
    def most_rows(self) -> int:
        """
        The most rows that the epoch reads, of the upstream or of its changes, as far as known before it runs.

        The number of changed rows in a window is unknown. So an epoch with changes, with a repair or without a chunk
        counts as all rows.
        """
        rows = self.upstream.row_count
        # A strategy with parallel task runs may also keep the changes of rows that were not read yet.
        looks_for_changes = self.has_changes and (self.read_before or self.vnode_ranges)
        if self.rate_limit is None or not self.parts or self.rewrites_rows or looks_for_changes:
            return rows
        return min(self.rate_limit, rows)

    @property
    def was_unfinished(self) -> bool:
        """Whether a vnode was not Completed before the epoch; then it reads a chunk, or one is left afterwards."""
        return bool(self.parts) or not self.completes

    @property
    def single_offset(self) -> Offset | None:
        """The one offset that all rows of the view are as of once the epoch is committed; ``None`` if they differ."""
        offsets = {read.offset for read in self.view_after}
        return offsets.pop() if len(offsets) == 1 else None

    def rows_present(self, left: TableVersions | None, *, chunk: int, added: int) -> int | None:
        """
        Return the number of read rows that the upstream still has, once the epoch is committed.

        :param left: the tables as the previous epoch left them; ``None`` if the epoch before it is of another
            incarnation, such as one that a delayed injector pinned.
        :param chunk: rows of the chunk.
        :param added: rows that the changes add to what was read before; negative if they remove more.
        :returns: ``None`` if the number before the epoch is unknown.
        """
        before = 0 if not self.read_before else left.rows_present if left else None
        return None if before is None else before + chunk + added

    def chunk(self, order: KeyOrder) -> tuple[KeyRange, ...]:
        """Return the ranges of all parts, in scan order."""
        return decoded((pinned for part in self.parts for pinned in part.ranges), order)


def _joined(ranges: Iterable[PinnedRange]) -> tuple[PinnedRange, ...]:
    """Return ranges in scan order, with adjacent ranges joined."""
    joined: list[PinnedRange] = []
    for following in ranges:
        if joined and joined[-1].up_to is not None and joined[-1].up_to == following.after:
            joined[-1] = PinnedRange(after=joined[-1].after, up_to=following.up_to)
        else:
            joined.append(following)
    return tuple(joined)
