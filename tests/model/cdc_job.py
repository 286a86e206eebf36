"""A cdc job, the rules that its protocol can do without one of, and everything that outlives an attempt."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from tests.model.cdc_database import ChangeLog, Database, Reading
from tests.model.tables import BarrierLog, Plan, State, View
from tests.model.truth import Output, Query, true_view
from tests.model.upstream import Upstream

if TYPE_CHECKING:
    from tests.strategies import Key


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """The rules; each default is what keeps an invariant."""

    offset_taken: Literal["before the rows", "after the rows"] = "before the rows"
    in_progress: Literal["all", "as the snapshot lists them", "ignored"] = "all"
    end_is_marked: bool = True
    settled_after: Literal["the reading's offset", "the window's beginning", "nothing"] = "the reading's offset"
    settled_up_to: Literal["the window's end", "the log's end"] = "the window's end"
    reading_has_txn: bool = True
    landed_before_advancing: bool = True
    landing_is_exclusive: bool = True
    slot_read_first: bool = True
    gap_refused: bool = True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """
    What never changes while a backfill runs (the upstream only ever grows).

    ``sample`` are keys that divide the rows into parts. Any keys will do; more than ``connections`` ranges are never
    read in one epoch.
    """

    upstream: Upstream
    query: Query
    sample: tuple[Key, ...]
    protocol: Protocol = Protocol()
    connections: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Everything that outlives an attempt."""

    database: Database = field(default_factory=Database)
    changes: ChangeLog = field(default_factory=ChangeLog)
    readings: tuple[Reading, ...] = ()
    log: BarrierLog[Plan] = field(default_factory=BarrierLog)
    state: State = field(default_factory=State)
    view: View = field(default_factory=View)

    def truth(self, job: Job) -> dict[Key, Output]:
        """Return the rows that I1 asks for after the committed epoch; its ``version`` is an offset."""
        version = self.database.version_at(self.state.version)
        return true_view(job.upstream, job.query, version, self.state.progress)
