"""
The classical algorithm: the streaming engine's source backfill executor.

Two readers read the same splits. The source's own reader reads live records for all views; its rows come as the
upstream. The backfill's reader begins at the first offset. The state of a split decides which of the two passes a row:

- ``Backfilling(offset)``: rows of the backfill pass, up to and including this offset. Upstream rows don't, and tell how
  far the source is. Where the backfill has reached that, it stops.
- ``SourceCachingUp(offset)``: the backfill has stopped at this offset, which is ahead of the source. Upstream rows at
  or before it don't pass.
- ``Finished``: upstream rows pass.

Offsets have gaps, so the last row of the backfill need not come from upstream again, and comparisons are with ≥. A
split that is added later is Finished at once: the source reads it from its first offset. The state of each split is
committed at each barrier, with the source's offsets.

One thing that the original leaves open: a split stays Backfilling for ever if its source brings no row any more. Its
view is complete nevertheless.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.model.source_topic import Rows, Topic


@dataclass(frozen=True, slots=True)
class Backfilling:
    """Rows of the backfill pass; ``None`` before the first one."""

    offset: int | None = None


@dataclass(frozen=True, slots=True)
class SourceCachingUp:
    """The backfill is stopped at this offset, inclusive."""

    offset: int


@dataclass(frozen=True, slots=True)
class Finished:
    """Upstream rows pass."""


SplitState = Backfilling | SourceCachingUp | Finished


@dataclass(frozen=True, slots=True)
class SourceCheckpoint:
    """What survives a crash: the states, the next offset that the source delivers of each split, and the view."""

    states: Mapping[int, SplitState]
    source: Mapping[int, int]
    view: Rows = field(default_factory=Counter)


class SourceExecutor:
    """One life of the executor, from a recovery to a crash."""

    def __init__(self, checkpoint: SourceCheckpoint) -> None:
        self.states = dict(checkpoint.states)
        self._source = dict(checkpoint.source)
        self._view = Counter(checkpoint.view)
        self._target: dict[int, int | None] = dict.fromkeys(self.states)
        # The backfill's reader is built anew from the states, behind the last row that passed.
        self._reader = {
            split: 0 if state.offset is None else state.offset + 1
            for split, state in self.states.items()
            if isinstance(state, Backfilling)
        }

    def deliver(self, topic: Topic, split: int) -> None:
        """Let the source bring the next record of a split, if it has one."""
        self._add_splits(topic)
        for _, offset in topic.records(split, self._source[split], topic.ends[split])[:1]:
            self._source[split] = offset + 1
            if self._handle_upstream_row(split, offset):
                self._view[split, offset] += 1

    def poll(self, topic: Topic, split: int) -> None:
        """Let the backfill's reader bring the next record of a split, if it has one."""
        begin = self._reader.get(split, topic.ends[split])
        for _, offset in topic.records(split, begin, topic.ends[split])[:1]:
            self._reader[split] = offset + 1
            if self._handle_backfill_row(split, offset):
                self._view[split, offset] += 1

    def on_barrier(self, topic: Topic) -> SourceCheckpoint:
        """End the epoch."""
        self._add_splits(topic)
        return SourceCheckpoint(dict(self.states), dict(self._source), Counter(self._view))

    def _add_splits(self, topic: Topic) -> None:
        for split in range(len(topic.splits)):
            if split not in self.states:
                self.states[split], self._source[split], self._target[split] = Finished(), 0, None

    def _handle_upstream_row(self, split: int, offset: int) -> bool:
        state, visible = self.states[split], False
        match state:
            case Backfilling(int(stopped)) if stopped == offset:
                self.states[split] = Finished()
            case Backfilling(int(stopped)) if stopped > offset:
                self.states[split] = SourceCachingUp(stopped)
            case SourceCachingUp(stopped) if stopped < offset:
                # The source doesn't bring the last row of the backfill, because compaction has removed it.
                visible, self.states[split] = True, Finished()
            case SourceCachingUp(stopped) if stopped == offset:
                self.states[split] = Finished()
            case Finished():
                visible = True
        if isinstance(self.states[split], Backfilling):
            self._target[split] = offset
        return visible

    def _handle_backfill_row(self, split: int, offset: int) -> bool:
        if not isinstance(self.states[split], Backfilling):
            return False
        target = self._target[split]
        reached = target is not None and offset >= target
        self.states[split] = SourceCachingUp(offset) if reached else Backfilling(offset)
        return True
