"""
The functions that can be folded: the hidden columns that each needs, and its value from them.

A value is Spark's own, with its type and scale. Where a hidden column cannot give it, the group is read again
(:attr:`Folded.is_exact`), and Spark computes it: so a sum that overflows is the same error, or NULL for ``try_sum``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from airflow_backfill_provider.shapes.group.fold.numbers import FLOATING, Number, number_of
from airflow_backfill_provider.shapes.group.fold.reasons import NotFolded, Reason
from airflow_backfill_provider.shapes.group.fold.state import State
from airflow_backfill_provider.shapes.group.fold.step import EVERYTHING, Aggregate

_BOOLEAN = "boolean"
_COUNT_TYPE = "bigint"
_BY_EACH_ROW = frozenset({"avg", "count", "count_if", "mean", "sum", "try_avg", "try_sum"})
"""Functions whose result changes with each equal value."""

_BY_COUNTING = "whether a value was already counted is known only from all rows"


@dataclass(frozen=True, slots=True)
class Folded:
    """
    An aggregate's value, over a group's hidden columns.

    :param value: the SQL of its value.
    :param type: the value's type.
    :param is_exact: the condition for the value to be that of Spark; without it, the group is read again.
    :param is_rounded: whether Spark computes it with floating-point numbers, whose last digits depend on the order of
        rows.
    """

    value: str
    type: str
    is_exact: str = "true"
    is_rounded: bool = False


def folded(aggregate: Aggregate, state: State) -> Folded | NotFolded:
    """Return an aggregate's value over hidden columns, which are added to the state; or why it has none."""
    fold = _FUNCTIONS.get(aggregate.function)
    if fold is None:
        return _unknown(aggregate.function, _call(aggregate))
    if len(aggregate.arguments) != len(aggregate.argument_types) and aggregate.arguments != (EVERYTHING,):
        raise ValueError(f"{_call(aggregate)}: {len(aggregate.argument_types)} types for its arguments")
    found = _misplaced_star(aggregate) or fold(aggregate, state)
    if isinstance(found, Folded) and found.type != aggregate.result_type:
        return NotFolded(
            Reason.TYPE, _call(aggregate), f"Spark gives it the type {aggregate.result_type}, not {found.type}"
        )
    return found


def never_folded(function: str, call: str, *, is_distinct: bool) -> NotFolded | None:
    """Return why a call cannot be folded, whatever its types are; ``None`` if it may be."""
    if function not in _FUNCTIONS:
        return _unknown(function, call)
    return _counted(call) if is_distinct and function in _BY_EACH_ROW else None


def _unknown(function: str, call: str) -> NotFolded:
    return NotFolded(Reason.FUNCTION, call, f"{function} cannot be computed from its last value and the changes")


def _misplaced_star(aggregate: Aggregate) -> NotFolded | None:
    if aggregate.arguments == (EVERYTHING,) and aggregate.function == "count":
        return None
    if any(argument.rstrip().endswith(EVERYTHING) for argument in aggregate.arguments):
        return NotFolded(Reason.FUNCTION, _call(aggregate), "a star stands for its arguments", "name the columns")
    return None


def _count(aggregate: Aggregate, state: State) -> Folded | NotFolded:
    if aggregate.is_distinct:
        return _distinct(aggregate)
    return Folded(state.count(aggregate.arguments, aggregate.condition).sql, _COUNT_TYPE)


def _count_if(aggregate: Aggregate, state: State) -> Folded | NotFolded:
    if aggregate.is_distinct:
        return _distinct(aggregate)
    if aggregate.argument_types != (_BOOLEAN,):
        return _other_type(aggregate)
    return Folded(state.count_if(aggregate.arguments[0], aggregate.condition).sql, _COUNT_TYPE)


def _sum(aggregate: Aggregate, state: State) -> Folded | NotFolded:
    return _of_total(
        aggregate,
        state,
        lambda number, total, _: (number.from_number(total), number.sum_type, number.sum_fits(total)),
    )


def _avg(aggregate: Aggregate, state: State) -> Folded | NotFolded:
    found = _of_total(
        aggregate,
        state,
        lambda number, total, count: (number.average(total, count), number.average_type, number.average_fits(total)),
    )
    return found if isinstance(found, NotFolded) else replace(found, is_rounded=found.type in FLOATING)


def _of_total(
    aggregate: Aggregate, state: State, of: Callable[[Number, str, str], tuple[str, str, str]]
) -> Folded | NotFolded:
    """
    Return what is computed from the total of an argument.

    :param of: returns, of a total and of the number of its values, the result, its type, and whether it is exact.
    """
    if (refusal := _not_added(aggregate)) is not None:
        return refusal
    number = number_of(aggregate.argument_types[0])
    if number is None:
        return _other_type(aggregate)
    total = state.total(aggregate.arguments[0], number, aggregate.condition).sql
    count = state.count(aggregate.arguments, aggregate.condition).sql
    result, type_, fits = of(number, total, count)
    return Folded(
        f"CASE WHEN {count} > 0 THEN {result} END",
        type_,
        f"({count} = 0 OR coalesce({fits}, false) AND {total} IS NOT NULL)",
    )


def _every(aggregate: Aggregate, state: State) -> Folded | NotFolded:
    return _of_booleans(aggregate, state, lambda true, count: f"{true} = {count}")


def _some(aggregate: Aggregate, state: State) -> Folded | NotFolded:
    return _of_booleans(aggregate, state, lambda true, _: f"{true} > 0")


def _of_booleans(aggregate: Aggregate, state: State, is_true: Callable[[str, str], str]) -> Folded | NotFolded:
    if aggregate.argument_types != (_BOOLEAN,):
        return _other_type(aggregate)
    count = state.count(aggregate.arguments, aggregate.condition).sql
    true = state.count_if(aggregate.arguments[0], aggregate.condition).sql
    return Folded(f"CASE WHEN {count} > 0 THEN {is_true(true, count)} END", _BOOLEAN)


def _min(aggregate: Aggregate, state: State) -> Folded | NotFolded:
    return _extreme(aggregate, state, "min", _every)


def _max(aggregate: Aggregate, state: State) -> Folded | NotFolded:
    return _extreme(aggregate, state, "max", _some)


def _extreme(
    aggregate: Aggregate, state: State, function: str, of_booleans: Callable[[Aggregate, State], Folded | NotFolded]
) -> Folded | NotFolded:
    """Return an extreme; of booleans it is known from counts, so their groups are never read again."""
    if len(aggregate.arguments) != 1:
        return _other_type(aggregate)
    (argument,), (type_,) = aggregate.arguments, aggregate.argument_types
    if type_ == _BOOLEAN:
        return of_booleans(aggregate, state)
    if "collate" in type_:
        return NotFolded(Reason.COLLATION, _call(aggregate), "texts that are equal in a collation may differ")
    if any(word in type_ for word in _NOT_STORED):
        return _other_type(aggregate)
    return Folded(state.extreme(function, argument, type_, aggregate.condition).sql, type_)


_NOT_STORED = ("interval", "void", "time(", "variant", "map<", "geometry", "geography")
"""Words of types whose values a view's table cannot hold, or that have no order."""


def _not_added(aggregate: Aggregate) -> NotFolded | None:
    """Return why an aggregate's argument cannot be added and taken away; ``None`` if it may be."""
    if aggregate.is_distinct:
        return _distinct(aggregate)
    if len(aggregate.arguments) != 1:
        return _other_type(aggregate)
    (type_,) = aggregate.argument_types
    if type_ in FLOATING:
        return NotFolded(
            Reason.FLOAT,
            _call(aggregate),
            f"a {type_} that was added to a sum cannot be taken away exactly",
            f"write {aggregate.function}(CAST({aggregate.arguments[0]} AS DECIMAL(p,s)))",
        )
    if type_.startswith("decimal(") and number_of(type_) is None:
        return NotFolded(
            Reason.DIGITS,
            _call(aggregate),
            f"a sum of {type_} has no digit before the point",
            f"write {aggregate.function}(CAST({aggregate.arguments[0]} AS DECIMAL(p,s))) with a smaller scale",
        )
    return None


def _distinct(aggregate: Aggregate) -> NotFolded:
    return _counted(_call(aggregate))


def _counted(call: str) -> NotFolded:
    return NotFolded(
        Reason.DISTINCT,
        call,
        _BY_COUNTING,
        "make a view of the distinct values first, and aggregate over it in a second job",
    )


def _other_type(aggregate: Aggregate) -> NotFolded:
    types = ", ".join(aggregate.argument_types)
    return NotFolded(Reason.TYPE, _call(aggregate), f"its arguments have the types ({types})")


def _call(aggregate: Aggregate) -> str:
    return f"{aggregate.function}({'DISTINCT ' if aggregate.is_distinct else ''}{', '.join(aggregate.arguments)})"


_FUNCTIONS: Mapping[str, Callable[[Aggregate, State], Folded | NotFolded]] = {
    "any": _some,
    "avg": _avg,
    "bool_and": _every,
    "bool_or": _some,
    "count": _count,
    "count_if": _count_if,
    "every": _every,
    "max": _max,
    "mean": _avg,
    "min": _min,
    "some": _some,
    "sum": _sum,
    "try_avg": _avg,
    "try_sum": _sum,
}
