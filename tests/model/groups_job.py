"""
A view of groups as a job keeps it: its rules, its tables, and what an epoch finds in them.

**The frame.** An epoch turns the rows R0, read before it and as of its window's start, into the rows R1, read after it
and as of the window's end. The difference is signed: a chunk counts plus; of each changed key, the old image counts
minus and the new image plus, each only if *its own* unit was read. I1 is then: the view is the query over R1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple
from typing import Protocol as Interface

from tests.model.groups_queries import GroupQuery, Stored
from tests.model.groups_rows import Images, Sale, first_image, images_of, sales
from tests.model.groups_scan import UNREAD, Barrier, Order, Position, Positions, Scan
from tests.model.groups_tables import Table
from tests.model.upstream import Change, as_stream
from tests.strategies import Key, Row

Visibility = Literal["every_epoch", "on_finish", "moving"]
"""
``moving`` is ``on_finish`` with chunks as of their own window's end, so that rows are read at several offsets.
"""


@dataclass(frozen=True, slots=True)
class Strategy:
    """How history is read, and when the view gets the changes behind it."""

    order: Order
    visibility: Visibility

    def __str__(self) -> str:
        return f"{self.order}, {self.visibility}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """The rules; each default is what keeps an invariant."""

    # The frame.
    chunk_at: Literal["end", "start"] = "end"
    filter_by: Literal["pinned", "before", "after"] = "pinned"
    image_passes: Literal["by its own unit", "by the new unit", "if the old one does", "if the new one does"] = (
        "by its own unit"
    )
    old_image: Callable[[list[Change]], Sale | None] = first_image
    net_by: Literal["vnode and key", "key"] = "vnode and key"
    waiting_after: Literal["base", "last window"] = "base"
    filtered: Literal["before netting", "after netting"] = "before netting"
    last_chunk: Literal["unbounded", "bounded"] = "unbounded"
    cut_chunk: Literal["joins the changes", "appended alone"] = "joins the changes"
    arranged: Literal["all units", "read units"] = "all units"
    parts: Literal["pinned", "not pinned"] = "pinned"
    # Units.
    touched_by: Literal["both images", "new images"] = "both images"
    matched_by: Literal["all columns", "any column", "each column apart"] = "all columns"
    null_safe: Literal["every column", "first column", "no column"] = "every column"
    null_position: Literal["a position", "no position"] = "a position"
    slice_over: Literal["read set", "chunk"] = "read set"
    # Folds.
    gone_if: Literal["no rows", "sum is zero"] = "no rows"
    extremes: Literal["read again", "kept"] = "read again"
    hidden_state: Literal["at since", "newest"] = "at since"
    values: Literal["absolute", "increments"] = "absolute"
    # Writes.
    state_fenced: bool = True
    arrangement_has_txn: bool = True
    merge_has_txn: bool = True
    empty_removal_has_txn: bool = True
    files_checked: bool = True
    hidden_commits: Literal["one or more", "one"] = "one or more"
    """How many commits an epoch makes while nobody reads the view."""
    compacted: Literal[
        "as they are",
        "without tombstones",
        "newest alone",
        "newest alone, with the base",
        "stamped anew, with the base",
    ] = "as they are"
    repair: Literal[
        "joins", "second commit", "beside the chunk", "adds to the damage", "inserts only", "of unread rows, too"
    ] = "joins"
    # A rebuild that keeps the view in service, and a view that reads this one.
    successor_base: Literal["pinned", "newest"] = "pinned"
    hand_over: Literal["one commit", "removal, then rows"] = "one commit"
    hand_over_when: Literal["finished and as new", "finished", "as new"] = "finished and as new"
    hand_over_fences: bool = True
    downstream_reads: Literal["logged", "newest"] = "logged"


class History(Interface):
    """What a view of groups reads: a table with time travel and a change feed, or the rows of a join."""

    @property
    def latest(self) -> int:
        """The newest version."""
        ...

    def as_of(self, version: int) -> Mapping[Key, Row]:
        """Return the rows at a version."""

    def changes(self, after: int, up_to: int) -> Iterable[Change]:
        """Return the feed of the versions in ``(after, up_to]``."""


class Entry(NamedTuple):
    """A row of the arrangement: the epoch that appended it, its vnode, its key, and the row or a tombstone."""

    epoch: int
    vnode: int
    key: Key
    row: Sale | None


class Job:
    """One incarnation: its view, its arrangement, and what it committed last."""

    def __init__(
        self,
        upstream: History,
        query: GroupQuery,
        strategy: Strategy,
        base: int,
        protocol: Protocol,
        *,
        incarnation: int = 1,
    ) -> None:
        self.upstream, self.query, self.strategy, self.protocol = upstream, query, strategy, protocol
        self.base, self.incarnation = base, incarnation
        self.scan = Scan(query, strategy.order)
        self.view: Table[Stored] = Table()
        read = base
        if protocol.successor_base == "newest" and incarnation > 1:
            read = min(base + 2, upstream.latest)
        self.base_rows = self.rows_at(read)
        self.arrangement: Table[Entry] = Table(
            Entry(0, self.scan.vnode(row), row.key, row)
            for row in (self.to_arrange(self.base_rows) if self.keeps_arrangement else ())
        )
        self.epoch = 0
        self.since = 0
        self.committed_to = base
        self.positions: Positions = (UNREAD,) * self.scan.vnodes
        self.is_finished = False

    def part(self, name: str, part: int) -> str:
        """Return the id of a transaction."""
        return f"{self.incarnation}/{name}/{part}"

    @property
    def keeps_arrangement(self) -> bool:
        """Whether the rows are copied into an arrangement."""
        return self.scan.knows_units

    def check(self, barrier: Barrier, vnodes: Collection[int]) -> None:
        """Refuse what cannot be done right, before a part of an epoch writes anything (I6)."""

    def outlives(self, row: Stored, fresh: Callable[[], Collection[Stored]]) -> bool:
        """Return whether a row of a unit that is replaced by ``fresh`` rows stays: never."""
        return False

    def rows_at(self, version: int) -> list[Sale]:
        """Return all rows as of a version."""
        return sales(self.upstream.as_of(version).values())

    def rows_as_of(self, barrier: Barrier) -> list[Sale]:
        """Return all rows, read or not, as of the window's end."""
        return self.arranged(barrier.epoch) if self.keeps_arrangement else self.rows_at(barrier.end)

    def rows_before(self, barrier: Barrier) -> list[Sale]:
        """Return all rows as the previous epoch had them; V0's while changes wait."""
        if self.keeps_arrangement:
            return self.arranged(barrier.epoch - 1)
        return self.base_rows if barrier.chunk_at_base else self.rows_at(barrier.start)

    def rows_to_plan(self, barrier: Barrier) -> list[Sale]:
        """Return all rows as the planner of the next chunk knows them."""
        return self.arranged(self.epoch) if self.keeps_arrangement else self.rows_before(barrier)

    def chunk_rows(self, barrier: Barrier, vnodes: Collection[int]) -> list[Sale]:
        """Return the rows of which an epoch's chunk is; those outside of some vnodes may be missing."""
        is_before = barrier.chunk_at_base or self.protocol.chunk_at == "start"
        return self.rows_before(barrier) if is_before else self.rows_as_of(barrier)

    def is_in_chunk(self, barrier: Barrier, row: Sale) -> bool:
        """Return whether an epoch's chunk has a row: it is read after the epoch, and was not before."""
        return not self.is_read(barrier.before, row) and self.is_read(barrier.after, row)

    def to_arrange(self, rows: list[Sale]) -> list[Sale]:
        """Return what the arrangement has of some rows: the rows."""
        return rows

    def images_to_arrange(self, after: int, up_to: int) -> list[Images]:
        """Return both images of what changes in the arrangement in ``(after, up_to]``."""
        return self.images(after, up_to)

    def arranged(self, epoch: int) -> list[Sale]:
        """Return the arrangement's rows as of an epoch: of each vnode and key, the newest entry counts."""
        newest: dict[tuple[int, Key], Sale | None] = {}
        for entry in sorted(self.arrangement.rows(), key=lambda entry: entry.epoch):
            if entry.epoch <= epoch:
                newest[entry.vnode, entry.key] = entry.row
        return [row for row in newest.values() if row is not None]

    def entries(self, barrier: Barrier) -> list[Entry]:
        """Return what the epoch appends to the arrangement: a tombstone and a row, where a row changes its vnode."""
        found: dict[tuple[int, Key], Entry] = {}
        pairs = self.images_to_arrange(barrier.arranged_up_to, barrier.end)
        for is_tombstone, images in ((True, [old for old, _ in pairs]), (False, [new for _, new in pairs])):
            for row in images:
                if row is not None and (
                    self.protocol.arranged == "all units" or self.scan.is_read(barrier.before, row)
                ):
                    vnode = self.scan.vnode(row)
                    found[vnode, row.key] = Entry(barrier.epoch, vnode, row.key, None if is_tombstone else row)
        return list(found.values())

    def compact_arrangement(self) -> None:
        """Compact the files of changes, never the base."""
        self.arrangement.compact(self._compacted, first=0 if "with the base" in self.protocol.compacted else 1)

    def images(self, after: int, up_to: int) -> list[Images]:
        """Return both images of each key that changed in ``(after, up_to]``."""
        pairs = self.images_at_ends(after, up_to)
        if self.protocol.net_by == "key":  # one change of each key: the tombstone in its old vnode is lost
            return [
                (None if old and new and self.scan.vnode(old) != self.scan.vnode(new) else old, new)
                for old, new in pairs
            ]
        return pairs

    def images_at_ends(self, after: int, up_to: int) -> list[Images]:
        """Return the image at the start and at the end of ``(after, up_to]`` of each key that changed."""
        return images_of(self.upstream, after, up_to, old_image=self.protocol.old_image)

    def deltas(self, barrier: Barrier) -> tuple[list[Sale], list[Sale]]:
        """Return the old images and the new ones of rows that were read."""
        protocol, after = self.protocol, barrier.changes_after
        if protocol.waiting_after == "last window":
            after = barrier.start
        elif barrier.read_at:
            return self._deltas_since_read(barrier)
        positions = {"pinned": barrier.filter_by, "before": barrier.before, "after": barrier.after}[protocol.filter_by]
        minus, plus = [], []
        for old, new in self.images(after, barrier.end):
            was, now = self._pass(positions, old), self._pass(positions, new)
            if protocol.image_passes == "by the new unit" and new is not None:
                was = now
            elif protocol.image_passes == "if the old one does" and old is not None:
                now = now and was
            elif protocol.image_passes == "if the new one does" and new is not None:
                was = was and now
            minus += [old] if old is not None and was else []
            plus += [new] if new is not None and now else []
        return minus, plus

    def is_read(self, positions: Positions, row: Sale) -> bool:
        """Return whether a row was read."""
        if self.protocol.null_position == "no position":
            positions = tuple(UNREAD if _begins_with_null(position) else position for position in positions)
        return self.scan.is_read(positions, row)

    def _pass(self, positions: Positions, row: Sale | None) -> bool:
        return row is not None and self.is_read(positions, row)

    def _deltas_since_read(self, barrier: Barrier) -> tuple[list[Sale], list[Sale]]:
        """Filter each image by the offset at which its own unit was read, and only then net."""
        net_first = self.protocol.filtered == "after netting"
        seen: dict[object, list[Change]] = {}
        for change in as_stream(self.upstream.changes(barrier.changes_after, barrier.end)):
            (row,) = sales([change.row])
            if net_first or change.version > self._read_at(barrier, row):
                unit = self.scan.vnode(row) if net_first else self.query.unit(row)
                seen.setdefault((unit, row.key), []).append(change)
        minus, plus = [], []
        for changes in seen.values():
            first, last = changes[0], changes[-1]
            (old,), (new,) = sales([first.row]), sales([last.row])
            minus += [old] if not first.writes and first.version > self._read_at(barrier, old) else []
            plus += [new] if last.writes and last.version > self._read_at(barrier, new) else []
        return minus, plus

    def _read_at(self, barrier: Barrier, row: Sale) -> int:
        vnode, spot = self.scan.vnode(row), self.scan.spot(row)
        return next(offset for at, position, offset in barrier.read_at if at == vnode and position.covers(spot))

    def _compacted(self, entries: list[Entry]) -> list[Entry]:
        if self.protocol.compacted == "without tombstones":
            return [entry for entry in entries if entry.row is not None]
        if self.protocol.compacted.startswith("newest alone"):
            newest = {(entry.vnode, entry.key): entry for entry in sorted(entries, key=lambda entry: entry.epoch)}
            return list(newest.values())
        if self.protocol.compacted.startswith("stamped anew"):
            newest_epoch = max((entry.epoch for entry in entries), default=0)
            return [entry._replace(epoch=newest_epoch) for entry in entries]
        return entries


def _begins_with_null(position: Position) -> bool:
    return position.spot is not None and position.spot[0][:1] == ((False, ""),)
