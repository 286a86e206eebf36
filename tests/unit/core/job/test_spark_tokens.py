"""A text of Spark SQL is cut as Spark's own lexer cuts it, or refused."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.spark_tokens import TokenKind, spark_tokens, text_value, without_gaps


def cut(text: str) -> list[str]:
    return [text[token.start : token.end] for token in spark_tokens(text)]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("a -- b\nc", ["a", "c"]),
        ("a--b\rc", ["a", "c"]),
        ("--\\x\na", ["a"]),
        ("a/* 'b */c'*/'", ["a", "c", "'*/'"]),
        ("a /* /* b */ c */ d", ["a", "d"]),
        ("/*/ a */ b /**/ c /*! d */", ["b", "c"]),
        ("/* + */ a", ["a"]),
        ("'it''s' 'a' 'b'", ["'it''s'", "'a'", "'b'"]),
        (r"""'a\'b' 'a\\' "a\"" """, [r"'a\'b'", r"'a\\'", r'"a\""']),
        ("'a\nb' \"c--d\" `e/*f`", ["'a\nb'", '"c--d"', "`e/*f`"]),
        ("r'a\\' R\"b\" ar'c'", ["r'a\\'", 'R"b"', "ar", "'c'"]),
        ("r'a''b'", ["r'a'", "'b'"]),
        ("`a``b`.`c`", ["`a``b`", ".", "`c`"]),
        ("1L 1.5BD .5 1. 1e5 1.e 1a 1_0 0x1F", ["1L", "1.5BD", ".5", "1.", "1e5", "1", ".", "e", "1a", "1_0", "0x1F"]),
        ("a.1b a.b", ["a", ".", "1b", "a", ".", "b"]),
        ("a<=>b a>>>b x->y a|>b a||b a::c", [*"a <=> b a >>> b x -> y a |> b a || b a :: c".split()]),
        ("a\u00a0b\u2028c\u3000d", ["a", "b", "c", "d"]),
        ("ünï 日本", ["ünï", "日本"]),
        ("SELECT /*+ REPARTITION(3, a) */ b", ["SELECT", "/*+ REPARTITION(3, a) */", "b"]),
        ("1--1", ["1"]),
    ],
)
def test_a_text_is_cut_into_the_tokens_of_spark(text: str, tokens: list[str]) -> None:
    assert cut(text) == tokens


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a -- \\\n/*\n, b -- \\\n*/ c", "comment that ends with a backslash (line 1, column 3)"),
        ("-- \\", "ends with a backslash"),
        ("-- \\\r\na", "ends with a backslash"),
        ("/* /*+ */ a */", "/*+ inside a comment (line 1, column 4)"),
        ("a /* b", "a comment is not closed (line 1, column 3)"),
        ("a\n*/ b", "closes a comment that it did not open (line 2, column 1)"),
        ("'a", "a quote is not closed"),
        ('a "b\\"', "a quote is not closed"),
        ("`a``", "a quote is not closed"),
        ("/*+ BROADCAST('*/') */ a", "a hint with more than names and numbers"),
        ("/*+ a -- */ b", "a hint with more than names and numbers"),
        ("a\u0085b", "the character U+0085 outside of quotes (line 1, column 2)"),
        ("a\u2029b", "U+2029"),
        ("a\u200bb", "U+200B"),
        ("\ufeffa", "U+FEFF"),
        ("a\x1cb", "U+001C"),
        ("a\x00b", "U+0000"),
        ("${a}", "the character $ outside"),
        ("$$a$$", "the character $ outside"),
        ("{{ a }}", "the character { outside"),
        ("a # b", "the character # outside"),
        ("@a", "the character @ outside"),
        ("a \\ b", "the character \\ outside"),
        ("😀", "U+1F600"),
        ("e\u0301", "U+0301"),
        ("exıſts", "U+0131"),
        ("1中", "U+4E2D"),
    ],
)
def test_a_text_that_spark_may_cut_otherwise_is_refused_with_the_place(text: str, said: str) -> None:
    """What is checked is what runs."""
    with pytest.raises(InvalidJobError) as caught:
        cut(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_comments_become_blanks_and_everything_else_stays_in_its_place() -> None:
    text = "SELECT\ta /* b\n 'c */ , '-- d' -- e\r\nFROM\u00a0upstream"
    assert without_gaps(text) == f"SELECT\ta {' ' * 4}\n {' ' * 5} , '-- d' {' ' * 4}\r\nFROM upstream"


def test_tokens_have_kinds() -> None:
    kinds = [token.kind for token in spark_tokens("SELECT /*+ A */ 'a', r'b', `c` + 1")]
    assert kinds == [
        *(TokenKind.WORD, TokenKind.HINT, TokenKind.TEXT, TokenKind.OPERATOR, TokenKind.RAW_TEXT, TokenKind.OPERATOR),
        *(TokenKind.QUOTED_NAME, TokenKind.OPERATOR, TokenKind.NUMBER),
    ]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("'a''b'", "a'b"),
        ('"a""b\'c"', "a\"b'c"),
        (r"'a\'b\"c\\'", "a'b\"c\\"),
        (r"'\u0041\U00000042\103'", "ABC"),
        (r"'\ud83d\ude00'", "😀"),
        (r"'\b\n\r\t\Z\0'", "\b\n\r\t\x1a\0"),
        (r"'\%\_'", r"\%\_"),
        (r"'\q\u12\x41\377'", "qu12x41377"),
        ("'\\\n'", "\n"),
        (r"r'\n'", r"\n"),
        (r"'\UFFFFFFFF'", "\ufffd"),
    ],
)
def test_a_text_has_the_value_that_spark_reads(written: str, value: str) -> None:
    assert text_value(written) == value
