"""Whether a query looks like one over several relations, so that users read this shape's refusal of it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.shapes.query_text import read_query
from airflow_backfill_provider.shapes.token_lists import type_at

_WORDS = frozenset({TokenType.JOIN, TokenType.UNION, TokenType.INTERSECT})
_NAMES = frozenset({TokenType.VAR, TokenType.IDENTIFIER})
_BEFORE_SUBQUERY = frozenset({TokenType.EXISTS, TokenType.IN})


def looks_joined(text: str) -> bool:
    """Return whether a query joins or unites relations, or asks whether rows of another one exist."""
    try:
        tokens = read_query(text).tokens
    except InvalidJobError:
        return False
    return any(_is_joining(tokens, index) for index in range(len(tokens)))


def _is_joining(tokens: Sequence[Token], index: int) -> bool:
    before, after = type_at(tokens, index - 1), type_at(tokens, index + 1)
    if before == TokenType.DOT:
        return False  # a name
    match tokens[index].token_type:
        case kind if kind in _WORDS:
            return True
        case TokenType.EXCEPT:
            # SELECT * EXCEPT (…) drops columns
            return after in {TokenType.SELECT, TokenType.ALL, TokenType.DISTINCT} or before != TokenType.STAR
        case TokenType.SELECT if before == TokenType.L_PAREN:
            return type_at(tokens, index - 2) in _BEFORE_SUBQUERY
        case TokenType.FROM:
            return _has_comma(tokens, index)
        case _:
            return False


def _has_comma(tokens: Sequence[Token], at: int) -> bool:
    """Return whether a comma follows the first relation of a FROM, after its alias if it has one."""
    after = at + 2
    if type_at(tokens, after) == TokenType.ALIAS:
        after += 1
    if type_at(tokens, after) in _NAMES:
        after += 1
    return type_at(tokens, after) == TokenType.COMMA
