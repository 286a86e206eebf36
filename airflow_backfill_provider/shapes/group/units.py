"""
The units of a query of groups: the expressions that all its groupings and windows divide the rows by.

The first step that groups makes them of rows of the upstream, and later steps know them by name. Rows of different
units never meet, so each unit can be computed anew by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.shapes.group.refusals import CHAIN, refused
from airflow_backfill_provider.shapes.group.steps import Step
from airflow_backfill_provider.shapes.group.terms import Term, column

HIDDEN_UNIT_PREFIX = "__unit_"
"""The prefix of a hidden unit column's name; it gets more underscores if the view already has such a name."""


@dataclass(frozen=True, slots=True)
class AddedColumn:
    """
    A hidden column that a step needs beside those that the user wrote.

    :param step: the number of the step.
    :param text: the expression, or the name of a column of the step's relation, quoted.
    :param name: the hidden column's name.
    """

    step: int
    text: str
    name: str


@dataclass(frozen=True, slots=True)
class Units:
    """
    The units of a query.

    :param first: the number of the first step that groups.
    :param terms: the expressions that identify a unit, over the relation of that step; none if there is one unit.
    :param outputs: the view's columns that hold these.
    :param added: the hidden columns that the steps need for that.
    """

    first: int
    terms: tuple[Term, ...]
    outputs: tuple[str, ...]
    added: tuple[AddedColumn, ...]


def first_grouping(steps: Sequence[Step]) -> int:
    """
    Return the number of the first step that groups.

    :raises InvalidJobError: if none does.
    """
    for number, step in enumerate(steps):
        if not step.is_of_rows:
            return number
    raise refused("no group and no window", "write GROUP BY, DISTINCT, or a window with PARTITION BY")


def common_terms(steps: Sequence[Step]) -> tuple[Term, ...]:
    """
    Return the expressions that identify a unit, over the relation of the first step that groups.

    :raises InvalidJobError: if no expression divides the rows of all steps.
    """
    first = first_grouping(steps)
    grouping = [step for step in steps[first:] if not step.is_of_rows]
    if grouping[0].divisions == ((),) and len(grouping) == 1:
        return ()
    candidates = _distinct(steps[first].divisions[0])
    kept = [found for found in candidates if _divides_all(found, steps, first)]
    if not kept:
        raise refused("groups or windows that divide the rows by nothing in common", CHAIN)
    return tuple(kept)


def units_of(steps: Sequence[Step], text: str, taken: Collection[str]) -> Units:
    """
    Return a query's units.

    :param text: the query's text.
    :param taken: the names in lower case that hidden columns must not have.
    """
    first, found = first_grouping(steps), common_terms(steps)
    outputs, hidden = [], []
    for number, unit in enumerate(found):
        name, added = _followed(unit, steps, first, text, _hidden(number, taken))
        outputs.append(name)
        hidden += added
    return Units(first, found, tuple(outputs), tuple(hidden))


def _divides_all(unit: Term, steps: Sequence[Step], first: int) -> bool:
    """Return whether every grouping and every window divides by an expression, or by a column that holds it."""
    if not all(_has(division, unit) for division in steps[first].divisions):
        return False
    names = steps[first].outputs(unit)
    for step in steps[first + 1 :]:
        if not step.is_of_rows:
            names = [name for name in names if all(_has(division, _named(name)) for division in step.divisions)]
            if not names:
                return False
        names = [output for name in names for output in step.outputs(_named(name))]
    return True


def _followed(unit: Term, steps: Sequence[Step], first: int, text: str, hidden: str) -> tuple[str, list[AddedColumn]]:
    """Return the view's column that holds a unit's expression, and the hidden columns that are needed for that."""
    added: list[AddedColumn] = []
    wanted, is_hidden = unit, False
    for number, step in enumerate(steps[first:], start=first):
        outputs = _outputs(step, wanted, steps[number + 1 :])
        if not is_hidden and outputs:
            wanted = _named(outputs[0])
            continue
        if not is_hidden or not step.level.passes_on([hidden]):
            before = quote(wanted.name) if number > first else f"({wanted.text(text)})"
            added.append(AddedColumn(number, before, hidden))
            _require_addable(step)
        wanted, is_hidden = _named(hidden), True
    return wanted.name, added


def _outputs(step: Step, wanted: Term, later: Sequence[Step]) -> list[str]:
    """Return the names under which a step passes on an expression, without those that a later grouping lacks."""
    names = step.outputs(wanted)
    needed = next((later_step for later_step in later if not later_step.is_of_rows), None)
    if needed is None or len(names) < 2:  # noqa: PLR2004 - nothing to choose from
        return names
    return [name for name in names if all(_has(division, _named(name)) for division in needed.divisions)] or names


def _require_addable(step: Step) -> None:
    """Refuse a step whose rows would change with one more column, or that has no place for it."""
    has_no_place = step.group is not None and step.level.end_of_list is None
    if has_no_place or (step.is_distinct and step.group is None):
        raise refused(
            "a step that drops an expression that later steps need to tell units apart",
            "select that expression, with an alias",
        )


def _has(division: Sequence[Term], unit: Term) -> bool:
    return any(found.meaning == unit.meaning for found in division)


def _named(name: str) -> Term:
    return Term((), column(name), name)


def _distinct(found: Sequence[Term]) -> Iterator[Term]:
    meanings = set()
    for one in found:
        if one.meaning not in meanings:
            meanings.add(one.meaning)
            yield one


def _hidden(number: int, taken: Collection[str]) -> str:
    name = f"{HIDDEN_UNIT_PREFIX}{number}"
    while name in taken:
        name = f"_{name}"
    return name
