"""
What a cdc backfill reads: a database that shows its present rows only, and a log that a replication slot returns once.

A commit is logged a moment before others see it, with synchronous replication long before. Until they do, it keeps
its rows locked. An offset is a place in the log; :class:`~tests.model.upstream.Upstream` has the commits themselves
as versions. All is immutable, so that a test can fork the world at any step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.model.upstream import Change, KeyOrder, Upstream
    from tests.strategies import Key, Row


@dataclass(frozen=True, slots=True)
class Mark:
    """A message that a reader writes into the log when it has read its rows."""

    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """
    The server: its log, and what only the server knows.

    ``log`` has versions of the upstream, in order, and marks between them. ``unseen`` are versions that are logged and
    that nobody sees yet. The ``slot`` returns what is after it.
    """

    log: tuple[int | Mark, ...] = ()
    unseen: frozenset[int] = frozenset()
    slot: int = 0

    @property
    def newest(self) -> int:
        """The offset of the log's end."""
        return len(self.log)

    def version_at(self, offset: int) -> int:
        """Return the upstream's version as of an offset."""
        return max((entry for entry in self.log[:offset] if not isinstance(entry, Mark)), default=0)

    def offset_of(self, version: int) -> int:
        """Return the offset of a version's commit."""
        return self.log.index(version) + 1

    def committed(self, version: int, *, seen: bool = True) -> Database:
        """Log a version; until it is seen, its rows are locked."""
        return replace(
            self, log=(*self.log, version), unseen=self.unseen if seen else frozenset({*self.unseen, version})
        )

    def shown(self, version: int) -> Database:
        """Let everybody see a version."""
        return replace(self, unseen=self.unseen - {version})

    def marked(self, epoch: int) -> Database:
        """Log a mark."""
        return replace(self, log=(*self.log, Mark(epoch)))

    def advanced(self, slot: int) -> Database:
        """Let the slot forget what is at or before an offset; it never goes back."""
        return replace(self, slot=max(self.slot, slot))

    def rows(self, upstream: Upstream) -> dict[Key, Row]:
        """Return the rows that a reader sees now, in key order."""
        table = upstream.as_of(self.version_at(self.newest))
        # Locks keep these versions apart: no other version has touched their keys since.
        for version in self.unseen:
            before = upstream.as_of(version - 1)
            for key in keys_of(upstream, version):
                table.pop(key, None)
                if key in before:
                    table[key] = before[key]
        return {key: table[key] for key in upstream.order.sort(table)}

    def locked(self, upstream: Upstream, keys: frozenset[Key]) -> list[int]:
        """Return the unseen versions that lock one of some keys."""
        return sorted(version for version in self.unseen if keys & keys_of(upstream, version))


@dataclass(frozen=True, slots=True)
class ChangeLog:
    """What was landed: how far, and which places of the database's log it has."""

    through: int = 0
    landed: frozenset[int] = frozenset()

    def with_landed(self, offsets: frozenset[int], through: int) -> ChangeLog:
        """Append, and say how far the log goes now."""
        return ChangeLog(through, self.landed | offsets)

    def changes(self, database: Database, upstream: Upstream, after: int, up_to: int) -> list[Change]:
        """Return the landed changes in ``(after, up_to]``."""
        found = []
        for offset in range(after + 1, up_to + 1):
            entry = database.log[offset - 1]
            if offset in self.landed and not isinstance(entry, Mark):
                found += upstream.changes(entry - 1, entry)
        return found

    def mark(self, database: Database, epoch: int) -> int | None:
        """Return the offset of an epoch's first mark, once it is landed."""
        return min((offset for offset in self.landed if database.log[offset - 1] == Mark(epoch)), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The keys in ``(after, up_to]``; ``None`` is no bound, unlike the key of nulls."""

    after: Key | None
    up_to: Key | None

    def covers(self, key: Key, order: KeyOrder) -> bool:
        """Return whether a key lies within."""
        return not (self.after is not None and order.at_or_before(key, self.after)) and (
            self.up_to is None or order.at_or_before(key, self.up_to)
        )

    def ends_by(self, position: Key | None, order: KeyOrder) -> bool:
        """Return whether no key lies after a position."""
        return self.up_to is not None and position is not None and order.at_or_before(self.up_to, position)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Rows that an epoch read ahead in one commit, and the offset after which they need changes."""

    epoch: int
    covered: Range
    changes_after: int
    rows: tuple[Row, ...]


def keys_of(upstream: Upstream, version: int) -> frozenset[Key]:
    """Return the keys that a version's commit locks."""
    return frozenset(change.row.key for change in upstream.changes(version - 1, version))
