"""
The algebra of a fold, on SQLite: random histories in which the view is right after every epoch.

The SQL is Spark's. What it does with types, scales and overflows is tested on Spark (``test_folds.py`` of the engine);
here it runs thousands of times, over small integers, in which both databases agree.
"""

from __future__ import annotations

import random
import re
import sqlite3
from collections.abc import Callable, Iterable, Sequence

import pytest

from airflow_backfill_provider.shapes.group.fold.folding import Fold, fold_of
from airflow_backfill_provider.shapes.group.fold.statements import IMPOSSIBLE, changes, moved, of_rows, shown
from airflow_backfill_provider.shapes.group.fold.step import Aggregate, GroupingStep

pytestmark = pytest.mark.slow  # many random histories

Row = tuple[int, int | None, int | None, bool | None]
"""A row: its key, its group, a value, and a boolean."""

COLUMNS = ("id", "g", "v", "b")


def _present(rows: Iterable[Row], column: str) -> list[int]:
    values = (row[COLUMNS.index(column)] for row in rows)
    return [value for value in values if value is not None]


CALLS: Sequence[tuple[str, str, str, str, str | None, Callable[[Sequence[Row]], object]]] = (
    ("count", "*", "", "bigint", None, len),
    ("count", "v", "int", "bigint", None, lambda rows: len(_present(rows, "v"))),
    ("count", "*", "", "bigint", "b OR v > 1", lambda rows: len(_passing(rows))),
    ("sum", "v", "int", "bigint", None, lambda rows: _sum(_present(rows, "v"))),
    ("sum", "v", "int", "bigint", "b OR v > 1", lambda rows: _sum(_present(_passing(rows), "v"))),
    ("avg", "v", "int", "double", None, lambda rows: _average(_present(rows, "v"))),
    ("min", "v", "int", "int", None, lambda rows: min(_present(rows, "v"), default=None)),
    ("max", "v", "int", "int", None, lambda rows: max(_present(rows, "v"), default=None)),
    ("max", "v", "int", "int", "b OR v > 1", lambda rows: max(_present(_passing(rows), "v"), default=None)),
    ("bool_and", "b", "boolean", "boolean", None, lambda rows: min(_present(rows, "b"), default=None)),
    ("some", "b", "boolean", "boolean", None, lambda rows: max(_present(rows, "b"), default=None)),
    ("count_if", "b", "boolean", "bigint", None, lambda rows: sum(_present(rows, "b"))),
)
"""Aggregates: function, argument, its type, the result's type, FILTER, and what it is in Python."""


def _passing(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row[3] or (row[2] is not None and row[2] > 1)]


def _sum(values: list[int]) -> int | None:
    return sum(values) if values else None


def _average(values: list[int]) -> float | None:
    return sum(values) / len(values) if values else None


class _Sum:
    def __init__(self) -> None:
        self.values: list[int] = []

    def step(self, value: int | None) -> None:
        if value is not None:
            self.values.append(value)

    def finalize(self) -> int | None:
        return _sum(self.values)


def database() -> sqlite3.Connection:
    """Return a database with the functions of Spark that SQLite lacks."""
    found = sqlite3.connect(":memory:")
    found.create_aggregate("try_sum", 1, _Sum)
    for name, function in (("least", min), ("greatest", max)):
        found.create_function(name, 2, lambda *pair, of=function: of((v for v in pair if v is not None), default=None))
    found.create_function("raise_error", 1, _fail)
    return found


def _fail(message: str) -> None:
    raise ValueError(message)


def in_sqlite(sql: str) -> str:
    """Return SQL of Spark's in the words of SQLite."""
    sql = re.sub(r"count_if\((\w+)\)", r"count(nullif(\1, 0))", re.sub(r"(\d)BD", r"\1", sql))
    return sql.replace(" <=> ", " IS ").replace("try_cast(", "CAST(")


class View:
    """A view that a fold maintains. With ``units`` empty, all rows are one group."""

    def __init__(self, units: tuple[str, ...]) -> None:
        aggregates = (
            Aggregate(
                function=function,
                arguments=(argument,),
                argument_types=(kind,) if kind else (),
                result_type=result,
                output=f"r{number}",
                condition=condition,
            )
            for number, (function, argument, kind, result, condition, _) in enumerate(CALLS)
        )
        found = fold_of(GroupingStep(aggregates=tuple(aggregates), units=units), COLUMNS)
        assert isinstance(found, Fold)
        self.fold, self.units = found, units
        self.rows: dict[int, Row] = {}
        self.read_again = 0
        self.database = database()
        self._fill("rows_", COLUMNS, [])
        self._make("base", self._grouped("rows_", of_rows(found)))
        self.results: dict[object, tuple[object, ...]] = self._expected() if not units else {}

    def epoch(self, changed: dict[int, Row | None]) -> None:
        """Fold changes of rows: key → its new row."""
        old = [self.rows[key] for key in changed if key in self.rows]
        new = [row for row in changed.values() if row is not None]
        self.rows = {key: row for key, row in {**self.rows, **changed}.items() if row is not None}
        images = [(*row, -1) for row in old] + [(*row, 1) for row in new]
        self._fill("images", (*COLUMNS, self.fold.sign), images)
        self._make("delta", self._grouped("images", changes(self.fold)))
        self._make("state", moved(self.fold, "delta", "base"))
        kept = self._all(shown(self.fold, "state"))
        unit = ", ".join([*self.units, f"`{self.fold.is_lost}`"])
        touched = {row[:-1]: row[-1] for row in self._all(f"SELECT {unit} FROM state")}
        self._fill("rows_", COLUMNS, self.rows.values())
        self._make("again", self._grouped("rows_", of_rows(self.fold)))
        hidden = {self._unit(row): row for row in self._all("SELECT * FROM base")}
        fresh = {self._unit(row): row for row in self._all("SELECT * FROM again")}
        expected = self._expected()
        for found, is_lost in touched.items():
            self.results.pop(found, None)
            hidden.pop(found, None)
            if is_lost:
                self.read_again += 1
                self.results[found], hidden[found] = expected[found], fresh[found]
        for row in kept:
            start, end = len(self.units), len(self.units) + len(CALLS)
            self.results[self._unit(row)] = row[start:end]
            hidden[self._unit(row)] = (*self._unit(row), *row[end:])
        self._fill("base", (*self.units, *(column.name for column in self.fold.columns)), hidden.values())
        assert hidden == {unit: row for unit, row in fresh.items() if unit in hidden}
        assert self.results == expected

    def _expected(self) -> dict[object, tuple[object, ...]]:
        groups: dict[object, list[Row]] = {} if self.units else {(): []}
        for row in self.rows.values():
            groups.setdefault((row[1],) if self.units else (), []).append(row)
        return {unit: tuple(call[-1](rows) for call in CALLS) for unit, rows in groups.items()}

    def _unit(self, row: tuple[object, ...]) -> tuple[object, ...]:
        return row[: len(self.units)]

    def _grouped(self, relation: str, items: Sequence[str]) -> str:
        group_by = f" GROUP BY {', '.join(self.units)}" if self.units else ""
        return f"SELECT {', '.join([*self.units, *items])} FROM {relation}{group_by}"

    def _make(self, name: str, query: str) -> None:
        self.database.execute(f"DROP TABLE IF EXISTS {name}")
        self.database.execute(f"CREATE TABLE {name} AS {in_sqlite(query)}")

    def _fill(self, name: str, columns: Sequence[str], rows: Iterable[tuple[object, ...]]) -> None:
        self.database.execute(f"DROP TABLE IF EXISTS {name}")
        self.database.execute(f"CREATE TABLE {name} ({', '.join(f'`{column}`' for column in columns)})")
        marks = ", ".join("?" for _ in columns)
        self.database.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)

    def _all(self, query: str) -> list[tuple[object, ...]]:
        return self.database.execute(in_sqlite(query)).fetchall()


def random_changes(drawn: random.Random, view: View) -> dict[int, Row | None]:
    """Return changes of some rows; now and then, all rows of a group go."""
    changed: dict[int, Row | None] = {}
    for key in drawn.sample(range(12), drawn.randint(0, 5)):
        row = (key, drawn.choice([None, 1, 2]), drawn.choice([None, -1, 0, 1, 2]), drawn.choice([None, True, False]))
        changed[key] = None if key in view.rows and drawn.random() < 0.5 else row
    if drawn.random() < 0.2:
        group = drawn.choice([None, 1, 2])
        changed |= {key: None for key, row in view.rows.items() if row[1] == group}
    return changed


@pytest.mark.parametrize("units", [("g",), ()])
def test_the_view_is_right_after_every_epoch(units: tuple[str, ...]) -> None:
    """I1: and its hidden columns are those of the present rows, so that no mistake waits in them."""
    read_again = 0
    for seed in range(60):
        drawn, view = random.Random(seed), View(units)
        for _ in range(8):
            view.epoch(random_changes(drawn, view))
        read_again += view.read_again
    assert read_again > 20


def test_a_row_that_was_not_there_cannot_go() -> None:
    """I6: the state contradicts the changes, so that one of them is not what it was."""
    view = View(("g",))
    view.rows = {1: (1, 1, 1, None)}
    with pytest.raises(sqlite3.OperationalError, match="user-defined function raised exception"):
        view.epoch({1: None})
    assert IMPOSSIBLE in moved(view.fold, "delta", "base")
