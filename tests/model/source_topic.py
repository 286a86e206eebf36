"""
What a source backfill reads: splits to which producers append, and whose offsets have gaps.

A place of a split has a committed record, or never one (an aborted record or a control record), or one that compaction
has removed. All is immutable, so that a test can fork the world at any step.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from tests.model.truth import InvariantError

if TYPE_CHECKING:
    from collections.abc import Mapping

Place = tuple[int, int]
"""A split and an offset in it: the key of a record."""

Rows = Counter[Place]
"""The rows of a view; one that is there twice counts twice."""


class Entry(Enum):
    """What a place has."""

    RECORD = "record"
    GAP = "gap"
    COMPACTED = "compacted"


@dataclass(frozen=True, slots=True)
class Topic:
    """The splits, and what is at each of their places."""

    splits: tuple[tuple[Entry, ...], ...]

    @property
    def ends(self) -> tuple[int, ...]:
        """The offset after the last place of each split."""
        return tuple(len(split) for split in self.splits)

    def appended(self, split: int, entry: Entry) -> Topic:
        """Append to a split."""
        return self._with(split, (*self.splits[split], entry))

    def with_split(self) -> Topic:
        """Add an empty split."""
        return replace(self, splits=(*self.splits, ()))

    def compacted(self, split: int, offset: int) -> Topic:
        """Remove a record, if there is one; as compaction does, never the newest one."""
        entries = self.splits[split]
        if not entries[offset + 1 :] or entries[offset] is not Entry.RECORD:
            return self
        return self._with(split, (*entries[:offset], Entry.COMPACTED, *entries[offset + 1 :]))

    def records(self, split: int, begin: int, end: int) -> list[Place]:
        """Return the places in ``[begin, end)`` that have a record now."""
        return [(split, p) for p in range(begin, end) if self.splits[split][p] is Entry.RECORD]

    def _with(self, split: int, entries: tuple[Entry, ...]) -> Topic:
        return replace(self, splits=(*self.splits[:split], entries, *self.splits[split + 1 :]))


def check_rows(view: Mapping[Place, int], topic: Topic, read: Mapping[int, int]) -> None:
    """
    I1: the view has each record that was read once. What compaction has removed may be there, once.

    :param read: split → the offset up to which it was read.
    """
    for split, end in read.items():
        for place, entry in enumerate(topic.splits[split]):
            count = view.get((split, place), 0)
            least = int(entry is Entry.RECORD and place < end)
            most = int(entry is not Entry.GAP and place < end)
            if not least <= count <= most:
                raise InvariantError(f"I1 truth: {(split, place)} is there {count} times, read up to {end}: {entry}")
    if beyond := [place for place, count in view.items() if count and place[0] not in read]:
        raise InvariantError(f"I1 truth: {beyond} were not read")
