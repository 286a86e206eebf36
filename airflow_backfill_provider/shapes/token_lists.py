"""Lists of a query's tokens: parts of them, and what lies outside of parentheses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot.tokenizer_core import Token, TokenType

from airflow_backfill_provider.core.errors import InvalidJobError


def added(at: Token, *words: tuple[TokenType, str]) -> list[Token]:
    """Return added tokens at the position of a token from the text."""
    return [Token(kind, text, at.line, at.col, at.start, at.start, []) for kind, text in words]


def split(tokens: list[Token], separator: TokenType) -> list[list[Token]]:
    """Return the parts between the separators outside of parentheses."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += depth_step(token)
        if depth == 0 and token.token_type == separator:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def outermost(tokens: Sequence[Token]) -> Iterator[tuple[int, Token]]:
    """Yield the tokens outside parentheses that may be keywords, with their index."""
    depth = 0
    for index, token in enumerate(tokens):
        depth += depth_step(token)
        # IS DISTINCT FROM is a comparison, and after a dot any word is a name.
        if depth == 0 and type_at(tokens, index - 1) not in {TokenType.DISTINCT, TokenType.DOT}:
            yield index, token


def without_parentheses(tokens: list[Token]) -> list[Token]:
    """Return tokens without the parentheses around all of them."""
    while type_at(tokens, 0) == TokenType.L_PAREN and closing_of(tokens, 0) == len(tokens) - 1:
        tokens = tokens[1:-1]
    return tokens


def closing_of(tokens: Sequence[Token], opening: int) -> int:
    """
    Return the index of the parenthesis that closes another one.

    :raises InvalidJobError: if none does.
    """
    depth = 0
    for index in range(opening, len(tokens)):
        depth += depth_step(tokens[index])
        if depth == 0:
            return index
    raise InvalidJobError("the query has a syntax error: a parenthesis is not closed")


def depth_step(token: Token) -> int:
    """Return how a token changes the depth of parentheses."""
    return {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)


def type_at(tokens: Sequence[Token], index: int) -> TokenType | None:
    """Return the type of the token at an index; ``None`` outside of the tokens."""
    return tokens[index].token_type if 0 <= index < len(tokens) else None
