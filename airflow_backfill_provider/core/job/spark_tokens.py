"""
Cuts a text of Spark SQL into tokens, as Spark's own lexer does.

A query is checked with another parser than the one that runs it. Where the two lexers cut a text differently, one can
see a comment where the other sees code. So this module knows the few rules that decide where a token, a quoted text or
a comment ends. It refuses what Spark would cut in a way that these rules do not cover. The campaign ``query-text``
compares it with Spark's lexer.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from airflow_backfill_provider.core.errors import InvalidJobError


class TokenKind(StrEnum):
    """The kinds of tokens that matter to a check."""

    WORD = "word"
    """A keyword, a name without quotes, or a function."""

    NUMBER = "number"
    TEXT = "text"
    """A text in single or double quotes, with escapes."""

    RAW_TEXT = "raw text"
    """A text such as ``r'…'``, without escapes."""

    QUOTED_NAME = "quoted name"
    OPERATOR = "operator"
    HINT = "hint"
    """A whole hint, ``/*+ … */``."""


@dataclass(frozen=True, slots=True)
class SparkToken:
    """
    A token and its position in the text, ``[start, end)``.

    :param kind: its kind.
    """

    kind: TokenKind
    start: int
    end: int


_BLANK = re.compile(r"[ \t\n\r\f\v\u00a0\u1680\u2000-\u200a\u2028\u202f\u205f\u3000]+")
_PLAIN_BLANKS = " \t\r\n"
_LINE_COMMENT = re.compile(r"--[^\r\n]*")
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_HINT = re.compile(r"/\*\+[\w\s(),]*\*/", re.ASCII)
_SUFFIXED = r"(?:BD|[DF])"
_POINT = r"(?:\d+\.\d*|\.\d+)"
_EXPONENT = r"E[+-]?\d+"
_TOKENS = (
    (TokenKind.RAW_TEXT, re.compile(r"""r(?:'[^']*'|"[^"]*")""", re.IGNORECASE)),
    (TokenKind.TEXT, re.compile(r"""'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*\"""", re.DOTALL)),
    (TokenKind.QUOTED_NAME, re.compile(r"`(?:[^`]|``)*`")),
    (
        TokenKind.NUMBER,
        re.compile(
            rf"(?:{_POINT}(?:{_EXPONENT})?{_SUFFIXED}?|\d+(?:{_EXPONENT})?{_SUFFIXED}?|\d+[LSY])(?!\w)",
            re.IGNORECASE | re.ASCII,
        ),
    ),
    (TokenKind.WORD, re.compile(r"\w+")),
    (TokenKind.OPERATOR, re.compile(r"<=>|>>>|[<>!=]=|[!<]>|![<>]|=>|->|::|\|\||\|>|<<|>>|[-+*/%~&|^<>=!?:;,.()[\]]")),
)

_ESCAPE = re.compile(
    r"\\(?:u(?P<short>[0-9a-fA-F]{4})|U(?P<long>[0-9a-fA-F]{8})|(?P<octal>[01][0-7]{2})|(?P<one>.))", re.DOTALL
)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}

_FOLDED = frozenset("ıſ")
"""Letters whose upper case is an ASCII letter: to Spark, a keyword may be written with them."""


def spark_tokens(text: str) -> Iterator[SparkToken]:
    """
    Yield the tokens of a text; everything between them is blanks and comments.

    :raises InvalidJobError: if it is not certain how Spark cuts the text.
    """
    position = 0
    while position < len(text):
        end = _gap(text, position)
        if end > position:
            position = end
            continue
        token = _token(text, position)
        yield token
        position = token.end


def without_gaps(text: str) -> str:
    """
    Return a text with a plain blank in place of each comment's characters and of each unusual blank.

    Line ends stay, and so does the position of each token: errors of Spark point to the same place in both texts.

    :raises InvalidJobError: as :func:`spark_tokens`.
    """
    written = [character if character in _PLAIN_BLANKS else " " for character in text]
    for token in spark_tokens(text):
        written[token.start : token.end] = text[token.start : token.end]
    return "".join(written)


def text_value(written: str) -> str:
    """
    Return the value of a text literal as Spark reads it.

    :param written: the whole literal, with its quotes.
    """
    if written[0] in "rR":
        return written[2:-1]
    quote = written[0]
    value = _ESCAPE.sub(_unescaped, written[1:-1].replace(quote * 2, f"\\{quote}"))
    # Two escapes may be the halves of one character.
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def place(text: str, position: int) -> str:
    """Return the name of a place in a text, for messages."""
    line = text.count("\n", 0, position) + 1
    return f"line {line}, column {position - text.rfind(chr(10), 0, position)}"


def _unescaped(found: re.Match[str]) -> str:
    if code := found["short"] or found["long"]:
        return chr(int(code, 16)) if int(code, 16) <= sys.maxunicode else "\ufffd"
    if octal := found["octal"]:
        return chr(int(octal, 8))
    return _ESCAPED.get(found["one"], found["one"])


def _gap(text: str, position: int) -> int:
    """Return where the blanks or the comment end that begin at a position."""
    if blank := _BLANK.match(text, position):
        return blank.end()
    if comment := _LINE_COMMENT.match(text, position):
        if comment.group().endswith("\\"):
            raise InvalidJobError(
                f"the query has a comment that ends with a backslash ({place(text, position)}), and Spark reads its "
                "next line as a comment, too; remove the backslash"
            )
        return comment.end()
    if text.startswith("/*", position) and not text.startswith("/*+", position):
        return _end_of_comment(text, position)
    return position


def _end_of_comment(text: str, position: int) -> int:
    """Return where a comment ends; comments nest."""
    depth = 0
    for edge in _COMMENT_EDGE.finditer(text, position):
        if text.startswith("/*+", edge.start()):
            raise InvalidJobError(
                f"the query has /*+ inside a comment ({place(text, edge.start())}), where Spark does not see the "
                "beginning of a comment; remove the plus sign"
            )
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    raise InvalidJobError(
        f"the query has a syntax error: a comment is not closed ({place(text, position)}); close it with */"
    )


def _token(text: str, position: int) -> SparkToken:
    if text.startswith("/*+", position):
        hint = _HINT.match(text, position)
        if hint is None:
            raise InvalidJobError(
                f"the query has a hint with more than names and numbers ({place(text, position)}); write it as "
                "/*+ NAME(name, number) */, or remove it"
            )
        return SparkToken(TokenKind.HINT, position, hint.end())
    for kind, pattern in _TOKENS:
        if found := pattern.match(text, position):
            _require_plain(text, kind, found)
            return SparkToken(kind, position, found.end())
    character = text[position]
    if character in "'\"`":
        raise InvalidJobError(
            f"the query has a syntax error: a quote is not closed ({place(text, position)}); close it"
        )
    raise _odd(text, position)


def _require_plain(text: str, kind: TokenKind, found: re.Match[str]) -> None:
    """Refuse a word with characters that may mean something else to Spark, and the end of a comment."""
    if kind is TokenKind.WORD and not found.group().isascii():
        for offset, character in enumerate(found.group()):
            if not (character.isascii() or unicodedata.category(character).startswith("L")) or character in _FOLDED:
                raise _odd(text, found.start() + offset)
    if kind is TokenKind.NUMBER and text[found.end() : found.end() + 1].isalnum():
        raise _odd(text, found.end())
    if text.startswith("*/", found.start()):
        raise InvalidJobError(
            "the query has a syntax error: it closes a comment that it did not open "
            f"({place(text, found.start())}); remove */"
        )


def _odd(text: str, position: int) -> InvalidJobError:
    character = text[position]
    shown = character if character.isascii() and character.isprintable() else f"U+{ord(character):04X}"
    return InvalidJobError(
        f"the query has the character {shown} outside of quotes ({place(text, position)}), which Spark's SQL does not "
        "know; remove it, or put the name that it belongs to in backticks"
    )
