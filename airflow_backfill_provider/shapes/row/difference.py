"""
How two queries of rows differ, as far as their texts certainly show.

Only the parts of a query of one level are told apart. Of other queries, and of columns whose names only Spark knows,
nothing is claimed: then all rows are compared, and Spark says whether the columns are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from airflow_backfill_provider.core.job.definition_change import ChangeKind, DefinitionChange, FilterChange
from airflow_backfill_provider.shapes.levels import Level
from airflow_backfill_provider.shapes.query_text import words
from airflow_backfill_provider.shapes.token_lists import outermost

_EVERY_ROW = "TRUE"
"""The condition of a query without WHERE."""


@dataclass(frozen=True, slots=True)
class _Parts:
    """
    The parts of a query of one level.

    :param relation: the name by which the conditions know the upstream.
    :param columns: the words of the list of columns.
    :param source: those of FROM.
    :param condition: the condition, as the query writes it.
    """

    relation: str
    columns: Sequence[str]
    source: Sequence[str]
    condition: str


def difference_of_rows(before: tuple[str, Sequence[Level]], after: tuple[str, Sequence[Level]]) -> DefinitionChange:
    """
    Return how two queries of rows differ that are not the same words.

    :param before: the text and the levels of the one that the view has.
    :param after: those of the one that it gets.
    """
    one, other = _parts(*before), _parts(*after)
    if one and other and (one.columns, one.source) == (other.columns, other.source):
        return DefinitionChange(
            kind=ChangeKind.FILTER,
            reason=f"the condition was {one.condition} and is {other.condition}",
            filters=FilterChange(relation=one.relation, before=one.condition, after=other.condition),
        )
    return _difference_of_columns(before[1][-1], after[1][-1])


def _difference_of_columns(before: Level, after: Level) -> DefinitionChange:
    old, new = _names(before), _names(after)
    if old is None or new is None or old == new:
        return DefinitionChange(kind=ChangeKind.EXPRESSIONS, reason="expressions or steps of the query differ")
    added, dropped = [name for name in new if name not in old], [name for name in old if name not in new]
    gone = f"the query no longer has the column {', '.join(dropped)}" if dropped else ""
    if added:
        came = f"the view has no column {', '.join(added)}"
        return DefinitionChange(kind=ChangeKind.COLUMNS_ADDED, reason="; ".join(filter(None, (came, gone))))
    if dropped:
        return DefinitionChange(kind=ChangeKind.COLUMNS_DROPPED, reason=gone)
    return DefinitionChange(kind=ChangeKind.COLUMNS_CHANGED, reason="the columns are in another order")


def _names(level: Level) -> list[str] | None:
    """Return the names of a level's columns; ``None`` if only Spark knows them."""
    selects = level.select.selects
    if any(select.is_star or not isinstance(select, exp.Alias | exp.Column) for select in selects):
        return None
    return [select.alias_or_name for select in selects]


def _parts(text: str, levels: Sequence[Level]) -> _Parts | None:
    """Return the parts of a query; ``None`` if they do not lie plainly in its text."""
    level = levels[0]
    if len(levels) > 1 or level.is_piped or not level.alias or level.reads is None:
        return None
    tokens = [token for token in level.tokens if token.token_type is not TokenType.HINT]
    places = {token.token_type: index for index, token in reversed([*outermost(tokens)])}
    select, source = places.get(TokenType.SELECT), places.get(TokenType.FROM)
    if select is None or source is None:
        return None
    where = places.get(TokenType.WHERE, len(tokens))
    condition = _condition(text, tokens[where + 1 :], level)
    if not select < source < where or condition is None:
        return None
    return _Parts(level.alias, words(text, tokens[select:source]), words(text, tokens[source:where]), condition)


def _condition(text: str, tokens: Sequence[Token], level: Level) -> str | None:
    """Return the condition as the query writes it; ``None`` if these words are not all of it, and nothing else."""
    where = level.select.args.get("where")
    if where is None:
        return None if tokens else _EVERY_ROW
    if not tokens:
        return None
    try:
        found = sqlglot.Dialect.get_or_raise("spark").parser().parse(list(tokens), text)
    except SqlglotError:
        return None
    return text[tokens[0].start : tokens[-1].end + 1] if found == [where.this] else None
