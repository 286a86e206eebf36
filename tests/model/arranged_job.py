"""The algorithm with a position for each vnode: its rules, the job that never changes, and what outlives a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal
from zlib import crc32

from tests.model.arranged_tables import (
    ArrangedPlan,
    Arrangement,
    Counts,
    Distribution,
    Position,
    Range,
    Report,
    VnodeState,
)
from tests.model.tables import BarrierLog, View
from tests.model.truth import Output, Query
from tests.model.upstream import Change, Upstream, as_stream

if TYPE_CHECKING:
    from tests.strategies import Key, Row

Net = dict[Position, "Row | None"]

KnownKeys = Callable[["Job", "World", Range], "list[Key]"]
"""The keys that an injector believes to be in a range, in order; it cuts chunks between them."""


def by_status(row: Row) -> int:
    """Distribute by a column that the usual query filters by; three vnodes."""
    return ("open", "paid", None).index(row.status)


def by_amount(row: Row) -> int:
    """Distribute by a column that changes often; three vnodes, one of which also has the nulls."""
    return 0 if row.amount is None else row.amount % 3


def by_key(row: Row) -> int:
    """Distribute by the key, so that no row ever moves; four vnodes."""
    return hash_of_key(row.key) % 4


def hash_of_key(key: Key) -> int:
    """Return the same number for a key in every process."""
    return crc32(repr(key).encode())


VNODES: dict[Distribution, int] = {by_status: 3, by_amount: 3, by_key: 4}


def net_by_position(changes: Iterable[Change], vnode_of: Distribution) -> Net:
    """
    Return the net change at each (vnode, key) that they touch.

    The latest version wins, and inside one version an insert or postimage beats a delete or preimage.
    """
    return {
        (vnode_of(change.row), change.row.key): change.row if change.writes else None for change in as_stream(changes)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """The rules; each default is what keeps an invariant, or saves work where two are right."""

    pinned: bool = True
    state_fenced: bool = True
    arrangement_has_txn: bool = True
    changes_have_txn: bool = True
    empty_merge_has_txn: bool = True
    parts_have_txn: Literal["each", "shared", "none"] = "each"
    all_parts_awaited: bool = True
    net: Callable[[Iterable[Change], Distribution], Net] = net_by_position
    filter_vnode: Callable[[Key], int] | None = None
    filter_by: Literal["old", "new", "last_row"] = "old"
    chunk_at: Literal["up_to", "after"] = "up_to"
    changes_first: bool = True
    arranged: Literal["unread", "all", "unless_paused"] = "unread"
    stamps_bounded: bool = True
    goes_on_with: Literal["unfinished", "in_progress"] = "unfinished"
    completed_rescanned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Job:
    """What never changes while a backfill runs (the upstream only ever grows)."""

    upstream: Upstream
    query: Query
    vnode_of: Distribution = by_amount
    protocol: Protocol = Protocol()
    known_keys: KnownKeys

    @property
    def vnode_count(self) -> int:
        """How many vnodes the distribution has."""
        return VNODES[self.vnode_of]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Everything that outlives a run. ``latest`` is the upstream's newest version by now."""

    latest: int
    state: VnodeState
    parallelism: int = 1
    log: BarrierLog[ArrangedPlan] = field(default_factory=BarrierLog)
    reports: frozenset[Report] = frozenset()
    arrangement: Arrangement = field(default_factory=Arrangement)
    view: View = field(default_factory=View)

    def reported(self, epoch: int) -> dict[int | None, Counts]:
        """Return what runs have reported of an epoch, by part."""
        return {report.part: report.rows for report in self.reports if report.epoch == epoch}

    def truth(self, job: Job) -> dict[Key, Output]:
        """Return the rows that I1 asks for after the committed epoch."""
        result = {}
        for key, row in job.upstream.as_of(self.state.version).items():
            output = job.query(row)
            if output is not None and self.state.vnodes[job.vnode_of(row)].covers(key, job.upstream.order):
                result[key] = output
        return result


def keys_as_arranged(job: Job, world: World, covered: Range) -> list[Key]:
    """Know what the arrangement shows at the time: the rows before the epoch's own changes."""
    return [key for (_, key), _ in world.arrangement.rows([covered], job.upstream.order, up_to=None)]


def keys_at_the_end(job: Job, world: World, covered: Range) -> list[Key]:
    """Know the rows as the chunk will find them."""
    rows = job.upstream.as_of(world.latest).values()
    return [row.key for row in rows if covered.covers((job.vnode_of(row), row.key), job.upstream.order)]
