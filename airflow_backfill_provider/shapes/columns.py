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
    names = possible_names(tokens, select)
    of_relation = {name[1] for name in names if len(name) > 1 and name[0] == relation.lower()}
    return frozenset({name[0] for name in names} | of_relation)


def possible_names(tokens: Sequence[Token], select: exp.Select) -> frozenset[tuple[str, ...]]:
    """
    Return the names that may be columns or begin with one, lower-cased: the first part, and the second if there is one.

    The first part is a column or a relation; the second one is then a field of the column, or the relation's column.

    :param tokens: the query's tokens.
    :param select: the query's tree.
    """
    aliases = {_start(alias.args["alias"]) for alias in select.find_all(exp.Alias)}
    identifiers = {_start(identifier) for identifier in select.find_all(exp.Identifier)}

    def is_name(index: int) -> bool:
        token = tokens[index]
        is_word = token.token_type in _NAMES or token.start in identifiers
        return is_word and token.start not in aliases and _type_at(tokens, index + 1) != TokenType.L_PAREN

    found: set[tuple[str, ...]] = {(text,) for text in _named_by_text(tokens)}
    for index, token in enumerate(tokens):
        if _type_at(tokens, index - 1) == TokenType.DOT or not is_name(index):
            continue
        is_qualified = _type_at(tokens, index + 1) == TokenType.DOT
        second = (tokens[index + 2].text.lower(),) if is_qualified and index + 2 < len(tokens) else ()
        found.add((token.text.lower(), *second))
    return frozenset(found)


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


def _type_at(tokens: Sequence[Token], index: int) -> TokenType | None:
    return tokens[index].token_type if 0 <= index < len(tokens) else None


def _start(node: exp.Expr | None) -> int | None:
    return None if node is None else node.meta.get("start")
