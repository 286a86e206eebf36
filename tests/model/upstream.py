"""
The upstream: a table with a key, all its versions, and the change feed between any two of them.

Models what both algorithms stand on: time travel to a version, reading in key order from a position, and
changes with Delta's types. The feed keeps Delta's pre- and postimages side by side, so that a key swap really
reads pre(0), post(5), pre(5), post(0).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tests.strategies import Delete, Insert, Key, KeyColumn, KeyValue, Row, Write

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class KeyOrder:
    """The storage order of keys: column by column, nulls first, each column in its own direction."""

    def __init__(self, columns: Sequence[KeyColumn]) -> None:
        self.columns = tuple(columns)

    def rank(self, key: Key) -> tuple[Any, ...]:
        """Return something that sorts as the key does."""
        return tuple(
            (0,) if value is None else (1, _Descending(_comparable(value)) if column.descending else _comparable(value))
            for column, value in zip(self.columns, key, strict=True)
        )

    def at_or_before(self, key: Key, position: Key) -> bool:
        """Return whether a key was passed when the scan is at ``position``."""
        return not self.rank(position) < self.rank(key)

    def sort(self, keys: Iterable[Key]) -> list[Key]:
        """Return the keys in storage order."""
        return sorted(keys, key=self.rank)


class ChangeType(StrEnum):
    """The types of change in Delta's feed."""

    INSERT = "insert"
    DELETE = "delete"
    UPDATE_PREIMAGE = "update_preimage"
    UPDATE_POSTIMAGE = "update_postimage"


@dataclass(frozen=True, slots=True)
class Change:
    """One row of the feed: the row that a version wrote, or the one that it removed."""

    version: int
    type: ChangeType
    row: Row

    @property
    def writes(self) -> bool:
        """Whether the row exists after this change, rather than before it."""
        return self.type in {ChangeType.INSERT, ChangeType.UPDATE_POSTIMAGE}


class Upstream:
    """
    A table, version after version. Versions once written never change; version 0 holds the initial rows.
    """

    def __init__(self, columns: Sequence[KeyColumn], initial: Iterable[Row] = ()) -> None:
        self.order = KeyOrder(columns)
        self._feed: list[tuple[Change, ...]] = [()]
        self._tables = [self._sorted({row.key: row for row in initial})]

    @property
    def latest(self) -> int:
        """The newest version."""
        return len(self._tables) - 1

    def write(self, write: Write) -> int:
        """Commit a version and return its number."""
        table = self._sorted(write.applied_to(self._tables[-1]))
        version = len(self._tables)
        self._feed.append(tuple(self._changes_of(write, version)))
        self._tables.append(table)
        return version

    def as_of(self, version: int) -> dict[Key, Row]:
        """Return the table at a version, in key order."""
        return dict(self._tables[version])

    def rows_after(self, version: int, position: Key | None) -> list[Row]:
        """Return the rows after a position in key order; ``None`` is the position before every key."""
        rows = self._tables[version].values()
        return [row for row in rows if position is None or not self.order.at_or_before(row.key, position)]

    def changes(self, after: int, up_to: int) -> list[Change]:
        """Return the feed of the versions in ``(after, up_to]``."""
        return [change for version in range(after + 1, up_to + 1) for change in self._feed[version]]

    def _sorted(self, table: dict[Key, Row]) -> dict[Key, Row]:
        return {key: table[key] for key in self.order.sort(table)}

    def _changes_of(self, write: Write, version: int) -> Iterable[Change]:
        before = self._tables[-1]
        for operation in write.operations:
            if isinstance(operation, Insert):
                yield Change(version, ChangeType.INSERT, operation.row)
            elif isinstance(operation, Delete):
                yield Change(version, ChangeType.DELETE, before[operation.key])
            else:
                yield Change(version, ChangeType.UPDATE_PREIMAGE, before[operation.key])
                yield Change(version, ChangeType.UPDATE_POSTIMAGE, operation.row)


def as_stream(changes: Iterable[Change]) -> list[Change]:
    """
    Return the changes in an order in which each can be applied to the table by itself.

    Inside one version whatever removes a row goes first: a streaming engine's chunks are ordered so, while
    the rows of Delta's feed have no order within their version.
    """
    return sorted(changes, key=lambda change: (change.version, change.writes))


def net_changes(changes: Iterable[Change]) -> dict[Key, Row | None]:
    """
    Return the net changes: for each key that they touch, its row afterwards, or ``None``.

    The latest version of a key wins, and inside one version an insert or postimage beats a delete or
    preimage.
    """
    return {change.row.key: change.row if change.writes else None for change in as_stream(changes)}


def _comparable(value: KeyValue) -> KeyValue:
    return value.encode() if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class _Descending:
    value: Any

    def __lt__(self, other: _Descending) -> bool:
        return bool(other.value < self.value)
