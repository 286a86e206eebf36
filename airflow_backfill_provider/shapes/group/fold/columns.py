"""
Hidden columns: the parts of a group's state.

Each is an aggregate over the rows of a group. Its new value is computed from its value at the end of the previous
epoch and from its change, an aggregate over the images of an epoch: the new images of changed rows come, the old ones
go. In the SQL here, the relation ``base`` has the state that the previous epoch left, with NULL for a new group, and
``delta`` has the changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.shapes.group.fold.numbers import Number, as_decimal

BASE, DELTA = "base", "delta"
"""The aliases of the relations that hold the old state and the changes."""


@dataclass(frozen=True, slots=True)
class StateColumn:
    """
    A hidden column.

    :param name: its name in the view.
    :param type: its type in Spark's SQL.
    :param of_rows: its value for a group, as an aggregate over the group's rows.
    :param changes: its change, as aggregates over signed images: name of a column of ``delta`` → SQL.
    :param moved: its new value, over ``base`` and ``delta``; the same for every attempt of an epoch.
    :param is_lost: the condition, over ``base`` and ``delta``, for its new value to be in the group's rows alone.
    """

    name: str
    type: str
    of_rows: str
    changes: Mapping[str, str] = field(hash=False)
    moved: str
    is_lost: str = "false"
    counts_rows: bool = False
    """Whether it is a number of rows, so that it lies between none and all of the group's."""

    @property
    def sql(self) -> str:
        """Its quoted name."""
        return quote(self.name)


@dataclass(frozen=True, slots=True)
class Images:
    """
    The images that an aggregate takes.

    :param sign: the name of their column that holds 1 for an image that comes, and -1 for one that goes.
    :param condition: the text of the aggregate's FILTER.
    """

    sign: str
    condition: str | None

    @property
    def all(self) -> str:
        """The FILTER for rows, or for images of both signs; empty for all of them."""
        return f" FILTER (WHERE {self.condition})" if self.condition else ""

    @property
    def coming(self) -> str:
        """The FILTER for images that come."""
        return self._signed(">")

    @property
    def going(self) -> str:
        """The FILTER for images that go."""
        return self._signed("<")

    def _signed(self, comparison: str) -> str:
        signed = f"{quote(self.sign)} {comparison} 0"
        return f" FILTER (WHERE {signed} AND ({self.condition}))" if self.condition else f" FILTER (WHERE {signed})"


def counter(name: str, call: str, images: Images) -> StateColumn:
    """
    Return the column of a number of rows.

    :param call: a call of an aggregate that counts rows.
    """
    column = quote(name)
    return StateColumn(
        name,
        "bigint",
        call + images.all,
        {name: f"{call}{images.coming} - {call}{images.going}"},
        f"coalesce({BASE}.{column}, 0) + {DELTA}.{column}",
        counts_rows=True,
    )


def total(
    name: str,
    argument: str,
    number: Number,
    count: StateColumn,
    rows: StateColumn,
    images: Images,
    known: str | None = None,
) -> StateColumn:
    """
    Return the column of a sum; NULL if it is lost.

    :param count: the column of the argument's number of non-null values.
    :param rows: the column of the group's number of rows, which is NULL in ``base`` for a new group.
    :param known: the SQL of the sum over a group's rows, if the query has it. Spark then computes it once.
    """
    came, gone, nothing = f"{name}_came", f"{name}_gone", as_decimal("0", *_digits(number.stored_type))
    value, added = number.to_number(f"({argument})"), number.added_type

    def of(taken: str, found: str | None = None) -> str:
        computed = found or f"try_sum({value}){taken}"
        return f"CASE WHEN count({argument}){taken} = 0 THEN {nothing} ELSE {computed} END"

    def plain(sql: str) -> str:
        return f"try_cast({sql} AS {added})"

    old = f"CASE WHEN {BASE}.{rows.sql} IS NULL THEN {nothing} ELSE {BASE}.{quote(name)} END"
    # Images that go are not negated: of a decimal of more than 34 digits, Spark rounds the negative.
    with_new = plain(f"{plain(old)} + {plain(f'{DELTA}.{quote(came)}')}")
    moved = f"{with_new} - {plain(f'{DELTA}.{quote(gone)}')}"
    return StateColumn(
        name,
        number.stored_type,
        of(images.all, known),
        {came: of(images.coming), gone: of(images.going)},
        f"CASE WHEN {count.moved} = 0 THEN {nothing} ELSE CAST({moved} AS {number.stored_type}) END",
    )


def extreme(name: str, function: str, argument: str, type_: str, count: StateColumn, images: Images) -> StateColumn:
    """
    Return the column of a least or greatest value.

    It is lost if a row with this value goes, unless a row comes that has this value, or one beyond it: all rows that
    stay have no value beyond it.

    :param function: ``min`` or ``max``.
    :param count: the column of the argument's number of non-null values.
    """
    call, came, gone = f"{function}({argument})", f"{name}_came", f"{name}_gone"
    further, reaches = ("least", "<=") if function == "min" else ("greatest", ">=")
    old, new, left = f"{BASE}.{quote(name)}", f"{DELTA}.{quote(came)}", f"{DELTA}.{quote(gone)}"
    is_gone = f"coalesce({left} {reaches} {old}, false)"
    return StateColumn(
        name,
        type_,
        call + images.all,
        {came: call + images.coming, gone: call + images.going},
        f"CASE WHEN {count.moved} = 0 THEN NULL WHEN {is_gone} THEN {new} ELSE {further}({old}, {new}) END",
        f"{count.moved} <> 0 AND {is_gone} AND NOT coalesce({new} {reaches} {old}, false)",
    )


def _digits(decimal: str) -> tuple[int, int]:
    precision, scale = decimal.removeprefix("decimal(").removesuffix(")").split(",")
    return int(precision), int(scale)
