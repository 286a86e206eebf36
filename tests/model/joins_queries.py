"""
Queries over several upstreams: what stage 1 makes of each lead row, and stage 2 on top of it.

A **lead** is joined with **dimensions**, each of which hangs on a table that was joined before it. A dimension is a
**lookup** if its join columns have its declared key, and else a **fan-out**, which may give several rows of one lead:
the columns decide it, never the data. A semi or anti join only asks whether there is a match. A **branch** is one lead
with its joins; several of them are a UNION ALL.

:func:`rows_of_lead` is the oracle. It knows nothing of epochs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from tests.model import groups_queries as groups
from tests.model.groups_queries import GroupQuery, Unit
from tests.model.groups_rows import Sale
from tests.model.joins_tables import Record
from tests.model.truth import Output

LEADS = 6
"""The number of keys of a lead."""

Found = Mapping[str, Record | None]
"""What a row of stage 1 is made of: of each role its row, or None where an outer join has no match."""
Rows = Mapping[str, tuple[Record, ...]]
"""The rows of each table."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Join:
    """A dimension in a role. ``on`` has a role, its column, and the dimension's column that must be equal."""

    table: str
    how: Literal["inner", "left", "semi", "anti", "not in"]
    on: tuple[tuple[str, str, str], ...]
    role: str = ""
    also: Callable[[Found, Record], bool] | None = None
    """Further conditions of ON."""
    inside: tuple[Join, ...] = ()
    """The joins in the subquery of a semi or anti join."""
    matches_nulls: bool = False
    """Never, in a query that is accepted. A mutant joins by ``<=>``."""

    @property
    def name(self) -> str:
        """The role; by default the table's name."""
        return self.role or self.table

    @property
    def adds_columns(self) -> bool:
        """Whether the view may have columns of the dimension."""
        return self.how in {"inner", "left"}

    @property
    def is_lookup(self) -> bool:
        """Whether a lead row has at most one match: the join columns have the declared key."""
        return self.adds_columns and any(own == "key" for _, _, own in self.on)

    @property
    def is_fan_out(self) -> bool:
        """Whether a lead row may have several matches."""
        return self.adds_columns and not self.is_lookup

    def matches(self, found: Found, rows: Rows) -> list[Record]:
        """Return the matching rows of the dimension. Null matches nothing."""
        wanted = [_column(found[role], column) for role, column, _ in self.on]
        if None in wanted and not self.matches_nulls:
            return []
        matching = [record for record in rows[self.table] if [getattr(record, own) for _, _, own in self.on] == wanted]
        return [record for record in matching if self._holds(found, record, rows)]

    def _holds(self, found: Found, record: Record, rows: Rows) -> bool:
        """Return whether the further conditions hold, and the joins in the subquery have a match."""
        if self.also is not None and not self.also(found, record):
            return False
        founds = [{**found, self.name: record}]
        for join in self.inside:
            founds = [joined for one in founds for joined in _joined(join, one, rows)]
        return bool(founds)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Branch:
    """A lead and its joins. The role of the lead is its table's name, or another one."""

    lead: str
    table: str = ""
    joins: tuple[Join, ...] = ()
    where: Callable[[Found], bool] = lambda found: True
    unit: Callable[[Found], tuple[str | None, int | None]] = lambda found: (None, None)
    """The columns by which stage 2 groups."""
    amount: Callable[[Found], int | None] = lambda found: None
    """The column that stage 2 aggregates."""

    @property
    def source(self) -> str:
        """The lead's table."""
        return self.table or self.lead

    @property
    def all_joins(self) -> tuple[Join, ...]:
        """The joins, and those in their subqueries."""
        return tuple(one for join in self.joins for one in (join, *join.inside))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JoinQuery:
    """Stage 1."""

    name: str
    branches: tuple[Branch, ...]

    @property
    def tables(self) -> set[str]:
        """The upstreams; a table in several roles or branches is one of them."""
        leads = {branch.source for branch in self.branches}
        return leads | {join.table for branch in self.branches for join in branch.all_joins}


@dataclass(frozen=True, slots=True)
class Joined(Sale):
    """A row of stage 1. Its key is the number of its lead row, and the key of each fan-out, null without a match."""

    branch: int = 0
    lead: int = 0
    columns: Output = ()


def rows_of_lead(query: JoinQuery, branch: int, lead: Record, rows: Rows) -> list[Joined]:
    """Return what stage 1 makes of a row of the lead."""
    of = query.branches[branch]
    founds: list[dict[str, Record | None]] = [{of.lead: lead}]
    for join in of.joins:
        founds = [joined for found in founds for joined in _joined(join, found, rows)]
    return [_row(of, branch, found) for found in founds if of.where(found)]


def _joined(join: Join, found: Mapping[str, Record | None], rows: Rows) -> list[dict[str, Record | None]]:
    matches = join.matches(found, rows)
    if join.adds_columns:
        alternatives: list[Record | None] = [*matches] or ([None] if join.how == "left" else [])
        return [{**found, join.name: match} for match in alternatives]
    if join.how == "not in":
        ((role, column, own),) = join.on
        wanted = _column(found[role], column)
        others = rows[join.table]
        is_unknown = bool(others) and (wanted is None or any(getattr(record, own) is None for record in others))
        return [] if matches or is_unknown else [dict(found)]
    return [dict(found)] if bool(matches) == (join.how == "semi") else []


def _row(of: Branch, branch: int, found: Found) -> Joined:
    lead = found[of.lead]
    assert lead is not None
    fan_outs = tuple(_column(found[join.name], "key") for join in of.joins if join.is_fan_out)
    status, shop = of.unit(found)
    dimensions = [found[join.name] for join in of.joins if join.adds_columns]
    return Joined(
        key=(branch * LEADS + lead.key, *fan_outs),
        status=status,
        shop=shop,
        amount=of.amount(found),
        at=lead.second or 0,
        branch=branch,
        lead=lead.key,
        columns=(lead, *dimensions),
    )


def _column(record: Record | None, column: str) -> int | None:
    value = None if record is None else getattr(record, column)
    assert value is None or isinstance(value, int)
    return value


def _all_columns(unit: Unit, rows: list[Sale]) -> list[Output]:
    return [(*unit, *row.key, row.columns) for row in rows if isinstance(row, Joined)]


BY_LEAD = GroupQuery(
    name="rows",
    columns=("branch", "lead"),
    values={"branch": (0, 1), "lead": tuple(range(LEADS))},
    technique="slice",
    result=_all_columns,
    is_of_keys=True,
)
"""No stage 2: the unit is a lead row, in its branch, and has all rows that it gives."""

STAGES_2 = (
    groups.TOTALS,
    groups.TOTALS_OF_TWO,
    groups.GLOBAL,
    groups.DISTINCT,
    groups.PERCENTILE,
    groups.HAVING,
    groups.LATEST,
    groups.TOP_TWO,
)
