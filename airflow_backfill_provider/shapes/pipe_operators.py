"""Pipe operators, each as the equivalent ``SELECT`` over the relation before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot.tokenizer_core import Token, TokenType

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.sql import RELATION
from airflow_backfill_provider.shapes.token_lists import added, outermost, split, type_at

Operator = Callable[[Token, list[Token], list[Token]], list[Token]]
"""Gets an operator's first token, the other tokens, and those of the relation; returns the equivalent SELECT."""


def equivalent_select(
    tokens: list[Token], unsupported: Callable[[str], InvalidJobError], operators: Mapping[str, Operator]
) -> list[Token]:
    """
    Return the tokens of the SELECT that is equivalent to a pipe operator.

    :param tokens: the operator's tokens, without ``|>``.
    :param unsupported: returns the error for an operator that the query may not have.
    :param operators: further operators, by name in lower case.
    :raises InvalidJobError: if it is another operator, or no operator at all.
    """
    if not tokens:
        raise InvalidJobError("the query has a syntax error: nothing follows |>")
    first, rest = tokens[0], tokens[1:]
    source = added(first, (TokenType.FROM, "FROM"), (TokenType.VAR, RELATION))
    star = added(first, (TokenType.SELECT, "SELECT"), (TokenType.STAR, "*"))
    match first.token_type, first.text.lower():
        case TokenType.SELECT, _:
            if any(token.token_type in {TokenType.FROM, TokenType.WHERE} for _, token in outermost(rest)):
                raise unsupported("|> SELECT with more than expressions")
            written = [*tokens, *source]
        case TokenType.WHERE, _:
            written = [*star, *source, *tokens]
        case _, "extend":
            written = [*star, *added(first, (TokenType.COMMA, ",")), *rest, *source]
        case _, "set":
            written = [*star, *_replaced(first, rest), *source]
        case _, "drop":
            excepted = added(first, (TokenType.EXCEPT, "EXCEPT"), (TokenType.L_PAREN, "("))
            written = [*star, *excepted, *rest, *added(first, (TokenType.R_PAREN, ")")), *source]
        case TokenType.ALIAS, _ if len(rest) == 1:
            written = [*star, *source]
        case _, name if name in operators:
            written = operators[name](first, rest, source)
        case _:
            raise unsupported(f"the pipe operator {first.text.upper()}")
    return written


def _replaced(first: Token, assignments: list[Token]) -> list[Token]:
    """Return ``REPLACE (expression AS column, …)`` for ``SET column = expression, …``."""
    written = added(first, (TokenType.REPLACE, "REPLACE"), (TokenType.L_PAREN, "("))
    for number, assignment in enumerate(split(assignments, TokenType.COMMA)):
        if type_at(assignment, 1) != TokenType.EQ:
            raise InvalidJobError("the query has a syntax error: |> SET needs column = expression")
        if number:
            written += added(first, (TokenType.COMMA, ","))
        written += [*assignment[2:], *added(first, (TokenType.ALIAS, "AS")), assignment[0]]
    return [*written, *added(first, (TokenType.R_PAREN, ")"))]
