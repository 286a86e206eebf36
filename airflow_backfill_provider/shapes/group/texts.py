"""
The texts that run: the query itself, the units of rows, and the query over the rows of some units.

Each is the user's text, cut at the positions of tokens. In ``SELECT c, sum(x) FROM upstream WHERE x > 0 GROUP BY c``,
the units of rows are ``SELECT c FROM upstream WHERE x > 0``, and the rows of some units are read by a semi-join after
``FROM upstream``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlglot.tokenizer_core import TokenType

from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.shapes.edits import Edit, edited
from airflow_backfill_provider.shapes.group.steps import Step
from airflow_backfill_provider.shapes.group.units import AddedColumn, Units
from airflow_backfill_provider.shapes.levels import Level

_TOUCHED = "backfill_touched"
"""The name of the relation with units in a slice."""


def query_text(text: str, steps: Sequence[Step], relation: str, added: Iterable[AddedColumn]) -> str:
    """
    Return the query over another relation.

    :param relation: name of the relation to read instead of ``upstream``; quoted here.
    :param added: hidden columns to add.
    """
    return edited(text, _edits(text, steps, relation, added))


def slice_text(
    text: str, steps: Sequence[Step], relation: str, units: Units, touched: str, names: Sequence[str]
) -> str:
    """
    Return the query over the rows of some units.

    :param touched: name of the relation with the units.
    :param names: the names of its columns.
    """
    condition = " AND ".join(
        f"({found.text(text)}) <=> {_TOUCHED}.{quote(name)}" for found, name in zip(units.terms, names, strict=True)
    )
    join = f"LEFT SEMI JOIN {quote(touched)} AS {_TOUCHED} ON {condition}"
    level = steps[units.first].level
    if level.relation is None:
        at = _before_operator(text, level)
        edit = (at, at, f"|> {join} ")
    else:
        at = _after_relation(steps[units.first])
        edit = (at, at, f" {join} ")
    return edited(text, [edit, *_edits(text, steps, relation, units.added)])


def unit_text(
    text: str, steps: Sequence[Step], relation: str, units: Units, names: Sequence[str], *, carried: str = ""
) -> str:
    """
    Return the query of the units of rows: the text up to the step that groups, with the units' expressions.

    :param names: the names of the unit columns.
    :param carried: the name of a column of the relation that is passed on beside them; empty for none.
    """
    selected = ", ".join(
        f"({found.text(text)}) AS {quote(name)}" for found, name in zip(units.terms, names, strict=True)
    )
    if carried:
        selected += f", {quote(carried)}"
    return rows_text(text, steps, units.first, relation, selected, carried)


def rows_text(text: str, steps: Sequence[Step], number: int, relation: str, selected: str, carried: str = "") -> str:
    """
    Return the query of the rows that a step groups.

    :param number: the number of the step.
    :param selected: the list of columns, over the relation that the step reads.
    :param carried: a column of the relation that all steps before it pass on.
    """
    step = steps[number]
    if step.level.relation is None:
        return f"{_step_text(text, steps, number - 1, relation, carried)} |> SELECT {selected}"
    after = text[step.level.relation[1] : step.input_end]
    return f"SELECT {selected} FROM {_relation(text, steps, number, relation, carried)}{after}"


def _step_text(text: str, steps: Sequence[Step], number: int, relation: str, carried: str) -> str:
    """Return a query of the rows of a step, as a whole query."""
    level = steps[number].level
    end = level.span[1]
    if level.relation is None:
        operator = _carrying(text, level, end, carried)
        return f"{_step_text(text, steps, number - 1, relation, carried)} |> {operator}"
    before, after = _carrying(text, level, level.relation[0], carried), text[level.relation[1] : end]
    return f"{before}{_relation(text, steps, number, relation, carried)}{after}"


def _carrying(text: str, level: Level, end: int, carried: str) -> str:
    """Return a step's text up to a place after its list of columns, with a column more unless it has that anyway."""
    start, end_of_list = level.span[0], level.end_of_list
    if not carried or end_of_list is None or level.passes_on([carried]):
        return text[start:end]
    return f"{text[start:end_of_list].rstrip()}\n, {quote(carried)} {text[end_of_list:end]}"


def _relation(text: str, steps: Sequence[Step], number: int, relation: str, carried: str) -> str:
    """Return the relation that a step reads, with the alias that it has if it gives none."""
    level = steps[number].level
    if level.reads is not None:
        return quote(relation) + ("" if level.reads[2] else f" AS {quote(level.alias)}")
    inner = f"({_step_text(text, steps, number - 1, relation, carried)})"
    is_nested = level.relation is not None and text[level.relation[0]] == "("
    return inner if is_nested or _is_named(level) else f"{inner} AS {quote(level.alias)}"


def _is_named(level: Level) -> bool:
    """Return whether a step gives the relation that it reads an alias."""
    return bool(level.select.args["from_"].this.alias)


def _after_relation(step: Step) -> int:
    """Return where the relation that a step reads ends in the text, with its alias."""
    level = step.level
    where = level.select.args.get("where")
    if level.relation is None:
        raise TypeError("a pipe operator reads the step before it")
    tokens = [token for token in level.tokens if level.relation[1] <= token.start < step.input_end]
    if where is not None:
        begin = next((index for index, token in enumerate(tokens) if token.text.upper() == "WHERE"), len(tokens))
        tokens = tokens[:begin]
    return tokens[-1].end + 1 if tokens else level.relation[1]


def _edits(text: str, steps: Sequence[Step], relation: str, added: Iterable[AddedColumn]) -> Iterator[Edit]:
    for step in steps:
        if step.level.reads is not None:
            start, end, is_named = step.level.reads
            yield start, end, quote(relation) + ("" if is_named else f" AS {quote(step.level.alias)}")
    columns: dict[int, list[str]] = {}
    for column in added:
        columns.setdefault(column.step, []).append(f"{column.text} AS {quote(column.name)}")
    for number, written in columns.items():
        if steps[number].is_distinct:
            yield from _as_groups(steps[number].level)
        yield _addition(text, steps[number].level, ", ".join(written))


def _addition(text: str, level: Level, columns: str) -> Edit:
    """Return the edit that adds columns to a step; a pipe operator without a list gets them from the step before."""
    if level.end_of_list is None:
        at = _before_operator(text, level)
        return at, at, f"|> EXTEND {columns} "
    start = len(text[: level.end_of_list].rstrip())
    return start, level.end_of_list, f"\n, {columns} "


def _as_groups(level: Level) -> Iterator[Edit]:
    """Yield the edits that make groups of DISTINCT rows, so that columns of groups can be added."""
    distinct = next(token for token in level.tokens if token.token_type == TokenType.DISTINCT)
    yield distinct.start, distinct.end + 1, ""
    yield level.span[1], level.span[1], " GROUP BY ALL"


def _before_operator(text: str, level: Level) -> int:
    return text.rindex("|>", 0, level.span[0])
