"""
Stage 1 as a whole: its rows at any instant, by time travel on all tables; and ways to read it that look right.

:class:`Stage1` is what I1 compares with. To a view of groups over it, it is a table with a feed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from tests.model.joins_queries import Join, Joined, JoinQuery, rows_of_lead
from tests.model.joins_tables import LENGTH, Record, Signed, Table, World
from tests.model.upstream import Change, ChangeType
from tests.strategies import Key, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How the tables of a query are read; each default is what keeps an invariant."""

    windows: Literal[
        "end at one instant", "end at what each log has", "end at the oldest newest commit", "one of each role"
    ] = "end at one instant"
    rows_of_a_lead: Literal["all", "one"] = "all"
    """``one`` is what a merge by the lead's key keeps of a fan-out."""
    branches: Literal["apart", "one"] = "apart"
    """``one`` is what a merge by the lead's key keeps of two branches."""
    nulls: Literal["match nothing", "match nulls"] = "match nothing"
    negation: Literal["NOT IN", "anti join"] = "NOT IN"


class Stage1:
    """The rows of stage 1 at any instant. The last one is ``latest``."""

    def __init__(self, world: World, query: JoinQuery, latest: int = LENGTH + 1) -> None:
        self.world, self.query, self.latest = world, query, latest
        self.rows = cache(self._rows)

    def as_of(self, version: int) -> dict[Key, Row]:
        """Return the rows at an instant."""
        return {row.key: row for row in self.rows(version, version)}

    def changes(self, after: int, up_to: int) -> list[Change]:
        """Return how the rows changed in ``(after, up_to]``."""
        found: list[Change] = []
        for instant in range(after + 1, up_to + 1):
            then, now = self.as_of(instant - 1), self.as_of(instant)
            found += [Change(instant, ChangeType.DELETE, row) for key, row in then.items() if now.get(key) != row]
            found += [Change(instant, ChangeType.INSERT, row) for key, row in now.items() if then.get(key) != row]
        return found

    def rows_among(self, leads: Collection[tuple[int, int]], instant: int) -> list[Joined]:
        """Return the rows of some leads, as if their table had no other rows in its other roles either."""
        found: list[Joined] = []
        for number, branch in enumerate(self.query.branches):
            rows = {join.table: self.world[join.table].at(instant) for join in branch.all_joins}
            rows[branch.source] = tuple(
                record for record in self.world[branch.source].at(instant) if (number, record.key) in leads
            )
            for lead in rows[branch.source]:
                found += rows_of_lead(self.query, number, lead, rows)
        return found

    def rows_of(self, leads: Iterable[tuple[int, Record]], dimensions_at: int) -> list[Joined]:
        """Return what rows of leads, each with its branch, give with the dimensions at an instant."""
        found: list[Joined] = []
        for number, lead in leads:
            branch = self.query.branches[number]
            rows = {join.table: self.world[join.table].at(dimensions_at) for join in branch.all_joins}
            found += rows_of_lead(self.query, number, lead, rows)
        return self.kept(found)

    def kept(self, rows: list[Joined]) -> list[Joined]:
        """Return the rows that a view can keep: all of them."""
        return rows

    def _rows(self, leads_at: int, dimensions_at: int, last_dimension_at: int | None = None) -> list[Joined]:
        found: list[Joined] = []
        for number, branch in enumerate(self.query.branches):
            rows = {join.table: self.world[join.table].at(dimensions_at) for join in branch.all_joins}
            if last_dimension_at is not None and branch.joins:
                last = branch.joins[-1].table
                rows[last] = self.world[last].at(last_dimension_at)
            for lead in self.world[branch.source].at(leads_at):
                found += rows_of_lead(self.query, number, lead, rows)
        return self.kept(found)


def as_read(stage_1: Stage1, reading: Reading) -> Stage1:
    """Return stage 1 as a job reads it."""
    if reading == Reading():
        return stage_1
    query, world = stage_1.query, dict(stage_1.world)
    if reading.windows == "one of each role":
        query, world = _with_a_window_of_each_role(query, world)
    elif reading.windows == "end at what each log has":  # the logs are read one after the other, and commits go on
        world = {name: Moved(table, n.__add__) for n, (name, table) in enumerate(sorted(world.items()))}
    elif reading.windows == "end at the oldest newest commit":
        tables = [*world.values()]
        world = {
            name: Moved(table, lambda at: min(max(c for c in other.commits if c <= at) for other in tables))
            for name, table in world.items()
        }
    return _Misread(world, _misread(query, reading), reading)


class Moved(Table):
    """A table that is read at another instant than it should be."""

    def __init__(self, table: Table, move: Callable[[int], int]) -> None:
        super().__init__()
        self._table, self._move = table, move

    @property
    def commits(self) -> list[int]:
        """The instants of the table's commits."""
        return self._table.commits

    def at(self, instant: int) -> tuple[Record, ...]:
        """Return the rows at the other instant."""
        return self._table.at(self._move(instant))

    def changes(self, after: int, up_to: int) -> list[Signed]:
        """Return the feed between the other instants."""
        return self._table.changes(self._move(after), self._move(up_to))


class _Misread(Stage1):
    def __init__(self, world: World, query: JoinQuery, reading: Reading) -> None:
        self._reading = reading
        super().__init__(world, query)

    def kept(self, rows: list[Joined]) -> list[Joined]:
        if self._reading.rows_of_a_lead == "one":
            rows = [*{(row.branch, row.lead): row for row in rows}.values()]
        if self._reading.branches == "one":
            rows = [*{row.lead: row for row in rows}.values()]
        return rows


def _misread(query: JoinQuery, reading: Reading) -> JoinQuery:
    def misread(join: Join) -> Join:
        if join.how == "not in" and reading.negation == "anti join":
            join = replace(join, how="anti")
        return replace(join, matches_nulls=reading.nulls == "match nulls")

    return _with_joins(query, misread)


def _with_a_window_of_each_role(query: JoinQuery, world: dict[str, Table]) -> tuple[JoinQuery, dict[str, Table]]:
    """The log of a table is read once more for each of its roles, and a commit came in between."""
    seen: set[str] = set()

    def again(table: str) -> str:
        if table not in seen:
            seen.add(table)
            return table
        world[f"{table}, again"] = Moved(world[table], (1).__add__)
        return f"{table}, again"

    branches = tuple(replace(branch, table=again(branch.source)) for branch in query.branches)
    query = replace(query, branches=branches)
    return _with_joins(query, lambda join: replace(join, role=join.name, table=again(join.table))), world


def _with_joins(query: JoinQuery, change: Callable[[Join], Join]) -> JoinQuery:
    branches = (replace(branch, joins=tuple(map(change, branch.joins))) for branch in query.branches)
    return replace(query, branches=tuple(branches))
