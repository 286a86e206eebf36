"""
JSON texts on Spark: which are well-formed, and how to read their values without a loss.

Spark's own reader of JSON takes a text for whole at its first value, keeps the last of two fields with one name, rounds
decimals, and lets numbers overflow. Therefore a text is checked first. Then every number becomes a text with a mark, so
that Spark reads its digits as they were written.

The functions take and return expressions of Spark SQL as text; see :mod:`.spark`.
"""

from __future__ import annotations

from airflow_backfill_provider.core.job.sql import text_literal

NUMBER = "#"
"""The mark of a number that became a text."""

TEXT = "'"
"""The mark of every other text, and of every name."""

NO_OBJECT = "is no JSON object"
INVALID = "is no valid JSON, or has a name twice in one object"

_NUMBERS = "(-?[0-9][-+.0-9eE]*)"
_BLANKS = " \t\r\n"


def malformed(text: str) -> str:
    """
    Return what is wrong with a text, or null if it is one JSON object.

    Spark ignores what follows the first value. If the text stands in brackets, that can begin with a bracket or a comma
    only, and if it stands in braces, with a brace or a comma only. With a comma, there are two values in the brackets.
    """
    is_whole = (
        f"json_array_length(concat('[', {text}, ']')) = 1"
        f" AND size(json_object_keys(concat('{{\"\":', {text}, '}}'))) = 1"
    )
    # Reading a variant is stricter: about names that an object has twice, quotes, and halves of characters.
    return (
        f"CASE WHEN NOT coalesce({is_whole} AND {begins_an_object(text)}, false) THEN {text_literal(NO_OBJECT)}"
        f" WHEN try_parse_json({text}) IS NULL THEN {text_literal(INVALID)} END"
    )


def begins_an_object(text: str) -> str:
    """Return the condition that a text begins with a brace, perhaps behind blanks."""
    return f"startswith(TRIM(LEADING {text_literal(_BLANKS)} FROM {text}), '{{')"


def marked(text: str) -> str:
    """
    Return a well-formed text in which numbers are texts, and all texts and names have a mark.

    Escaped quotes and backslashes get their other notation first, so that every quote begins or ends a text. Between
    quotes, pieces are texts and what stands between texts in turn.
    """
    plain = f"replace({text}, {text_literal(_BACKSLASH * 2)}, {text_literal(_BACKSLASH + 'u005c')})"
    plain = f"replace({plain}, {text_literal(_BACKSLASH + _QUOTE)}, {text_literal(_BACKSLASH + 'u0022')})"
    between = f"regexp_replace(piece, {text_literal(_NUMBERS)}, {text_literal(f'{_QUOTE}{NUMBER}$1{_QUOTE}')})"
    piece = f"if(number % 2 = 0, {between}, concat({text_literal(TEXT)}, piece))"
    return f"array_join(transform(split({plain}, '{_QUOTE}'), (piece, number) -> {piece}), '{_QUOTE}')"


_BACKSLASH = "\\"
_QUOTE = '"'
