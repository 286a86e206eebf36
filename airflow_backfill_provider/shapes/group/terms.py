"""The expressions of a query as lists of tokens: their text, their name, and whether two of them are the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

from airflow_backfill_provider.shapes.token_lists import split, type_at, without_parentheses

Meaning = tuple[str, ...]
"""An expression without what does not matter to Spark: two expressions with the same meaning are equal for each row."""

_TEXTS = frozenset({TokenType.STRING, TokenType.RAW_STRING, TokenType.HEX_STRING})


@dataclass(frozen=True, slots=True)
class Term:
    """
    An expression of a query.

    :param tokens: its tokens, without an alias.
    :param meaning: what it means.
    :param name: the name of the column that it makes; empty if only Spark knows it.
    """

    tokens: tuple[Token, ...]
    meaning: Meaning
    name: str = ""

    def text(self, query: str) -> str:
        """Return the expression as the user wrote it."""
        return query[self.tokens[0].start : self.tokens[-1].end + 1]


def term(tokens: Sequence[Token], relation: str, name: str = "") -> Term:
    """
    Return an expression.

    :param tokens: its tokens, without an alias.
    :param relation: the name of the relation that its columns may be qualified with.
    :param name: its alias, if it has one.
    """
    return Term(tuple(tokens), meaning(tokens, relation), name or _column_name(tokens))


def named_term(tokens: Sequence[Token], relation: str, alias: str) -> Term:
    """
    Return an expression that may end with an alias.

    :param alias: the alias that the parser found; empty if there is none.
    """
    if not alias:
        return term(tokens, relation)
    end = -2 if type_at(tokens, len(tokens) - 2) == TokenType.ALIAS else -1
    return term(tokens[:end], relation, alias)


def terms(tokens: Sequence[Token], relation: str) -> tuple[Term, ...]:
    """Return the expressions of a list without aliases."""
    return tuple(term(part, relation) for part in split(list(tokens), TokenType.COMMA) if part)


def meaning(tokens: Sequence[Token], relation: str) -> Meaning:
    """Return what an expression means; quotes, case and the relation's name do not matter to names."""
    tokens = without_parentheses(list(tokens))
    written = []
    for index, token in enumerate(tokens):
        if token.token_type in _TEXTS:
            written.append(f"'{token.text}")
        elif not _is_relation(tokens, index - (token.token_type == TokenType.DOT), relation):
            written.append(token.text.lower())
    return tuple(written)


def column(name: str) -> Meaning:
    """Return the meaning of a column."""
    return (name.lower(),)


def _is_relation(tokens: Sequence[Token], index: int, relation: str) -> bool:
    """Return whether a token is the relation's name before a column."""
    if not relation or not 0 <= index < len(tokens) or tokens[index].text.lower() != relation.lower():
        return False
    return type_at(tokens, index + 1) == TokenType.DOT and type_at(tokens, index - 1) != TokenType.DOT


def _column_name(tokens: Sequence[Token]) -> str:
    """Return the name of a plain column, with or without its relation; empty for another expression."""
    if len(tokens) == 1 and _is_name(tokens[0]):
        return str(tokens[0].text)
    is_qualified = len(tokens) == 3 and tokens[1].token_type == TokenType.DOT  # noqa: PLR2004 - relation, dot, column
    return str(tokens[2].text) if is_qualified and _is_name(tokens[0]) and _is_name(tokens[2]) else ""


def _is_name(token: Token) -> bool:
    is_word = token.text[:1].isalpha() or token.text[:1] == "_"
    return token.token_type == TokenType.IDENTIFIER or (is_word and token.token_type not in _TEXTS)
