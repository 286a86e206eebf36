"""
The words of a query that may be names of the upstream's columns.

A column must never be left out, or Spark could read its name as something else (an alias of the same query, a function,
a variable). So only words that certainly are not columns are left out: aliases, functions, types, keywords, and fields
inside a column.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.shapes.functions import identifier_clauses

_NAMES = frozenset({TokenType.VAR, TokenType.IDENTIFIER})


def possible_columns(tokens: Sequence[Token], select: exp.Select, relation: str) -> frozenset[str]:
    """
    Return the words that may name columns, lower-cased.

    :param tokens: the query's tokens.
    :param select: the query's tree.
    :param relation: the upstream's name in the query.
    """
    aliases = {_start(alias.args["alias"]) for alias in select.find_all(exp.Alias)}
    identifiers = {_start(identifier) for identifier in select.find_all(exp.Identifier)}
    found = set()
    for index, token in enumerate(tokens):
        is_name = token.token_type in _NAMES or token.start in identifiers
        if not is_name or token.start in aliases or _type_at(tokens, index + 1) == TokenType.L_PAREN:
            continue
        if _is_field(tokens, index, relation.lower()):
            continue
        found.add(token.text.lower())
    return frozenset(found | _named_by_text(tokens))


def _named_by_text(tokens: Sequence[Token]) -> set[str]:
    names: set[str] = set()
    for text in identifier_clauses(tokens):
        try:
            names.update(token.text.lower() for token in sqlglot.tokenize(text, read="spark"))
        except SqlglotError:
            raise InvalidJobError(
                "the query uses IDENTIFIER(…) with a text that is not a name; write the column's name instead"
            ) from None
    return names


def _is_field(tokens: Sequence[Token], index: int, relation: str) -> bool:
    """Return whether a name is a field inside a column or a value."""
    first = index
    while _type_at(tokens, first - 1) == TokenType.DOT:
        first -= 2
    if first == index:
        return False
    return not (first == index - 2 and tokens[first].text.lower() == relation)


def _type_at(tokens: Sequence[Token], index: int) -> TokenType | None:
    return tokens[index].token_type if 0 <= index < len(tokens) else None


def _start(node: exp.Expr | None) -> int | None:
    return None if node is None else node.meta.get("start")
