"""
Drivers of the two cdc models: a history of writes, and moves that say what happens next.

A run raises :class:`~tests.model.truth.InvariantError` at the first move that breaks an invariant. ``finish`` runs
without further writes, until the backfill is done and the view has caught up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import TYPE_CHECKING, Literal

from hypothesis import strategies as st

from tests.model.cdc_attempts import Attempt, Step
from tests.model.cdc_classical import CdcCheckpoint, CdcExecutor, Event, Rules
from tests.model.cdc_database import Database, keys_of
from tests.model.cdc_job import Job, Protocol, World
from tests.model.cdc_orchestrated import advance
from tests.model.cdc_reading import read_again
from tests.model.runs import ENDLESS
from tests.model.truth import (
    COMPLETED,
    InvariantError,
    Query,
    check_monotonic,
    check_truth,
    everything,
    true_view,
)
from tests.model.upstream import Upstream, as_stream
from tests.strategies import Barrier, KeyColumn, Row, Write, barriers, histories, key_columns, key_pools, tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hypothesis.strategies import DrawFn, SearchStrategy

    from tests.model.upstream import KeyOrder
    from tests.strategies import Key

Move = Literal["step", "other", "write", "write unseen", "show", "repeat", "die", "poll", "deliver", "barrier"]
"""
What happens next: an attempt takes a step, or another one does; the next version is written, and seen or not; the
first unseen one is seen; a task of the reading is repeated; an attempt dies. ``poll``, ``deliver`` and ``barrier``
are the classical executor's.
"""


@dataclass(frozen=True, slots=True)
class History:
    """A table when its backfill begins, all writes that follow, and the settings that one barrier after another has."""

    columns: tuple[KeyColumn, ...]
    initial: tuple[Row, ...]
    writes: tuple[Write, ...]
    settings: tuple[Barrier, ...] = (Barrier(rate_limit=1),)


@st.composite
def cdc_histories(
    draw: DrawFn, *, columns: SearchStrategy[tuple[KeyColumn, ...]] | None = None, max_versions: int = 8
) -> History:
    """Draw a history; a primary key has no nulls."""
    key = draw(columns if columns is not None else key_columns(max_columns=2))
    pool = draw(key_pools(key, max_size=6, nullable=False))
    initial = draw(tables(pool))
    writes = draw(histories(pool, initial, max_versions=max_versions, max_operations=3))
    settings = draw(st.lists(barriers(), min_size=1, max_size=4))
    return History(key, initial, writes, tuple(settings))


class Writer:
    """
    Writes the versions of a history to a database one after the other.

    All versions are in the upstream from the start, so that a test may fork the database.
    """

    def __init__(self, history: History) -> None:
        self.upstream = Upstream(history.columns, history.initial)
        for write in history.writes:
            self.upstream.write(write)

    def write(self, database: Database, *, seen: bool = True) -> Database:
        """Commit the next version, if there is one; who holds a lock that it waits for is seen first."""
        version = database.version_at(database.newest) + 1
        if version > self.upstream.latest:
            return database
        for holder in database.locked(self.upstream, keys_of(self.upstream, version)):
            database = database.shown(holder)
        return database.committed(version, seen=seen)

    @staticmethod
    def show(database: Database) -> Database:
        """Let everybody see the first version that is not seen yet."""
        return database.shown(min(database.unseen)) if database.unseen else database

    @staticmethod
    def show_all(database: Database) -> Database:
        """Let everybody see everything."""
        return replace(database, unseen=frozenset())


# --- the classical executor -----------------------------------------------------------------------


class PresentTable:
    """The table as the classical executor's reader sees it."""

    def __init__(self, run: ClassicalCdcRun) -> None:
        self._run = run

    @property
    def order(self) -> KeyOrder:
        """The order of its keys."""
        return self._run.writer.upstream.order

    def rows_after(self, position: Key | None, most: int) -> list[Row]:
        """Return the first present rows after a position."""
        rows = self._run.database.rows(self._run.writer.upstream)
        later = (row for key, row in rows.items() if position is None or not self.order.at_or_before(key, position))
        return list(islice(later, most))

    def current_offset(self) -> int:
        """Return the offset that the next commit will have."""
        return self._run.database.newest + 1


class ClassicalCdcRun:
    """
    The classical executor over a history.

    ``chunk`` says how many transactions each chunk of the stream has.
    """

    def __init__(
        self, history: History, query: Query = everything, rules: Rules | None = None, chunk: Sequence[int] = (1,)
    ) -> None:
        self.writer = Writer(history)
        self.database = Database()
        self.checkpoint = CdcCheckpoint()
        self.barriers = 0
        self._query = query
        self._rules = rules or Rules()
        self._settings = cycle(history.settings)
        self._next = next(self._settings)
        self._chunk = cycle(chunk)
        self._delivered = 0
        self.executor = self._recovered()

    def play(self, moves: Iterable[Move]) -> None:
        """Let moves happen in order; those that are ours alone stand for polls."""
        for move in moves:
            if move == "write":
                self.database = self.writer.write(self.database)
            elif move == "write unseen":
                self.database = self.writer.write(self.database, seen=False)
            elif move == "show":
                self.database = self.writer.show(self.database)
            elif move == "die":
                self.executor = self._recovered()
            elif move == "deliver":
                self.deliver()
            elif move == "barrier":
                self.barrier(next(self._settings))
            else:
                self.executor.poll_snapshot()

    def deliver(self) -> None:
        """Let the stream bring its next chunk."""
        through = min(self._delivered + next(self._chunk), self.database.newest)
        upstream = self.writer.upstream
        events = [
            Event(offset, change)
            for offset in range(self._delivered + 1, through + 1)
            if isinstance(version := self.database.log[offset - 1], int)
            for change in as_stream(upstream.changes(version - 1, version))
        ]
        self.executor.on_chunk(events, through)
        self._delivered = through

    def barrier(self, settings: Barrier) -> None:
        """End the running epoch. The view is exact if the stream has brought all that a reader may have seen."""
        before, self.checkpoint = self.checkpoint, self.executor.on_barrier(settings)
        self._next = settings
        self.barriers += 1
        old, new = before.state, self.checkpoint.state
        check_monotonic(
            self.writer.upstream.order,
            (before.offset, old.progress, old.row_count),
            (self.checkpoint.offset, new.progress, new.row_count),
        )
        if self._delivered == self.database.newest and not self.database.unseen:
            version = self.database.version_at(self.database.newest)
            check_truth(self.checkpoint.view, true_view(self.writer.upstream, self._query, version, new.progress))

    def finish(self) -> None:
        """Write what is left, and send barriers until the backfill is finished and has caught up."""
        while self.database.version_at(self.database.newest) < self.writer.upstream.latest:
            self.database = self.writer.write(self.database)
        self.database = self.writer.show_all(self.database)
        begun = self.barriers
        while not self.checkpoint.state.finished or self.checkpoint.offset < self.database.newest:
            while self._delivered < self.database.newest:
                self.deliver()
            self.barrier(Barrier())
            if self.barriers - begun > ENDLESS:
                raise InvariantError("I4 progress: the backfill does not finish")

    def _recovered(self) -> CdcExecutor:
        """Begin a life of the executor from the checkpoint; the stream is read again from there."""
        self._delivered = self.checkpoint.offset
        return CdcExecutor(PresentTable(self), self._query, self.checkpoint, self._next, self._rules)


# --- ours -----------------------------------------------------------------------------------------


class OrchestratedCdcRun:
    """
    Our order of operations over a history: one world, and two attempts in the middle of their work.

    ``back`` says how far before the newest landed offset the windows of one attempt after the other end.
    """

    def __init__(
        self,
        history: History,
        query: Query = everything,
        protocol: Protocol | None = None,
        back: Sequence[int] = (0,),
    ) -> None:
        self.writer = Writer(history)
        upstream = self.writer.upstream
        self.job = Job(upstream=upstream, query=query, sample=tuple(upstream.as_of(0)), protocol=protocol or Protocol())
        self.world = World()
        self._settings = cycle(history.settings)
        self._back = cycle(back)
        self.attempts = [self.attempt(), self.attempt()]

    def attempt(self) -> Attempt:
        """Return a new attempt, with the next settings."""
        return Attempt(settings=next(self._settings), back=next(self._back))

    def play(self, moves: Iterable[Move]) -> None:
        """Let moves happen in order; at a barrier an attempt runs to its end, and what is left stands for steps."""
        for move in moves:
            if move in {"write", "write unseen"}:
                self.change(self.writer.write(self.world.database, seen=move == "write"))
            elif move == "show":
                self.change(self.writer.show(self.world.database))
            elif move == "repeat":
                self.attempts[0] = self.read_again(self.attempts[0])
            elif move == "die":
                self.attempts[0] = self.attempt()
            elif move == "barrier":
                self.drive(self.attempts[0])
                self.attempts[0] = self.attempt()
            else:
                self._move(1 if move == "other" else 0)

    def change(self, database: Database) -> None:
        """Let the database be another one."""
        self.world = replace(self.world, database=database)

    def run(self, settings: Barrier, back: int = 0) -> Attempt:
        """Run one attempt to its end."""
        return self.drive(Attempt(settings=settings, back=back))

    def drive(self, attempt: Attempt, to: str | None = None) -> Attempt:
        """Run an attempt to its end, or until it stands at a point."""
        for _ in range(ENDLESS):
            if attempt.ended or (to is not None and attempt.stands_at == to):
                return attempt
            attempt = self.step(attempt)
        raise InvariantError("I4 progress: the attempt does not end")

    def step(self, attempt: Attempt) -> Attempt:
        """Take one step of an attempt and check the invariants."""
        before = self.world
        self.world, after = advance(self.job, before, attempt)
        check_world(self.job, before, self.world, after)
        return after

    def read_again(self, attempt: Attempt) -> Attempt:
        """Repeat the first task of a reading that is under way, if there is one."""
        if attempt.reading is None or not attempt.reading.rows:
            return attempt
        return read_again(self.job, self.world, attempt, 0)

    def finish(self, rate_limit: int | None = None) -> int:
        """Let attempts end, and run epochs and write what is left until done; return how many epochs that took."""
        self.change(self.writer.show_all(self.world.database))
        for attempt in self.attempts:
            self.drive(attempt)
        runs = 0
        while not self.is_done:
            self.change(self.writer.write(self.world.database))
            self.run(Barrier(rate_limit))
            runs += 1
            if runs > ENDLESS:
                raise InvariantError("I4 progress: the backfill does not finish")
        return runs

    @property
    def is_done(self) -> bool:
        """Whether the view is finished and has all versions."""
        world = self.world
        return (
            world.state.progress == COMPLETED
            and world.database.version_at(world.state.version) == self.job.upstream.latest
            and world.log.uncommitted() is None
        )

    def _move(self, number: int) -> None:
        attempt = self.step(self.attempts[number])
        self.attempts[number] = self.attempt() if attempt.ended else attempt


def check_world(job: Job, before: World, after: World, attempt: Attempt) -> None:
    """Check what must hold after one step: I1 and I3 at committed epochs, and that nothing was refused."""
    if attempt.next is Step.REFUSED:
        if attempt.landing is not None:
            raise InvariantError(f"I6 no silent damage: the slot is at {attempt.landing.slot}, after what was landed")
        raise InvariantError(f"I2 pure epoch: the view's log shows another plan than {attempt.plan}")
    old, new = before.state, after.state
    if new is not old:
        check_monotonic(
            job.upstream.order,
            (old.epoch, old.progress, old.row_count),
            (new.epoch, new.progress, new.row_count),
        )
        if new.epoch - old.epoch > 1 or new.version < old.version:
            raise InvariantError(f"I3 monotonic: {new} cannot follow {old}")
    if after.view.epoch <= new.epoch and (after.view, new) != (before.view, old):
        check_truth(after.view.rows(), after.truth(job))
