"""
Which rows of a lead a window affects, when any of its tables changes. It is computed up the tree of joins.

The affected rows of a table are its changed rows, and those rows whose join value is a join value of an affected row
of a dimension of theirs. A changed row counts in **every** image that the window's feed has of it. So the lead rows
found are all that could have other rows in the view. There may be more of them, and that does no harm.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from tests.model.joins_queries import Branch, Join
from tests.model.joins_tables import Record, Signed, Table, World

Value = tuple[int | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracing:
    """The rules of the search; each default is what makes it complete."""

    images: Literal["all", "net", "newest", "oldest", "both ends"] = "all"
    """Of a dimension's changed row; ``net`` is netted by key from the feed, ``both ends`` is by time travel."""
    through: Literal["every hop", "one hop"] = "every hop"
    dimensions: Literal["every", "first", "none", "those with columns"] = "every"
    value: Literal["the join columns", "the key", "one join column"] = "the join columns"
    found_at: Literal["end", "start"] = "end"
    """When the rows are looked up that have an affected join value. They did not change, so both are right."""
    condition: Literal["ignored", "of the new image"] = "ignored"
    """Whether a changed row counts only if it meets the further conditions of ON."""
    roles: Literal["every", "the lead's"] = "every"
    """Of a table that is in several roles."""
    without_feed: Literal["diff of rows", "diff of keys", "diff by equality", "rows at the end"] = "diff of rows"
    idle: Literal["no table changed", "the lead did not change"] = "no table changed"


NO_FEED = frozenset({"products"})
"""Tables without a change feed: their versions at a window's ends are compared."""


@dataclass(frozen=True, slots=True)
class Trace:
    """The search in one window ``(start, end]`` and one branch."""

    world: World
    branch: Branch
    start: int
    end: int
    rules: Tracing = Tracing()

    def leads(self) -> set[int]:
        """Return the keys of the affected lead rows."""
        lead = self.branch.lead
        if self.rules.idle == "the lead did not change" and not self._changed(lead):
            return set()
        return {record.key for record in self._affected(lead)}

    def _affected(self, role: str) -> set[Record]:
        """Return images of all affected rows of a role."""
        affected = set(self._changed(role))
        for number, join in enumerate(self.branch.all_joins):
            if self._is_followed(role, number, join):
                values = self._values(join)
                at = self.end if self.rules.found_at == "end" else self.start
                affected |= {row for row in self._table(role).at(at) if self._parent_value(join, row) in values}
        return affected

    def _values(self, join: Join) -> set[Value]:
        """Return the values of a dimension's join columns in its affected rows."""
        child = self._affected(join.name)
        if self.rules.through == "one hop":
            child = set(self._changed(join.name))
        if self.rules.condition == "of the new image" and join.also is not None:
            newest = set(self._table(join.name).at(self.end))
            child = {record for record in child if record in newest and join.also({}, record)}
        columns = ("key",) if self.rules.value == "the key" else self._columns(join, 2)
        values = {tuple(getattr(record, column) for column in columns) for record in child}
        return {value for value in values if None not in value}

    def _parent_value(self, join: Join, record: Record) -> Value:
        return tuple(getattr(record, column) for column in self._columns(join, 1))

    def _columns(self, join: Join, side: Literal[1, 2]) -> tuple[str, ...]:
        """Return the columns that are equal, of the role on which a dimension hangs or of the dimension."""
        columns = tuple(on[side] for on in join.on if on[0] == join.on[0][0])
        return columns[:1] if self.rules.value == "one join column" else columns

    def _is_followed(self, role: str, number: int, join: Join) -> bool:
        if join.on[0][0] != role or (self.rules.dimensions == "first" and number > 0):
            return False
        if self.rules.roles == "the lead's" and join.table == self.branch.source:
            return False
        return self.rules.dimensions != "none" and (self.rules.dimensions == "every" or join.adds_columns)

    def _changed(self, role: str) -> list[Record]:
        table = self._table(role)
        if self._name(role) in NO_FEED:
            return self._differing(table)
        changes, images = table.changes(self.start, self.end), self.rules.images
        if role == self.branch.lead or images == "all":
            return [change.record for change in changes]
        if images == "both ends":
            return _differing(table, self.start, self.end)
        if images == "net":
            return netted(changes)
        return [change.record for change in changes if change.writes == (images == "newest")]

    def _differing(self, table: Table) -> list[Record]:
        rule = self.rules.without_feed
        differing = _differing(table, self.start, self.end)
        then, now = ({record.key: record for record in table.at(at)} for at in (self.start, self.end))
        if rule == "diff of keys":
            return [record for record in differing if record.key in then.keys() ^ now.keys()]
        if rule == "rows at the end":
            return [record for record in differing if record in table.at(self.end)]
        if rule == "diff by equality":  # a comparison with a null is never true
            return [record for record in differing if _is_unequal(then.get(record.key), now.get(record.key))]
        return differing

    def _name(self, role: str) -> str:
        return next((join.table for join in self.branch.all_joins if join.name == role), self.branch.source)

    def _table(self, role: str) -> Table:
        return self.world[self._name(role)]


def _differing(table: Table, start: int, end: int) -> list[Record]:
    """Return the rows that a table has at one of two instants alone, counted as a bag."""
    then, now = (Counter(table.at(instant)) for instant in (start, end))
    return [*((then - now) + (now - then)).elements()]


def _is_unequal(one: Record | None, other: Record | None) -> bool:
    if one is None or other is None:
        return True
    return any(a != b for a, b in zip(one, other, strict=True) if a is not None and b is not None)


def netted(changes: list[Signed]) -> list[Record]:
    """Return the first old image and the last new one of each key. A key that is there twice has a wrong net."""
    by_key: dict[int, list[Signed]] = {}
    for change in sorted(changes, key=lambda change: (change.instant, change.writes)):
        by_key.setdefault(change.record.key, []).append(change)
    first = [found[0].record for found in by_key.values() if not found[0].writes]
    return first + [found[-1].record for found in by_key.values() if found[-1].writes]
