"""
The tables that an orchestrated backfill writes, as immutable values: barrier log, state, view.

Each method that writes models one atomic commit, with the guarantees that the real table gives and no others:

- the **barrier log** is appended to; an injector appends a candidate for an epoch and reads back which
  one came first;
- the **view** is a Delta table that does not enforce uniqueness (an append can duplicate); its commits
  have an application's transaction, an epoch and the plan's digest;
- the **state** is one row here, because this strategy has one position for all vnodes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from tests.model.truth import NOT_STARTED, Output, Progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.strategies import Barrier, Key

Part = str
"""A write of an epoch: its changes, its snapshot chunk or, if task runs share that, the part of one of them."""


class Pinned(Protocol):
    """What a barrier is to barrier log and view, whatever its strategy."""

    @property
    def epoch(self) -> int:
        """Consecutive, from 1."""
        ...


P = TypeVar("P", bound=Pinned)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """
    A pinned barrier: all that its epoch needs and that could change. It stands for its own digest.

    Versions are the half-open range ``(after, up_to]``, the snapshot chunk is the keys between the two
    positions.
    """

    epoch: int
    after: int
    up_to: int
    old: Progress
    new: Progress
    row_count_before: int
    settings: Barrier


@dataclass(frozen=True, slots=True)
class LogEntry:
    """The entry of a committed epoch in the barrier log."""

    epoch: int
    snapshot_rows: int
    upstream_rows: int


@dataclass(frozen=True, slots=True)
class BarrierLog(Generic[P]):
    """Candidates in log order, and the committed epochs' entries."""

    candidates: tuple[P, ...] = ()
    entries: tuple[LogEntry, ...] = ()

    def appended(self, candidate: P) -> BarrierLog[P]:
        """Append a candidate; others may have been faster."""
        return replace(self, candidates=(*self.candidates, candidate))

    def pinned(self, epoch: int) -> P:
        """Return the epoch's plan: the first of its candidates."""
        return next(plan for plan in self.candidates if plan.epoch == epoch)

    def uncommitted(self) -> P | None:
        """
        Return the plan that is pinned and not committed; there is never more than one.

        It is that of the highest epoch, which is not always the last in the log: a slow injector may append
        its candidate for an epoch that was pinned, executed and committed meanwhile.
        """
        epoch = max((plan.epoch for plan in self.candidates), default=0)
        done = epoch == 0 or epoch in {entry.epoch for entry in self.entries}
        return None if done else self.pinned(epoch)

    def committed(self, entry: LogEntry) -> BarrierLog[P]:
        """Write an epoch's entry, unless it exists."""
        if entry.epoch in {known.epoch for known in self.entries}:
            return self
        return replace(self, entries=(*self.entries, entry))


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The state table: the last committed epoch, its upstream version, position and row count."""

    epoch: int = 0
    version: int = 0
    progress: Progress = NOT_STARTED
    row_count: int = 0


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of the view in its log: user metadata and metrics."""

    part: Part
    plan: Pinned
    rows: int


@dataclass(frozen=True, slots=True)
class View:
    """The MV: a bag of rows (each with a copy number), and its log."""

    bag: frozenset[tuple[Key, Output, int]] = frozenset()
    log: tuple[Commit, ...] = ()
    transactions: tuple[tuple[Part, int], ...] = ()

    @property
    def version(self) -> int:
        """Its own Delta version, which every commit raises."""
        return len(self.log)

    @property
    def epoch(self) -> int:
        """The newest epoch that has written anything."""
        return max((commit.plan.epoch for commit in self.log), default=0)

    def transaction(self, part: Part) -> int:
        """Return the epoch of the part's last transaction."""
        return dict(self.transactions).get(part, 0)

    def commit_of(self, part: Part, epoch: int) -> Commit | None:
        """Look an epoch's commit up in the log."""
        found = (commit for commit in self.log if commit.part == part and commit.plan.epoch == epoch)
        return next(found, None)

    def rows(self) -> dict[Key, object]:
        """Return the rows by key; a key with several rows gets all of them, which is wrong everywhere."""
        result: dict[Key, object] = {}
        for key, output, _ in self.bag:
            result[key] = [result[key], output] if key in result else output
        return result

    def merged(self, net: Mapping[Key, Output | None]) -> View:
        """Remove all rows with the keys and insert those that have an output."""
        kept = {item for item in self.bag if item[0] not in net}
        return replace(self, bag=frozenset(kept | {(key, row, 0) for key, row in net.items() if row is not None}))

    def appended(self, rows: Iterable[tuple[Key, Output]]) -> View:
        """Append rows without a check of the earlier ones."""
        bag = set(self.bag)
        for key, output in rows:
            copy = 0
            while (key, output, copy) in bag:
                copy += 1
            bag.add((key, output, copy))
        return replace(self, bag=frozenset(bag))

    def logged(self, commit: Commit, *, transaction: bool) -> View:
        """Record a commit and, if it has one, its transaction."""
        transactions = dict(self.transactions)
        if transaction:
            transactions[commit.part] = commit.plan.epoch
        return replace(self, log=(*self.log, commit), transactions=tuple(sorted(transactions.items())))
