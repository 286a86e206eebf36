"""Whether a query looks like one of groups, so that users read this shape's refusal of it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.shapes.functions import AGGREGATES, WINDOW_FUNCTIONS, called_functions
from airflow_backfill_provider.shapes.query_text import read_query
from airflow_backfill_provider.shapes.token_lists import type_at

_WORDS = frozenset({TokenType.GROUP_BY, TokenType.HAVING, TokenType.OVER, TokenType.PARTITION_BY, TokenType.QUALIFY})


def looks_grouped(text: str) -> bool:
    """Return whether a query has a clause of groups or windows, or calls an aggregate."""
    try:
        tokens = read_query(text).tokens
    except InvalidJobError:
        return False
    return any(_is_grouping(tokens, index) for index in range(len(tokens))) or any(
        called[-1] in AGGREGATES | WINDOW_FUNCTIONS for _, called in called_functions(tokens)
    )


def _is_grouping(tokens: Sequence[Token], index: int) -> bool:
    token = tokens[index]
    match token.token_type:
        case TokenType.DISTINCT:
            return type_at(tokens, index - 1) == TokenType.SELECT
        case _ if type_at(tokens, index - 1) == TokenType.PIPE_GT:
            return bool(token.text.lower() == "aggregate")
        case kind:
            return kind in _WORDS and type_at(tokens, index - 1) != TokenType.DOT
