"""
The text of a query as it is checked and run.

Spark runs a query's text, but another parser, sqlglot, checks it. So a query consists of those tokens alone that both
lexers cut out of the text in the same way. Comments are replaced by blanks before the check, and a text that the lexers
cut differently is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.spark_tokens import (
    SparkToken,
    TokenKind,
    place,
    spark_tokens,
    text_value,
    without_gaps,
)
from airflow_backfill_provider.core.job.sql import RELATION

_LITERALS = {
    TokenKind.NUMBER: TokenType.NUMBER,
    TokenKind.TEXT: TokenType.STRING,
    TokenKind.RAW_TEXT: TokenType.RAW_STRING,
    TokenKind.QUOTED_NAME: TokenType.IDENTIFIER,
    TokenKind.HINT: TokenType.HINT,
}
"""The type that sqlglot must give to a token, by the kind that Spark gives to it."""

_NO_WORDS = frozenset(
    {
        *_LITERALS.values(),
        TokenType.BIT_STRING,
        TokenType.BYTE_STRING,
        TokenType.HEREDOC_STRING,
        TokenType.HEX_STRING,
        TokenType.NATIONAL_STRING,
        TokenType.UNICODE_STRING,
    }
)
"""Types of tokens that are no words and no operators."""

ONE_SELECT = f"the query must be one SELECT … FROM {RELATION} [WHERE …]"  # noqa: S608 - for messages

_HEX = re.compile(r"[xX]'[0-9a-fA-F]*'")
_STATEMENTS = sqlglot.Dialect.get_or_raise("spark").tokenizer_class.COMMANDS
"""The first words of statements that sqlglot does not cut into tokens."""

_SHIFTS = frozenset({"<<", ">>", ">>>"})


@dataclass(frozen=True, slots=True)
class QueryText:
    """
    A query's text, and its tokens.

    :param text: the user's text with blanks in place of everything that is no token, and without a closing semicolon.
    :param tokens: its tokens, as sqlglot's parser takes them.
    """

    text: str
    tokens: tuple[Token, ...]


def read_query(text: str) -> QueryText:
    """
    Return a query's text without comments, and its tokens.

    :raises InvalidJobError: if Spark may cut the text into other tokens, with the place.
    """
    plain = without_gaps(text).strip().removesuffix(";").rstrip()
    try:
        tokens = sqlglot.tokenize(plain, read="spark")
    except SqlglotError as error:
        raise InvalidJobError(f"the query has a syntax error: {one_line(error)}") from None
    if tokens and tokens[0].token_type in _STATEMENTS:
        raise InvalidJobError(ONE_SELECT)
    return QueryText(plain, tuple(_agreed(plain, list(spark_tokens(plain)), tokens)))


def words(text: str, tokens: Sequence[Token]) -> list[str]:
    """Return what a part of a query says, as it is written, without where it stands; hints change no row."""
    return [text[token.start : token.end + 1] for token in tokens if token.token_type is not TokenType.HINT]


def says_the_same(one: str, other: str) -> bool:
    """Return whether two queries consist of the same words, whatever comments and blanks are between them."""
    read, also = read_query(one), read_query(other)
    return words(read.text, read.tokens) == words(also.text, also.tokens)


def one_line(error: Exception) -> str:
    """Return the first line of one of sqlglot's errors."""
    first = str(error).splitlines()[0] if str(error) else type(error).__name__
    return first.replace("\x1b[4m", "").replace("\x1b[0m", "")


def _agreed(text: str, ours: Sequence[SparkToken], theirs: Sequence[Token]) -> Iterator[Token]:
    """Yield sqlglot's tokens, if both lexers agree on them."""
    before: SparkToken | None = None
    for spark, other in _groups(text, ours, theirs):
        is_hex = _HEX.fullmatch(text, spark[0].start, spark[-1].end) is not None
        if before is not None and _is_hex_word(text, before) and spark[0].kind is TokenKind.TEXT:
            raise _ambiguous(text, before.start)  # a binary literal to Spark, also with a blank in between
        if is_hex and [token.token_type for token in other] == [TokenType.HEX_STRING]:
            yield from other
        elif len(spark) == 1 and _agree(text, spark[0], other):
            yield from _merged(text, spark[0], other)
        elif all(token.kind is TokenKind.WORD for token in spark) and _is_keyword(other):
            yield from other
        else:
            raise _ambiguous(text, spark[0].start)
        before = None if is_hex else spark[-1]


def _groups(
    text: str, ours: Sequence[SparkToken], theirs: Sequence[Token]
) -> Iterator[tuple[list[SparkToken], list[Token]]]:
    """Yield the shortest runs of tokens that begin and end at the same places to both lexers."""
    rest = list(theirs)
    group: list[SparkToken] = []
    others: list[Token] = []
    for token in ours:
        group.append(token)
        while rest and rest[0].end + 1 <= token.end:
            others.append(rest.pop(0))
        if others and others[-1].end + 1 == token.end:
            if others[0].start != group[0].start:
                break
            yield group, others
            group, others = [], []
    if group or others or rest:
        starts = [token.start for token in group], [token.start for token in (*others, *rest)]
        raise _ambiguous(text, min(map(min, filter(None, starts))))


def _agree(text: str, spark: SparkToken, other: Sequence[Token]) -> bool:
    """Return whether sqlglot cuts and understands one token of Spark's as Spark does."""
    written = text[spark.start : spark.end]
    types = [token.token_type for token in other]
    match spark.kind:
        case TokenKind.TEXT:
            return set(types) == {TokenType.STRING}
        case TokenKind.NUMBER:
            # A suffix, as in 1L, is a cast to sqlglot, and a leading point a token of its own.
            return types[: 2 if written.startswith(".") else 1] == (
                [TokenType.DOT, TokenType.NUMBER] if written.startswith(".") else [TokenType.NUMBER]
            )
        case TokenKind.RAW_TEXT | TokenKind.QUOTED_NAME | TokenKind.HINT:
            return types == [_LITERALS[spark.kind]]
        case TokenKind.OPERATOR if written in _SHIFTS:
            return "".join(token.text for token in other) == written
        case _:
            return len(other) == 1 and other[0].text == written and types[0] not in _NO_WORDS


def _merged(text: str, spark: SparkToken, other: Sequence[Token]) -> Sequence[Token]:
    """
    Return sqlglot's tokens, but one token with Spark's value for a text.

    sqlglot takes a text with doubled quotes for several texts, and reads some escapes otherwise. Its parser expects no
    raw text where it may be.
    """
    if spark.kind not in {TokenKind.TEXT, TokenKind.RAW_TEXT}:
        return other
    first, value = other[0], text_value(text[spark.start : spark.end])
    return [Token(TokenType.STRING, value, first.line, first.col, spark.start, spark.end - 1, [])]


def _is_keyword(other: Sequence[Token]) -> bool:
    """Return whether a token is a keyword of several words, such as GROUP BY."""
    return len(other) == 1 and " " in other[0].text and other[0].token_type not in {*_NO_WORDS, TokenType.VAR}


def _is_hex_word(text: str, token: SparkToken) -> bool:
    return text[token.start : token.end].lower() == "x"


def _ambiguous(text: str, position: int) -> InvalidJobError:
    return InvalidJobError(
        f"the query has a text that can be read in two ways ({place(text, position)}); write blanks between names, "
        "numbers, quoted texts and operators there, or another form of them"
    )
