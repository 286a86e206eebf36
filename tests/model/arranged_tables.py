"""
The tables of the arrangement strategy, as immutable values: pinned barrier, reports, state per vnode, arrangement.

They model one atomic commit per method, like :mod:`tests.model.tables`, whose barrier log and view serve here, too.
The **arrangement** is a table that is only ever appended to: the base, made once, and each epoch's net changes, with
the epoch as their stamp. It has no uniqueness of its own: what is appended twice is there twice.
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

Place = tuple[int, Key]
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

    def covers(self, place: Place, order: KeyOrder) -> bool:
        """Tell whether a place lies in the range."""
        vnode, key = place
        begun = self.after is None or not order.at_or_before(key, self.after)
        return vnode == self.vnode and begun and (self.up_to is None or order.at_or_before(key, self.up_to))


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrangedPlan:
    """
    A pinned barrier: all that its epoch needs and that could change. It stands for its own digest.

    ``before`` is what was read before the epoch, by vnode; ``parts`` are the ranges that each parallel run reads;
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
    """A line of the arrangement: what an epoch made of a place, and which copy of an equal line it is."""

    epoch: int
    place: Place
    row: Row | None
    copy: int = 0


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The arrangement; ``base`` is ``None`` until it is made, ``plans`` are those that appended, in log order."""

    base: frozenset[tuple[Place, Row]] | None = None
    changes: frozenset[Stamped] = frozenset()
    plans: tuple[ArrangedPlan, ...] = ()
    transaction: int = 0

    def made(self, base: Iterable[tuple[Place, Row]]) -> Arrangement:
        """Make the base by one commit, unless it is there."""
        return self if self.base is not None else replace(self, base=frozenset(base))

    def appended(self, plan: ArrangedPlan, net: Mapping[Place, Row | None], *, transaction: bool) -> Arrangement:
        """Append an epoch's net changes without looking at what is there."""
        changes = set(self.changes)
        for place, row in net.items():
            copy = 0
            while (line := Stamped(plan.epoch, place, row, copy)) in changes:
                copy += 1
            changes.add(line)
        return replace(
            self,
            changes=frozenset(changes),
            plans=(*self.plans, plan),
            transaction=plan.epoch if transaction else self.transaction,
        )

    def plan_of(self, epoch: int) -> ArrangedPlan | None:
        """Return the plan from which an epoch appended, as the table's log tells it."""
        return next((plan for plan in self.plans if plan.epoch == epoch), None)

    def rows(self, ranges: Iterable[Range], order: KeyOrder, *, up_to: int | None) -> list[tuple[Place, Row]]:
        """
        Return the rows in some ranges after an epoch: those of the base at places that did not change since, and
        all newest lines that hold a row. ``None`` looks at every line that is there by now.
        """
        assert self.base is not None
        wanted = tuple(ranges)
        newest: dict[Place, int] = {}
        for line in self.changes:
            if up_to is None or line.epoch <= up_to:
                newest[line.place] = max(newest.get(line.place, 0), line.epoch)
        found = [(place, row) for place, row in self.base if place not in newest]
        found += [
            (line.place, line.row)
            for line in self.changes
            if line.row is not None and newest.get(line.place) == line.epoch
        ]
        within = [item for item in found if any(covered.covers(item[0], order) for covered in wanted)]
        return sorted(within, key=lambda item: (item[0][0], order.rank(item[0][1])))
