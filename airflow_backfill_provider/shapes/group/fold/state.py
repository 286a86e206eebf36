"""The hidden columns of a step. Aggregates of the same argument and FILTER share them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from airflow_backfill_provider.core.scan.columns import own_columns
from airflow_backfill_provider.shapes.group.fold.columns import Images, StateColumn, counter, extreme, total
from airflow_backfill_provider.shapes.group.fold.numbers import Number
from airflow_backfill_provider.shapes.group.fold.step import EVERYTHING

_PREFIX = "fold_"


class State:
    """
    The hidden columns that a step needs, in the order in which they were asked for.

    :param names: all names of users' columns, of the view and of the upstream. The columns here get other names: they
        begin with more underscores.
    :param sums: the sums that the query has: their arguments, and the texts of their FILTERs.
    """

    def __init__(self, names: Iterable[str], sums: Collection[tuple[str, str | None]] = ()) -> None:
        self._own = own_columns(names)
        self._sums = sums
        self._columns: dict[tuple[str, ...], StateColumn] = {}
        self.sign = self._own.named(f"{_PREFIX}sign")
        """The name of the images' column that holds 1 for an image that comes, and -1 for one that goes."""
        self.is_lost = self._own.named(f"{_PREFIX}is_lost")
        """The name of the column that says whether a group must be read again."""
        self.rows = self._counter("rows", "count(*)", None)
        """The column of the number of rows."""

    @property
    def columns(self) -> tuple[StateColumn, ...]:
        """The columns so far."""
        return tuple(self._columns.values())

    def count(self, arguments: Sequence[str], condition: str | None) -> StateColumn:
        """Return the column of the number of rows in which no argument is null."""
        listed = ", ".join(arguments)
        if condition is None and (listed == EVERYTHING or listed.isdecimal()):
            return self.rows
        return self._counter("count", f"count({listed})", condition)

    def count_if(self, argument: str, condition: str | None) -> StateColumn:
        """Return the column of the number of rows in which a condition is true."""
        return self._counter("true", f"count_if({argument})", condition)

    def total(self, argument: str, number: Number, condition: str | None) -> StateColumn:
        """Return the column of an argument's sum; its column of non-null values comes before it."""
        count, images = self.count([argument], condition), Images(self.sign, condition)
        is_known = (argument, condition) in self._sums
        known = number.to_number(f"sum({argument}){images.all}") if is_known else None
        return self._column(
            "sum",
            argument,
            condition,
            lambda name: total(name, argument, number, count, self.rows, images, known),
        )

    def extreme(self, function: str, argument: str, type_: str, condition: str | None) -> StateColumn:
        """Return the column of an argument's least or greatest value, for ``min`` or ``max``."""
        count = self.count([argument], condition)
        return self._column(
            function,
            argument,
            condition,
            lambda name: extreme(name, function, argument, type_, count, Images(self.sign, condition)),
        )

    def _counter(self, kind: str, call: str, condition: str | None) -> StateColumn:
        return self._column(kind, call, condition, lambda name: counter(name, call, Images(self.sign, condition)))

    def _column(self, kind: str, of: str, condition: str | None, make: Callable[[str], StateColumn]) -> StateColumn:
        key = (kind, of, *(() if condition is None else (condition,)))
        if key not in self._columns:
            number = sum(other[0] == kind for other in self._columns)
            name = self._own.named(_PREFIX + kind if kind == "rows" else f"{_PREFIX}{kind}_{number}")
            self._columns[key] = make(name)
        return self._columns[key]
