"""
The texts that run over other relations than the upstreams, each cut from the user's at positions of tokens.

Each place where the query reads an upstream can get a relation of its own. An epoch gives the lead's place the affected
rows of the lead, and all others the whole tables. If a table is joined with itself, its two places get two relations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.shapes.edits import Edit, edited, edited_part
from airflow_backfill_provider.shapes.joined.parts import Join, Rows, Source, Union
from airflow_backfill_provider.shapes.joined.tree import JoinTree
from airflow_backfill_provider.shapes.joined.units import KeyColumn, RowUnits
from airflow_backfill_provider.shapes.levels import Level


@dataclass(frozen=True, slots=True)
class Reading:
    """
    A place where a query reads an upstream.

    :param branch: the number of the branch of a union; 0 if there is none.
    :param role: the role of the upstream there.
    :param relation: the upstream.
    :param leads: whether its rows are the lead's.
    """

    branch: int
    role: str
    relation: str
    leads: bool


Names = Callable[[Reading], str]
"""Returns the name of the relation to read at a place; it is quoted here."""


@dataclass(frozen=True, slots=True)
class Place:
    """A source with its reading."""

    source: Source
    reading: Reading


def read_edits(places: Iterable[Place], names: Names) -> Iterator[Edit]:
    """Yield the edits that put other relations in place of the upstreams."""
    done = set()
    for place in places:
        source = place.source
        start, end, is_named = source.read
        alias = source.steps[0].alias if source.steps else source.name
        if (start, end) not in done:  # a common table expression may be read twice
            done.add((start, end))
            yield start, end, quote(names(place.reading)) + ("" if is_named else f" AS {quote(alias)}")


def unit_edits(text: str, rows: Rows, units: RowUnits) -> Iterator[Edit]:
    """
    Yield the edits that add the hidden columns.

    :param text: the query's text.
    """
    if not units.hidden:
        return
    branches = rows.base.branches if isinstance(rows.base, Union) else (rows,)
    named = set()
    for number, branch in enumerate(branches):
        if not isinstance(branch.base, Join):
            raise TypeError("a branch reads relations")
        written = [f"{number} AS {quote(units.branch)}"] if units.branch else []
        for column in units.columns:
            if column.is_hidden:
                key = column.sources[number]
                value = f"CAST(NULL AS {column.type})" if key is None else _value(key, column.output, branch.base)
                written.append(f"{value} AS {quote(column.output)}")
                yield from _through_steps(text, key, column.output, branch.base)
        yield _addition(text, branch.base.level, ", ".join(written))
        for source in branch.base.sources:
            if source.name.startswith("__relation_") and source.place not in named:
                named.add(source.place)
                yield source.place[1], source.place[1], f" AS {quote(source.name)}"
        yield from _passed_on(text, branch.levels, units)
    if isinstance(rows.base, Union):
        yield from _passed_on(text, rows.levels, units)


def render(text: str, rows: Rows, places: Iterable[Place], names: Names, units: RowUnits | None) -> str:
    """
    Return the query over other relations.

    :param units: what identifies rows, whose hidden columns are added; ``None`` to add none.
    """
    edits = [*read_edits(places, names), *(() if units is None else unit_edits(text, rows, units))]
    return edited(text, dict.fromkeys(edits))


def is_dropped(column: str, source: Source) -> bool:
    """Return whether the steps before a join drop a column of the upstream."""
    return not _passed(column, source)


def _passed(column: str, source: Source) -> list[str]:
    names = [column]
    for step in source.steps:
        names = step.passes_on(names)
    return names


def _source_of(join: Join, role: str) -> Source:
    return next(source for source in join.sources if source.name == role)


def _value(key: KeyColumn, hidden: str, join: Join) -> str:
    """Return a column of a key as the join's SELECT can name it."""
    names = _passed(key.column, _source_of(join, key.role))
    return f"{quote(key.role)}.{quote(names[0] if names else hidden)}"


def _through_steps(text: str, key: KeyColumn | None, hidden: str, join: Join) -> Iterator[Edit]:
    """Yield the edits that carry a column of a key through the steps before the join."""
    if key is None or not is_dropped(key.column, _source_of(join, key.role)):
        return
    first, *rest = _source_of(join, key.role).steps
    yield _addition(text, first, f"{quote(first.alias)}.{quote(key.column)} AS {quote(hidden)}")
    for step in rest:
        if step.star_without is None and step.end_of_list is not None:
            yield _addition(text, step, quote(hidden))


def _passed_on(text: str, levels: Iterable[Level], units: RowUnits) -> Iterator[Edit]:
    for level in levels:
        if level.star_without is None and level.end_of_list is not None:
            yield _addition(text, level, ", ".join(map(quote, units.hidden)))


def _addition(text: str, level: Level, columns: str) -> Edit:
    """Return the edit that adds columns to a SELECT."""
    end = level.end_of_list
    if end is None:
        raise TypeError("a step without a list of columns passes all on")
    start = len(text[:end].rstrip())
    return start, end, f"\n|> EXTEND {columns} " if level.is_piped else f"\n, {columns} "


def standalone(text: str, rows: Rows) -> str:
    """Return a query without WITH before it: each common table expression stands where it is read."""
    if isinstance(rows.base, Union):
        found = " UNION ALL ".join(_branch(text, branch) for branch in rows.base.branches)
    elif isinstance(rows.base, Join):
        found = _inlined(text, rows.base.level.span, rows.base)
    else:
        return _steps(text, rows.levels, "")
    return _steps(text, rows.levels, found)


def _branch(text: str, branch: Rows) -> str:
    """Return the query of a branch; parentheses keep its pipe operators to it."""
    is_piped = any(level.relation is None for level in branch.levels)
    return f"({standalone(text, branch)})" if is_piped else standalone(text, branch)


def relation_text(text: str, rows: Rows, number: int, end: int) -> str:
    """
    Return the relation that a step reads and what follows it in the text, without WITH before it.

    :param number: the number of the step; of a join, number 0 is its own SELECT.
    :param end: where the text ends that follows.
    """
    if isinstance(rows.base, Join):
        if number == 0:
            start = (rows.base.level.relation or (0, 0))[0]
            return _inlined(text, (start, end), rows.base)
        number -= 1
    level, before = rows.levels[number], Rows(rows.base, rows.levels[:number])
    if level.relation is None:
        raise TypeError("a pipe operator reads the step before it")
    return f"({standalone(text, before)}){_alias(text, level)}{text[level.relation[1] : end]}"


def before_step(text: str, rows: Rows, number: int) -> str:
    """Return the query of the steps before one of them; parameters as of :func:`relation_text`."""
    return standalone(text, Rows(rows.base, rows.levels[: number - isinstance(rows.base, Join)]))


def _inlined(text: str, part: tuple[int, int], join: Join) -> str:
    """Return a part of a join's text with each common table expression in place of its name."""
    edits = [
        (
            *source.place,
            f"({_steps(text, source.steps, '')})" + ("" if source.is_named else f" AS {quote(source.name)}"),
        )
        for source in join.all_sources
        if source.is_common
    ]
    return edited_part(text, part, edits)


def _steps(text: str, levels: Iterable[Level], relation: str) -> str:
    """
    Return the text of steps.

    :param relation: the query that the first one reads; empty if it reads an upstream.
    """
    found = relation
    for level in levels:
        start, end = level.span
        if level.relation is None:
            found = f"{found} |> {text[start:end]}"
        elif level.reads is not None:
            found = text[start:end]
        else:
            first, last = level.relation
            found = f"{text[start:first]}({found}){_alias(text, level)}{text[last:end]}"
    return found


def _alias(text: str, level: Level) -> str:
    """Return the alias that a step's relation needs, because a query stands in place of its name."""
    is_nested = level.relation is not None and text[level.relation[0]] == "("
    is_named = bool(level.select.args["from_"].this.alias)
    return "" if is_nested or is_named else f" AS {quote(level.alias)}"


def places_of(rows: Rows, trees: Sequence[JoinTree]) -> Iterator[Place]:
    """
    Yield the places where a query reads its upstreams.

    :param trees: the tree of each branch.
    """
    for number, (join, tree) in enumerate(zip(rows.joins, trees, strict=True)):
        relations = {node.role: node.relation for node in tree.nodes}
        for source, role in zip(join.all_sources, join.role_names, strict=True):
            yield Place(source, Reading(number, role, relations[role], role == tree.lead.role))
