"""
The classical algorithm: the streaming engine's no_shuffle backfill executor, as its documentation describes it.

An endless stream brings the upstream's changes, cut into epochs by barriers. Within an epoch the executor

- buffers the changes that arrive,
- reads the snapshot in key order from its position on, *as of the end of the previous epoch*, passes each row
  on as an insert, and raises the position.

At a barrier it passes on those buffered changes whose key lies at or before the position it has reached by
now (the **new** position; none if it has none yet), drops the others, persists its state, and reads on in the
next epoch from a newer snapshot. Under a barrier that is not paused it reads at least one row, however little
time there was.

When the snapshot ends inside an epoch, nothing of that epoch is filtered: rows after the last position that
arrived in it are in no snapshot that will ever be read. From then on changes pass straight through, and the
next barrier persists the finished state. Pause, resume and throttle come with a barrier and hold from
the next epoch on.

State and view are part of one checkpoint, taken at each barrier. Recovery begins at the last one; the changes
since then come again.

One thing differs from the original. There, when the end is discovered by the one read that is forced at a
barrier, the epoch's changes are filtered all the same, although the loop is left: rows are lost. Here they
pass, as in the other way to the end, and the same barrier persists the finished state, for a recovery must
not read those rows again. ``drain_at_forced_end=False`` gives the original, so that a test can show the loss.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.model.truth import COMPLETED, NOT_STARTED, InvariantError, Output, Phase, Progress, Query
from tests.model.upstream import Change, ChangeType, Upstream

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.strategies import Barrier, Key

VNODES = range(3)
"""This executor keeps one position, and writes it once for each of the vnodes it owns."""


@dataclass(frozen=True, slots=True)
class StateRow:
    """A row of the state table, beside its vnode: position, backfill_finished, row_count."""

    position: Key
    finished: bool
    row_count: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What survives a crash: the upstream version that the epoch ended with, state table and view."""

    version: int
    state: Mapping[int, StateRow] = field(default_factory=dict)
    view: Mapping[Key, Output] = field(default_factory=dict)
    state_writes: int = 0

    @property
    def state_row(self) -> StateRow | None:
        """The one state that all vnodes share; ``None`` if nothing was ever read."""
        rows = {self.state.get(vnode) for vnode in VNODES}
        if len(rows) != 1:
            raise InvariantError(f"vnodes differ: {rows}")
        return rows.pop()

    @property
    def progress(self) -> Progress:
        """The persisted state in the words of I1."""
        row = self.state_row
        if row is None:
            return NOT_STARTED
        return COMPLETED if row.finished else Progress(Phase.IN_PROGRESS, row.position)

    @property
    def row_count(self) -> int:
        """Snapshot rows read so far."""
        return 0 if self.state_row is None else self.state_row.row_count


class ClassicalExecutor:
    """
    One life of the executor, from a recovery to a crash.

    ``settings`` are those that hold in its first epoch. The caller decides what time decides in a stream: in
    which order changes (:meth:`on_changes`), polls of the snapshot (:meth:`poll_snapshot`) and barriers
    (:meth:`on_barrier`) come. ``emitted`` is what the view received, as the guide's tables write it:
    operation, key, row.
    """

    def __init__(
        self,
        upstream: Upstream,
        query: Query,
        checkpoint: Checkpoint,
        settings: Barrier,
        *,
        drain_at_forced_end: bool = True,
    ) -> None:
        self._upstream = upstream
        self._query = query
        self._settings = settings
        self._drain_at_forced_end = drain_at_forced_end
        recovered = checkpoint.state_row
        self._position = None if recovered is None else recovered.position
        self._row_count = 0 if recovered is None else recovered.row_count
        self._persisted = recovered
        self._state_writes = checkpoint.state_writes
        self._view = dict(checkpoint.view)
        self._backfilling = recovered is None or not recovered.finished
        self._snapshot_version = checkpoint.version
        self._buffer: list[Change] = []
        self._polled_in_epoch = False
        self._rows_in_epoch = 0
        self.emitted: list[tuple[str, Key, Output]] = []
        self.reported_finished = False

    def on_changes(self, changes: Iterable[Change]) -> None:
        """Take a chunk of changes from the stream: buffered while backfilling, passed on afterwards."""
        if self._backfilling:
            self._buffer.extend(changes)
        else:
            self._pass_on(changes)

    def poll_snapshot(self) -> None:
        """Read the next snapshot row, unless paused, throttled or done; or discover that there is none."""
        limit = self._settings.rate_limit
        if not self._backfilling or self._held or (limit is not None and self._rows_in_epoch >= limit):
            return
        if not self._read_row():
            self._leave_loop()

    def on_barrier(self, version: int, mutation: Barrier) -> Checkpoint:
        """End the epoch with the changes up to ``version``; ``mutation`` holds from the next epoch on."""
        if self._backfilling:
            self._end_backfilling_epoch()
        else:
            self._finish()
        self._snapshot_version = version
        self._settings = mutation
        self._polled_in_epoch = False
        self._rows_in_epoch = 0
        state = {} if self._persisted is None else dict.fromkeys(VNODES, self._persisted)
        return Checkpoint(version, state, dict(self._view), self._state_writes)

    def _end_backfilling_epoch(self) -> None:
        ended = not self._polled_in_epoch and not self._held and not self._read_row()
        if ended and self._drain_at_forced_end:
            self._leave_loop()
            self._finish()
            return
        self._pass_on(change for change in self._buffer if self._passed(change.row.key))
        self._buffer.clear()
        if self._position is not None:
            self._persist(self._position, finished=False)
        self._backfilling = not ended

    @property
    def _held(self) -> bool:
        return self._settings.paused or self._settings.rate_limit == 0

    def _passed(self, key: Key) -> bool:
        return self._position is not None and self._upstream.order.at_or_before(key, self._position)

    def _read_row(self) -> bool:
        self._polled_in_epoch = True
        rest = self._upstream.rows_after(self._snapshot_version, self._position)
        if not rest:
            return False
        row = rest[0]
        self._pass_on([Change(self._snapshot_version, ChangeType.INSERT, row)])
        self._position = row.key
        self._row_count += 1
        self._rows_in_epoch += 1
        return True

    def _leave_loop(self) -> None:
        self._pass_on(self._buffer)
        self._buffer.clear()
        self._backfilling = False

    def _finish(self) -> None:
        if self._position is None:
            # The snapshot was empty. This is no null key's position, for the state says finished.
            self._position = (None,) * len(self._upstream.order.columns)
        self._persist(self._position, finished=True)
        # Reported again by every life, because the receiver forgets it in a crash.
        self.reported_finished = True

    def _persist(self, position: Key, *, finished: bool) -> None:
        row = StateRow(position, finished, self._row_count)
        if row != self._persisted:
            self._persisted = row
            self._state_writes += 1

    def _pass_on(self, changes: Iterable[Change]) -> None:
        for change in changes:
            output = self._query(change.row)
            if output is not None and change.writes:
                self._insert(change.row.key, output)
            elif output is not None:
                self._remove(change.row.key, output)

    def _insert(self, key: Key, output: Output) -> None:
        if key in self._view:
            raise InvariantError(f"I1 truth: the view already holds a row with key {key}")
        self._view[key] = output
        self.emitted.append(("+", key, output))

    def _remove(self, key: Key, output: Output) -> None:
        if self._view.pop(key, None) != output:
            raise InvariantError(f"I1 truth: the view doesn't hold the row to remove, {key}")
        self.emitted.append(("-", key, output))
