"""
The expressions of a query of rows that name only some of the upstream's columns, as the text certainly shows.

A column that the key alone decides never changes as long as a row has its key. So it tells where the view has the row,
even if nothing else is known of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from airflow_backfill_provider.shapes.levels import Level
from airflow_backfill_provider.shapes.token_lists import outermost, split


def expressions_without(text: str, level: Level, others: Collection[str]) -> Iterator[tuple[str, str]]:
    """
    Yield the outputs of a query's only level, in lower case, whose expressions have none of some names; and their SQL.

    :param text: the query's text.
    :param others: the names, in lower case.
    """
    tokens = list(level.tokens)
    clauses = {token.token_type: index for index, token in reversed([*outermost(tokens)])}
    if level.is_piped or TokenType.SELECT not in clauses or TokenType.FROM not in clauses:
        return
    items = split(tokens[clauses[TokenType.SELECT] + 1 : clauses[TokenType.FROM]], TokenType.COMMA)
    selects = level.select.selects
    if len(items) != len(selects):
        return
    refused = {*others, level.alias.lower()}
    for item, select in zip(items, selects, strict=True):
        words = _without_alias(item)
        if isinstance(select, exp.Alias) and words and refused.isdisjoint(word.text.lower() for word in words):
            yield select.alias.lower(), text[words[0].start : words[-1].end + 1]


def _without_alias(item: Sequence[Token]) -> Sequence[Token]:
    words = item[:-1]
    return words[:-1] if words and words[-1].token_type is TokenType.ALIAS else words
