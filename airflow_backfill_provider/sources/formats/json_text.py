"""
JSON texts on Spark: which are well-formed, and how to read their values without a loss.

Spark's own reader of JSON takes a text for whole at its first value, keeps the last of two fields with one name, rounds
decimals, and lets numbers overflow. Therefore a text is checked first. Then every number becomes a text with a mark, so
that Spark reads its digits as they were written.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

NUMBER = "#"
"""The mark of a number that became a text."""

TEXT = "'"
"""The mark of every other text, and of every name."""

NO_OBJECT = "is no JSON object"
INVALID = "is no valid JSON, or has a name twice in one object"

_NUMBERS = "(-?[0-9][-+.0-9eE]*)"
_BLANKS = " \t\r\n"


def malformed(text: Column) -> Column:
    """
    Return what is wrong with a text, or null if it is one JSON object.

    Spark ignores what follows the first value. If the text stands in brackets, that can begin with a bracket or a comma
    only, and if it stands in braces, with a brace or a comma only. With a comma, there are two values in the brackets.
    """
    in_brackets = F.concat(F.lit("["), text, F.lit("]"))
    in_braces = F.concat(F.lit('{"":'), text, F.lit("}"))
    is_whole = (F.json_array_length(in_brackets) == 1) & (F.size(F.json_object_keys(in_braces)) == 1)
    is_object = F.coalesce(is_whole & F.ltrim(text, F.lit(_BLANKS)).startswith("{"), F.lit(False))
    # Reading a variant is stricter: about names that an object has twice, quotes, and halves of characters.
    invalid = F.try_parse_json(text).isNull()
    return F.when(~is_object, F.lit(NO_OBJECT)).when(invalid, F.lit(INVALID))


def marked(text: Column) -> Column:
    """
    Return a well-formed text in which numbers are texts, and all texts and names have a mark.

    Escaped quotes and backslashes get their other notation first, so that every quote begins or ends a text. Between
    quotes, pieces are texts and what stands between texts in turn.
    """
    plain = F.replace(text, F.lit("\\\\"), F.lit("\\u005c"))
    plain = F.replace(plain, F.lit('\\"'), F.lit("\\u0022"))
    pieces = F.transform(F.split(plain, '"'), _marked_piece)
    return F.array_join(pieces, '"')


def _marked_piece(piece: Column, index: Column) -> Column:
    between = F.regexp_replace(piece, _NUMBERS, f'"{NUMBER}$1"')
    return F.when(index % 2 == 0, between).otherwise(F.concat(F.lit(TEXT), piece))
