"""
The classical algorithm: the streaming engine's cdc backfill executor.

It reads an external table in chunks of the key order, *as the table is at that moment*, and passes their rows on as
inserts. Meanwhile a stream brings the table's changes with their offsets. They are buffered. At a barrier
``mark_cdc_chunk`` lets through those whose offset is not before the last cdc offset and whose key lies at or before
the position that the reading has reached by now; the others are dropped, because a later chunk will read their rows.
``get_cdc_chunk_last_offset`` then gives the last cdc offset of the next epoch. The first one is where the database's
log ended before the first row was read. Position, offset and row count are the state.

As in the other executors, a barrier that is not paused forces the reading of at least one chunk. When the reading finds
no more rows, nothing in the buffer is filtered, and from then on changes pass straight through.

The rows of a chunk are newer than the rest of the view, so the view is exact only once all changes up to the newest
chunk have passed. The receiver overwrites by key: what comes twice changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from tests.model.truth import COMPLETED, NOT_STARTED, Output, Phase, Progress, Query

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tests.model.upstream import Change, KeyOrder
    from tests.strategies import Barrier, Key, Row


class ExternalTable(Protocol):
    """The table as the executor's reader sees it."""

    @property
    def order(self) -> KeyOrder:
        """The order of its keys."""
        ...

    def rows_after(self, position: Key | None, most: int) -> Sequence[Row]:
        """Return the first present rows after a position, in key order."""
        ...

    def current_offset(self) -> int:
        """Return the offset that the next commit will have, or a later one's."""
        ...


@dataclass(frozen=True, slots=True)
class Event:
    """A change as the stream brings it; those of one transaction have one offset."""

    offset: int
    change: Change


@dataclass(frozen=True, slots=True, kw_only=True)
class CdcState:
    """The state table's row, and how far the stream was read."""

    position: Key | None = None
    last_cdc_offset: int | None = None
    row_count: int = 0
    finished: bool = False

    @property
    def progress(self) -> Progress:
        """The state in the words of I1."""
        if self.finished:
            return COMPLETED
        return NOT_STARTED if self.position is None else Progress(Phase.IN_PROGRESS, self.position)


@dataclass(frozen=True, slots=True)
class CdcCheckpoint:
    """What survives a crash: the offset through which the stream was handled, the state, and the view."""

    offset: int = 0
    state: CdcState = field(default_factory=CdcState)
    view: Mapping[Key, Output] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the executor rests on; each default is the original's."""

    position: Literal["new", "old"] = "new"
    first_offset: Literal["before the first row", "at the first barrier"] = "before the first row"


class CdcExecutor:
    """
    One life of the executor, from a recovery to a crash.

    The caller decides what time decides in a stream: in which order chunks of changes (:meth:`on_chunk`), polls of the
    snapshot (:meth:`poll_snapshot`) and barriers (:meth:`on_barrier`) come.
    """

    def __init__(
        self,
        table: ExternalTable,
        query: Query,
        checkpoint: CdcCheckpoint,
        settings: Barrier,
        rules: Rules | None = None,
    ) -> None:
        self._table = table
        self._query = query
        self._settings = settings
        self._rules = rules or Rules()
        state = checkpoint.state
        self._position, self._finished, self._row_count = state.position, state.finished, state.row_count
        self._old_position = state.position
        self._last_cdc_offset = state.last_cdc_offset
        if self._last_cdc_offset is None and self._rules.first_offset == "before the first row":
            self._last_cdc_offset = table.current_offset()
        self._offset = checkpoint.offset
        self._view = dict(checkpoint.view)
        self._buffer: list[list[Event]] = []
        self._rows_in_epoch = 0
        self._polled_in_epoch = False

    def on_chunk(self, chunk: Sequence[Event], through: int) -> None:
        """Take a chunk of the stream, which is handled through an offset then."""
        self._offset = through
        last = get_cdc_chunk_last_offset(chunk)
        if last is None:
            return
        if self._finished:
            self._pass_on(chunk)
        elif self._last_cdc_offset is None or last >= self._last_cdc_offset:
            self._buffer.append(list(chunk))

    def poll_snapshot(self, rows: int = 1) -> None:
        """Read the next chunk of present rows, unless paused, throttled or done; or discover that there is none."""
        limit = self._settings.rate_limit
        if self._finished or self._held or (limit is not None and self._rows_in_epoch >= limit):
            return
        most = rows if limit is None else min(rows, limit - self._rows_in_epoch)
        if not self._read_chunk(most):
            self._end()

    def on_barrier(self, mutation: Barrier) -> CdcCheckpoint:
        """End the epoch; ``mutation`` holds from the next one on."""
        if self._last_cdc_offset is None:
            self._last_cdc_offset = self._table.current_offset()
        if not self._finished:
            if not self._polled_in_epoch and not self._held and not self._read_chunk(1):
                self._end()
            self._consume_buffer()
        self._settings = mutation
        self._rows_in_epoch, self._polled_in_epoch, self._old_position = 0, False, self._position
        state = CdcState(
            position=self._position,
            last_cdc_offset=self._last_cdc_offset,
            row_count=self._row_count,
            finished=self._finished,
        )
        return CdcCheckpoint(self._offset, state, dict(self._view))

    @property
    def _held(self) -> bool:
        return self._settings.paused or self._settings.rate_limit == 0

    def _read_chunk(self, most: int) -> bool:
        self._polled_in_epoch = True
        rows = self._table.rows_after(self._position, most)
        for row in rows:
            self._write(row.key, self._query(row))
            self._position = row.key
        self._row_count += len(rows)
        self._rows_in_epoch += len(rows)
        return bool(rows)

    def _consume_buffer(self) -> None:
        """Pass on what is marked. With no position yet, no row was read, so the buffer is dropped."""
        position = self._position if self._rules.position == "new" else self._old_position
        consumed = None
        for chunk in self._buffer:
            if self._position is not None:
                consumed = get_cdc_chunk_last_offset(chunk)
            if position is not None:
                self._pass_on(mark_cdc_chunk(chunk, position, self._last_cdc_offset, self._table.order.at_or_before))
        self._buffer.clear()
        if consumed is not None:
            self._last_cdc_offset = consumed

    def _end(self) -> None:
        """Leave the loop: no later chunk reads what is after the position, so nothing is filtered."""
        for chunk in self._buffer:
            self._pass_on(chunk)
        self._buffer.clear()
        self._finished = True

    def _pass_on(self, events: Sequence[Event]) -> None:
        for event in events:
            row = event.change.row
            self._write(row.key, self._query(row) if event.change.writes else None)

    def _write(self, key: Key, output: Output | None) -> None:
        if output is None:
            self._view.pop(key, None)
        else:
            self._view[key] = output


def mark_cdc_chunk(
    chunk: Sequence[Event],
    position: Key,
    last_cdc_offset: int | None,
    at_or_before: Callable[[Key, Key], bool],
) -> list[Event]:
    """Return the events that are visible: not before the last cdc offset, and not beyond the position."""
    return [
        event
        for event in chunk
        if (last_cdc_offset is None or last_cdc_offset <= event.offset) and at_or_before(event.change.row.key, position)
    ]


def get_cdc_chunk_last_offset(chunk: Sequence[Event]) -> int | None:
    """Return the offset of a chunk's last event."""
    return chunk[-1].offset if chunk else None
