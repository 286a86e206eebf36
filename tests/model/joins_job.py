"""
A view over several upstreams as a job keeps it: a view of groups whose rows are those of stage 1.

**The frame over a join.** The images of a change are P(lead at start, dimensions at start) and P(lead at end,
dimensions at end), both of the affected leads. Old rows are never joined with new dimensions. All else is as in
:mod:`tests.model.groups_job`: without stage 2 the unit is the lead row, and an epoch replaces all of its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from tests.model.groups_job import Entry, Job, Protocol, Strategy
from tests.model.groups_queries import GroupQuery, State, Stored
from tests.model.groups_rows import Images, Sale
from tests.model.groups_scan import Barrier
from tests.model.joins_affected import Trace, Tracing, netted
from tests.model.joins_arranged import Arranging, Placed, once, placed, placed_images
from tests.model.joins_queries import LEADS, Joined
from tests.model.joins_stage1 import Reading, Stage1, as_read
from tests.model.joins_tables import Record


class DuplicateKeyError(Exception):
    """A dimension has its declared key twice. Nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinProtocol(Protocol):
    """The rules of several upstreams; each default is what keeps an invariant."""

    tracing: Tracing = field(default_factory=Tracing)
    old_rows_join: Literal["dimensions at start", "dimensions at end"] = "dimensions at start"
    new_rows_join: Literal["dimensions at end", "dimensions at start", "the newest of the last one"] = (
        "dimensions at end"
    )
    chunk_joins: Literal["dimensions at end", "dimensions at start"] = "dimensions at end"
    """Of a chunk that is read as of the window's end."""
    base_joins: Literal["dimensions at V0", "dimensions at end"] = "dimensions at V0"
    """Of a chunk that is read as of V0."""
    reading: Reading = field(default_factory=Reading)
    arranging: Arranging = field(default_factory=Arranging)
    """How an arrangement of groups is laid out and read."""
    replaced: Literal["all rows of a lead", "rows by the view's key"] = "all rows of a lead"
    arranged_changes: Literal["all affected", "changed leads", "one of each lead"] = "all affected"
    """Of which leads an arrangement of groups gets the changes."""
    relations: Literal["bound by role", "bound by table"] = "bound by role"
    """Whether a table that is also the lead has all rows in its other roles."""
    duplicates: Literal[
        "refused",
        "accepted",
        "refused by each part",
        "looked for at start",
        "looked for among changed keys",
        "looked for among netted keys",
    ] = "refused"
    withdrawn: Literal["its window starts again", "its window is over"] = "its window starts again"
    """A barrier whose epoch was refused."""


class JoinedJob(Job):
    """One incarnation of a view over several upstreams."""

    def __init__(
        self,
        upstream: Stage1,
        query: GroupQuery,
        strategy: Strategy,
        base: int,
        protocol: JoinProtocol,
        *,
        incarnation: int = 1,
    ) -> None:
        self._rules = protocol
        self._stage_1 = as_read(upstream, protocol.reading)
        self.images_at_ends = cache(self._images_at_ends)  # type: ignore[method-assign]
        super().__init__(upstream, query, strategy, base, protocol, incarnation=incarnation)

    @property
    def keeps_arrangement(self) -> bool:
        """Groups are laid out by unit; lead rows are not, because they are read from the lead and its own copy."""
        return super().keeps_arrangement and not self.query.is_of_keys

    @property
    def arranges_leads(self) -> bool:
        """Whether the arrangement has rows of leads, which each chunk joins."""
        return self.keeps_arrangement and self._rules.arranging.of == "leads by unit"

    def doubles(self, instant: int) -> dict[str, set[int]]:
        """Return the keys that a dimension has twice, of each dimension whose rows or key the view has."""
        joins = [join for branch in self._stage_1.query.branches for join in branch.joins if join.adds_columns]
        doubles = {join.table: self._stage_1.world[join.table].doubles(instant) for join in joins}
        return {table: keys for table, keys in doubles.items() if keys}

    def check(self, barrier: Barrier, vnodes: Collection[int]) -> None:
        """I6: a dimension's declared key is unique as of the window's end. Each part asks for the whole dimension."""
        rule = self._rules.duplicates
        if not barrier.applies or rule == "accepted":
            return
        if rule == "refused by each part":
            keys = [row.key for row in self.rows_at(barrier.end) if self.scan.vnode(row) in vnodes]
            found = len(keys) > len(set(keys))
        elif rule.startswith("looked for among"):
            found = any(keys & self._changed(table, barrier) for table, keys in self.doubles(barrier.end).items())
        else:
            found = bool(self.doubles(barrier.start if rule == "looked for at start" else barrier.end))
        if found:
            raise DuplicateKeyError

    def _changed(self, table: str, barrier: Barrier) -> set[int]:
        """Return the keys of a table that a window changes."""
        changes = self._stage_1.world[table].changes(barrier.changes_after, barrier.end)
        if self._rules.duplicates == "looked for among netted keys":
            return {record.key for record in netted(changes)}
        return {change.record.key for change in changes}

    def rows_at(self, version: int) -> list[Sale]:
        """Return stage 1 as of an instant."""
        return [*self._stage_1.rows(version, version)]

    def rows_as_of(self, barrier: Barrier) -> list[Sale]:
        """Return stage 1 as of the window's end; by the arrangement, if that has its rows."""
        if self.keeps_arrangement and not self.arranges_leads:
            return super().rows_as_of(barrier)
        return self._new_rows(barrier.start, barrier.end)

    def to_arrange(self, rows: list[Sale]) -> list[Sale]:
        """Return the rows of leads, each once in every unit that it has a part in; or the joined rows themselves."""
        if not self.arranges_leads:
            return rows
        leads = (placed(row, self.query, self._rules.arranging) for row in rows)
        return [*{lead.key: lead for lead in leads}.values()]

    def images_to_arrange(self, after: int, up_to: int) -> list[Images]:
        """Return both images of the leads in units, or of joined rows."""
        images = super().images_to_arrange(after, up_to)
        return placed_images(images, self.query, self._rules.arranging) if self.arranges_leads else images

    def chunk_rows(self, barrier: Barrier, vnodes: Collection[int]) -> list[Sale]:
        """Return the rows of which an epoch's chunk is: of lead and dimensions as of the same instant."""
        if self.arranges_leads:
            return [*self._stage_1.rows_of(self._leads_of_chunk(barrier, vnodes), self._chunk_joins_at(barrier))]
        if self.keeps_arrangement:
            return super().chunk_rows(barrier, vnodes)
        if barrier.chunk_at_base and self._rules.base_joins == "dimensions at end":
            return [*self._stage_1.rows(self.base, barrier.end)]
        if not barrier.chunk_at_base and self._rules.chunk_joins == "dimensions at start":
            return [*self._stage_1.rows(barrier.end, barrier.start)]
        return super().chunk_rows(barrier, vnodes)

    def is_in_chunk(self, barrier: Barrier, row: Sale) -> bool:
        """Return whether an epoch's chunk has a row: its unit is in the chunk, and not only its lead."""
        has_all = isinstance(row, Joined) and self.arranges_leads
        if has_all and self._rules.arranging.chunk_has == "all rows of its leads":
            return True
        return super().is_in_chunk(barrier, row)

    def _leads_of_chunk(self, barrier: Barrier, vnodes: Collection[int]) -> list[tuple[int, Record]]:
        """Return the leads of the units that a part of a chunk has, by the arrangement."""
        rules = self._rules.arranging
        is_before = barrier.chunk_at_base or self._rules.chunk_at == "start"
        rows = self.arranged(barrier.epoch - 1 if is_before else barrier.epoch)
        if rules.chunk_joins == "leads in its units":
            rows = [row for row in rows if self.scan.vnode(row) in vnodes]
        return once([row for row in rows if isinstance(row, Placed) and self.is_in_chunk(barrier, row)], rules)

    def _chunk_joins_at(self, barrier: Barrier) -> int:
        if barrier.chunk_at_base:
            return self.base if self._rules.base_joins == "dimensions at V0" else barrier.end
        is_before = self._rules.chunk_at == "start" or self._rules.chunk_joins == "dimensions at start"
        return barrier.start if is_before else barrier.end

    def entries(self, barrier: Barrier) -> list[Entry]:
        """Return what the epoch appends to the arrangement."""
        entries, rule = super().entries(barrier), self._rules.arranged_changes
        if rule == "one of each lead":
            return [*{(entry.vnode, entry.key[0]): entry for entry in entries}.values()]
        if rule == "changed leads":
            branches = enumerate(self._stage_1.query.branches)
            tables = {n: self._stage_1.world[branch.source] for n, branch in branches}
            changed = {
                n * LEADS + change.record.key
                for n, table in tables.items()
                for change in table.changes(barrier.arranged_up_to, barrier.end)
            }
            return [entry for entry in entries if entry.key[0] in changed]
        return entries

    def outlives(self, row: Stored, fresh: Callable[[], Collection[Stored]]) -> bool:
        """Return whether a row of a replaced unit stays: never. A merge by the view's key would keep some."""
        if self._rules.replaced == "all rows of a lead" or isinstance(row.row, State):
            return False
        return row.row[:-1] not in {other.row[:-1] for other in fresh() if not isinstance(other.row, State)}

    def _images_at_ends(self, after: int, up_to: int) -> list[Images]:
        """Return both images of the rows of all affected leads; those that stay as they are, too."""
        affected = self._affected(after, up_to)
        dimensions_at = after if self._rules.old_rows_join == "dimensions at start" else up_to
        old, new = (
            {row.key: row for row in rows if isinstance(row, Joined) and (row.branch, row.lead) in affected}
            for rows in (self._stage_1.rows(after, dimensions_at), self._new_rows(after, up_to))
        )
        return [(old.get(key), new.get(key)) for key in {**old, **new}]

    def _affected(self, after: int, up_to: int) -> set[tuple[int, int]]:
        """Return branch and key of the leads that a window affects."""
        branches = enumerate(self._stage_1.query.branches)
        traces = {n: Trace(self._stage_1.world, branch, after, up_to, self._rules.tracing) for n, branch in branches}
        return {(n, key) for n, trace in traces.items() for key in trace.leads()}

    def _new_rows(self, start: int, end: int) -> list[Sale]:
        rule = self._rules.new_rows_join
        if self._rules.relations == "bound by table":
            affected = self._affected(start, end)
            rows = self._stage_1.rows(end, end)
            others = [row for row in rows if (row.branch, row.lead) not in affected]
            return [*others, *self._stage_1.rows_among(affected, end)]
        if rule == "the newest of the last one":
            return [*self._stage_1.rows(end, end, self._stage_1.latest)]
        return [*self._stage_1.rows(end, end if rule == "dimensions at end" else start)]
