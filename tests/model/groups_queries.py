"""
Queries that group: what belongs to a unit, what the view has of it, and the state from which a fold goes on.

A **unit** is one value of the columns that group; these may be null. A **slice** is the query over all rows of a unit.
A **fold** keeps a :class:`State` for each unit in hidden columns of the view and moves it by signed images.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Literal, NamedTuple

from tests.model.groups_rows import VALUES, Sale
from tests.model.truth import Output

Unit = tuple[str | int | None, ...]


class State(NamedTuple):
    """The hidden columns of a group: its rows, its amounts that are not null, their sum and their extremes."""

    rows: int = 0
    amounts: int = 0
    total: int = 0
    least: int | None = None
    most: int | None = None

    @classmethod
    def of(cls, rows: Iterable[Sale]) -> State:
        """Return the state of a group of these rows."""
        rows = list(rows)
        amounts = [row.amount for row in rows if row.amount is not None]
        return cls(len(rows), len(amounts), sum(amounts), min(amounts, default=None), max(amounts, default=None))

    def moved(self, minus: State, plus: State) -> State:
        """Return the state after some rows went and others came. Extremes that went are still in it."""
        least = [amount for amount in (self.least, plus.least) if amount is not None]
        most = [amount for amount in (self.most, plus.most) if amount is not None]
        return State(
            self.rows - minus.rows + plus.rows,
            self.amounts - minus.amounts + plus.amounts,
            self.total - minus.total + plus.total,
            min(least, default=None),
            max(most, default=None),
        )

    def lost_an_extreme(self, minus: State) -> bool:
        """Return whether a row that went had the least or the greatest amount."""
        return minus.amounts > 0 and (minus.least == self.least or minus.most == self.most)


class Stored(NamedTuple):
    """A row of the view: its unit, and its hidden state or the query's own columns."""

    unit: Unit
    row: State | Output


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupQuery:
    """A query that groups by ``columns``, and how the view of it is kept."""

    name: str
    columns: tuple[str, ...]
    technique: Literal["fold", "slice"]
    result: Callable[[Unit, list[Sale]], list[Output]]
    """The query over the rows of a unit."""
    shown: Callable[[Unit, State], Output] | None = None
    """What readers see of a state; only for a fold."""
    stores: Callable[[State], bool] = lambda state: state.rows > 0
    """Whether a fold keeps a group with this state."""
    values: Mapping[str, tuple[str | int | None, ...]] = field(default_factory=lambda: VALUES)
    """What the columns may have."""
    is_of_keys: bool = False
    """Whether a unit is the rows of one key, so that no chunk can end inside it."""

    def unit(self, row: Sale) -> Unit:
        """Return the unit of a row."""
        return tuple(getattr(row, column) for column in self.columns)

    def units(self, rows: Iterable[Sale]) -> dict[Unit, list[Sale]]:
        """Return the rows by unit. Without columns there is one unit, also of nothing."""
        found: dict[Unit, list[Sale]] = defaultdict(list, {} if self.columns else {(): []})
        for row in rows:
            found[self.unit(row)].append(row)
        return found

    def stored(self, unit: Unit, rows: list[Sale]) -> list[Stored]:
        """Return what the view has of a unit with these rows."""
        if self.technique == "fold":
            return self.stored_state(unit, State.of(rows))
        return [Stored(unit, row) for row in self.result(unit, rows)] if rows else []

    def stored_state(self, unit: Unit, state: State) -> list[Stored]:
        """Return what the view has of a unit in this state."""
        return [Stored(unit, state)] if self.stores(state) else []

    def visible(self, rows: Iterable[Stored]) -> Counter[Output]:
        """Return what a reader of the view sees: a bag of rows without hidden columns."""
        return Counter(
            self.shown(unit, row) if self.shown is not None and isinstance(row, State) else row for unit, row in rows
        )

    def over(self, rows: Iterable[Sale]) -> Counter[Output]:
        """Return the query over some rows: what I1 asks for. It knows nothing of epochs, units stored or states."""
        return Counter(row for unit, found in self.units(rows).items() for row in self.result(unit, found))

    def all_units(self) -> list[Unit]:
        """Return every unit that there can be."""
        return list(product(*(self.values[column] for column in self.columns)))


def _totals(unit: Unit, state: State) -> Output:
    total = state.total if state.amounts else None
    average = state.total / state.amounts if state.amounts else None
    return (*unit, state.rows, state.amounts, total, average, state.least, state.most)


def _of_group(unit: Unit, rows: list[Sale]) -> list[Output]:
    return [_totals(unit, State.of(rows))]


def _having(unit: Unit, rows: list[Sale]) -> list[Output]:
    return _of_group(unit, rows) if len(rows) > 1 else []


def _percentile(unit: Unit, rows: list[Sale]) -> list[Output]:
    return [(*unit, *sorted((row.amount is None, row.amount or 0) for row in rows))]


def _ranked(rows: list[Sale], most: int) -> list[Output]:
    ranked = sorted(rows, key=lambda row: (-row.at, row.key))
    return [(row.status, row.shop, rank, row.key, row.at, row.amount) for rank, row in enumerate(ranked[:most])]


TOTALS = GroupQuery(name="totals", columns=("status",), technique="fold", result=_of_group, shown=_totals)
TOTALS_OF_TWO = GroupQuery(
    name="totals_of_two", columns=("status", "shop"), technique="fold", result=_of_group, shown=_totals
)
"""Grouped by two columns, each of which may be null."""
GLOBAL = GroupQuery(
    name="global", columns=(), technique="fold", result=_of_group, shown=_totals, stores=lambda state: True
)
"""Without GROUP BY: always exactly one row, also over nothing."""
DISTINCT = GroupQuery(
    name="distinct",
    columns=("status", "shop"),
    technique="fold",
    result=lambda unit, rows: [unit],
    shown=lambda unit, state: unit,
)
PERCENTILE = GroupQuery(name="percentile", columns=("status",), technique="slice", result=_percentile)
"""Stands for any deterministic aggregate."""
PERCENTILE_OF_TWO = GroupQuery(
    name="percentile_of_two", columns=("status", "shop"), technique="slice", result=_percentile
)
HAVING = GroupQuery(name="having", columns=("status", "shop"), technique="slice", result=_having)
LATEST = GroupQuery(
    name="latest", columns=("status", "shop"), technique="slice", result=lambda unit, rows: _ranked(rows, 1)
)
TOP_TWO = GroupQuery(name="top_two", columns=("shop",), technique="slice", result=lambda unit, rows: _ranked(rows, 2))

HAVING_BY_STORED_GROUPS = GroupQuery(
    name="having_by_stored_groups",
    columns=("status", "shop"),
    technique="fold",
    result=_having,
    shown=_totals,
    stores=lambda state: state.rows > 1,
)
"""The mutant of :data:`HAVING`: a fold that keeps only the groups that pass."""

ALL = (TOTALS, TOTALS_OF_TWO, GLOBAL, DISTINCT, PERCENTILE, PERCENTILE_OF_TWO, HAVING, LATEST, TOP_TWO)
