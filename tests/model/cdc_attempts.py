"""One task run of a cdc job in the middle of its work, the steps that it takes, and the points at which it can die."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.model.cdc_database import Range
    from tests.model.tables import Plan, State
    from tests.strategies import Barrier, Row


class Step(Enum):
    """What an attempt does next. The writes of the view are one step each: other models take them apart."""

    READ_STATE = auto()
    READ_LOG = auto()
    READ_SLOT = auto()
    READ_CHANGE_LOG = auto()
    PEEK = auto()
    LAND = auto()
    ADVANCE_SLOT = auto()
    PLAN = auto()
    PIN = auto()
    WRITE_CHANGES = auto()
    WRITE_SNAPSHOT = auto()
    BEGIN_READING = auto()
    LIST_IN_PROGRESS = auto()
    FIND_OFFSET = auto()
    READ_RANGE = auto()
    COMMIT_READING = auto()
    MARK = auto()
    WRITE_STATE = auto()
    WRITE_LOG = auto()
    DONE = auto()
    REFUSED = auto()


POINTS = {
    Step.LAND: "before_landing_commit",
    Step.ADVANCE_SLOT: "after_landing_commit",
    Step.WRITE_CHANGES: "after_pin",
    Step.WRITE_SNAPSHOT: "after_changes_commit",
    Step.COMMIT_READING: "before_read_ahead_commit",
    Step.MARK: "after_read_ahead_commit",
    Step.WRITE_STATE: "before_state_commit",
    Step.WRITE_LOG: "after_state_commit",
}
"""The named points, by the step before which an attempt stands there."""


@dataclass(frozen=True, slots=True)
class Landing:
    """What a landing has seen so far; ``for_reading`` if it is not for the next window."""

    for_reading: bool
    at_least: int = 0
    slot: int = 0
    after: int = 0
    through: int = 0
    peeked: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A reading that is not committed: its ranges, and the rows of those that were read, each at its own moment."""

    ranges: tuple[Range, ...]
    rows: tuple[tuple[Row, ...], ...] = ()
    newest: int = 0
    in_progress: frozenset[int] = frozenset()
    later_than: int | None = None
    changes_after: int | None = None

    @property
    def is_read(self) -> bool:
        """Whether all ranges were read."""
        return len(self.rows) == len(self.ranges)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """
    What a task run knows, and loses when it dies.

    ``back`` makes the window end before the newest landed offset, as a run for an instant in the past does.
    """

    settings: Barrier
    back: int = 0
    next: Step = Step.READ_STATE
    state: State | None = None
    plan: Plan | None = None
    landing: Landing | None = None
    reading: UnderWay | None = None

    @property
    def stands_at(self) -> str | None:
        """The named point at which it stands."""
        return POINTS.get(self.next)

    @property
    def ended(self) -> bool:
        """Whether nothing is left to do."""
        return self.next in {Step.DONE, Step.REFUSED}

    @property
    def pinned(self) -> Plan:
        """The epoch's plan, once it is pinned."""
        assert self.plan is not None
        return self.plan

    @property
    def current_landing(self) -> Landing:
        """The landing that is under way."""
        assert self.landing is not None
        return self.landing

    @property
    def current_reading(self) -> UnderWay:
        """The reading that is under way."""
        assert self.reading is not None
        return self.reading
