"""
The tables of the arrangement strategy, as immutable values: pinned barrier, reports, state per vnode, arrangement.

They model one atomic commit per method, like :mod:`tests.model.tables`, whose barrier log and view serve here, too.
The **arrangement** is a table that is only ever appended to: the base, made once, and each epoch's net changes, with
the epoch as their stamp. It does not enforce uniqueness: rows that are appended twice occur twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tests.model.truth import COMPLETED, NOT_STARTED, Phase, Progress
from tests.strategies import Barrier, Key, Row

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tests.model.upstream import KeyOrder

Position = tuple[int, Key]
"""Where a row lies in the order of the scan: its vnode, and its key."""

Distribution = Callable[[Row], int]
"""The vnode of a row, by its distribution key."""

Counts = tuple[int, ...]
"""Rows by vnode."""


@dataclass(frozen=True, slots=True)
class Range:
    """The keys of one vnode in ``(after, up_to]``; ``None`` is the vnode's begin or end."""

    vnode: int
    after: Key | None = None
    up_to: Key | None = None

    def covers(self, position: Position, order: KeyOrder) -> bool:
        """Return whether a position lies in the range."""
        vnode, key = position
        begun = self.after is None or not order.at_or_before(key, self.after)
        return vnode == self.vnode and begun and (self.up_to is None or order.at_or_before(key, self.up_to))


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrangedPlan:
    """
    A pinned barrier: all that its epoch needs and that could change. It stands for its own digest.

    ``before`` is what was read before the epoch, by vnode; ``parts`` are the ranges that each task run reads;
    ``owned`` are the vnodes of each run, first and last. Versions are the half-open range ``(after, up_to]``.
    """

    epoch: int
    after: int
    up_to: int
    before: tuple[Progress, ...]
    rows_before: Counts
    parts: tuple[tuple[Range, ...], ...]
    owned: tuple[tuple[int, int], ...]
    settings: Barrier
    parallelism: int
    arranges: bool

    @property
    def progress(self) -> tuple[Progress, ...]:
        """What is read once all parts are."""
        vnodes = list(self.before)
        for covered in (covered for part in self.parts for covered in part):
            ends_within = covered.up_to is not None
            vnodes[covered.vnode] = Progress(Phase.IN_PROGRESS, covered.up_to) if ends_within else COMPLETED
        return tuple(vnodes)


@dataclass(frozen=True, slots=True)
class Report:
    """What a run did for an epoch: rows by vnode of its part, or of the changes, whose part is ``None``."""

    epoch: int
    part: int | None
    rows: Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class VnodeState:
    """The state table: the last committed epoch, its upstream version, and each vnode's progress and row count."""

    epoch: int = 0
    version: int = 0
    vnodes: tuple[Progress, ...]
    row_counts: Counts

    @classmethod
    def initial(cls, vnode_count: int) -> VnodeState:
        """Return the state of a job that has read nothing."""
        return cls(vnodes=(NOT_STARTED,) * vnode_count, row_counts=(0,) * vnode_count)

    @property
    def completed(self) -> bool:
        """Whether every vnode is."""
        return all(progress == COMPLETED for progress in self.vnodes)


@dataclass(frozen=True, slots=True)
class Stamped:
    """A line of the arrangement: the change of a position by an epoch, and the number of the copy among equal lines."""

    epoch: int
    position: Position
    row: Row | None
    copy: int = 0


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The arrangement; ``base`` is ``None`` until it is made, ``plans`` are those that appended, in log order."""

    base: frozenset[tuple[Position, Row]] | None = None
    changes: frozenset[Stamped] = frozenset()
    plans: tuple[ArrangedPlan, ...] = ()
    transaction: int = 0

    def made(self, base: Iterable[tuple[Position, Row]]) -> Arrangement:
        """Make the base by one commit, unless it exists."""
        return self if self.base is not None else replace(self, base=frozenset(base))

    def appended(self, plan: ArrangedPlan, net: Mapping[Position, Row | None], *, transaction: bool) -> Arrangement:
        """Append an epoch's net changes without a check of the earlier lines."""
        changes = set(self.changes)
        for position, row in net.items():
            copy = 0
            while (line := Stamped(plan.epoch, position, row, copy)) in changes:
                copy += 1
            changes.add(line)
        return replace(
            self,
            changes=frozenset(changes),
            plans=(*self.plans, plan),
            transaction=plan.epoch if transaction else self.transaction,
        )

    def plan_of(self, epoch: int) -> ArrangedPlan | None:
        """Return the plan from which an epoch appended, according to the table's log."""
        return next((plan for plan in self.plans if plan.epoch == epoch), None)

    def rows(self, ranges: Iterable[Range], order: KeyOrder, *, up_to: int | None) -> list[tuple[Position, Row]]:
        """
        Return the rows in some ranges after an epoch: those of the base at positions that did not change since, and
        all newest lines that hold a row. ``None`` reads all lines.
        """
        assert self.base is not None
        wanted = tuple(ranges)
        newest: dict[Position, int] = {}
        for line in self.changes:
            if up_to is None or line.epoch <= up_to:
                newest[line.position] = max(newest.get(line.position, 0), line.epoch)
        found = [(position, row) for position, row in self.base if position not in newest]
        found += [
            (line.position, line.row)
            for line in self.changes
            if line.row is not None and newest.get(line.position) == line.epoch
        ]
        within = [item for item in found if any(covered.covers(item[0], order) for covered in wanted)]
        return sorted(within, key=lambda item: (item[0][0], order.rank(item[0][1])))
