"""One task run in the middle of its work, the steps that it takes, and the points at which it can die."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Literal

from tests.model.arranged_tables import (
    ArrangedPlan,
    Counts,
    Position,
    VnodeState,
)
from tests.model.tables import LogEntry
from tests.model.truth import Output

if TYPE_CHECKING:
    from tests.strategies import Barrier, Key, Row


class Step(Enum):
    """What a run does next."""

    READ_STATE = auto()
    READ_LOG = auto()
    APPEND_CANDIDATE = auto()
    ADOPT = auto()
    MAKE_BASE = auto()
    STAGE_ARRANGEMENT = auto()
    COMMIT_ARRANGEMENT = auto()
    STAGE_CHANGES = auto()
    COMMIT_CHANGES = auto()
    REPORT_CHANGES = auto()
    AWAIT_CHANGES = auto()
    STAGE_PART = auto()
    COMMIT_PART = auto()
    REPORT_PART = auto()
    STAGE_STATE = auto()
    COMMIT_STATE = auto()
    STAGE_LOG = auto()
    COMMIT_LOG = auto()
    DONE = auto()
    REFUSED = auto()


POINTS = {
    Step.MAKE_BASE: "after_pin",
    Step.STAGE_ARRANGEMENT: "after_pin",
    Step.COMMIT_ARRANGEMENT: "before_arrangement_commit",
    Step.STAGE_CHANGES: "after_arrangement_commit",
    Step.COMMIT_CHANGES: "before_changes_commit",
    Step.REPORT_CHANGES: "after_changes_commit",
    Step.COMMIT_PART: "before_snapshot_commit",
    Step.REPORT_PART: "after_snapshot_commit",
    Step.STAGE_STATE: "after_report",
    Step.COMMIT_STATE: "before_state_commit",
    Step.STAGE_LOG: "after_state_commit",
    Step.COMMIT_LOG: "before_log_commit",
}
"""The points at which an attempt can die. The points of a write are passed only if there is something to write."""

ARRANGED_POINTS = tuple(dict.fromkeys(POINTS.values()))
"""The points in the order in which an epoch passes them."""


@dataclass(frozen=True, slots=True)
class Staged:
    """A write computed but not committed: net rows for a merge, or rows for an append; and how many count."""

    view_version: int
    rows: tuple[tuple[Key, Output | None], ...]
    counts: Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """
    One task run in the middle of its work: what it knows, and loses when it dies.

    It executes a whole epoch, the parts one after the other, or ``only`` its changes, or one part. ``first_part``
    is the part that a run of the whole epoch begins with.
    """

    settings: Barrier
    only: Literal["changes"] | int | None = None
    first_part: int = 0
    next: Step = Step.READ_STATE
    state: VnodeState | None = None
    plan: ArrangedPlan | None = None
    parts_left: tuple[int, ...] = ()
    net: tuple[tuple[Position, Row | None], ...] | None = None
    staged: Staged | VnodeState | LogEntry | None = None

    @property
    def stands_at(self) -> str | None:
        """The named point at which it stands."""
        return POINTS.get(self.next)

    @property
    def ended(self) -> bool:
        """Whether nothing is left to do."""
        return self.next in {Step.DONE, Step.REFUSED}
