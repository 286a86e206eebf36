"""
Tells usual JSON objects: flat ones with fields of a schema, each at most once, in the types of their columns.

Spark's reader of JSON is lax in some points only: it ignores what follows the first value, takes the last of two fields
with one name, turns any value into a text and texts into numbers, rounds decimals, and lets halves of characters and
bytes pass that are no UTF-8. Two checks exclude just these. What the reader itself refuses may pass them, such as
numbers with leading zeros.

The first check takes less time. It writes the object again from the values that were read, as most programs write it,
and compares the two texts. The second is a pattern of the whole text, for any order of the fields, with blanks and
escapes.

The functions take and return expressions of Spark SQL as text; see :mod:`.spark`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from airflow_backfill_provider.core.job.sql import text_literal
from airflow_backfill_provider.core.scan.decimals import digits_of, is_decimal

TEXTS = frozenset({"string", "binary", "date", "timestamp", "timestamp_ntz"})
"""Types that JSON writes as texts."""

INTEGERS = frozenset({"byte", "short", "integer", "long"})

_BACKSLASH = "\\"

_BLANKS = r"[ \t\r\n]*+"

_ESCAPED = r"\\(?:[^u]|u(?![dD][89a-fA-F]))"
"""The beginning of an escape; halves of characters are left to stricter readers."""

_TEXT = rf'"[^"\\]*+(?:{_ESCAPED}[^"\\]*+)*+"'
"""A text. Java matches possessive groups in a loop, so many escapes do not exhaust the stack."""

_PATTERNS = {
    **dict.fromkeys(TEXTS, _TEXT),
    **dict.fromkeys(INTEGERS, "-?[0-9]++"),
    "double": r"(?!-0[ \t\r\n,}])-?[0-9]++(?:[.][0-9]++)?(?:[eE][-+]?[0-9]++)?",  # -0 would lose its sign
    "boolean": "true|false",
}


def is_usual(text: str, read: Mapping[str, str], fields: Sequence[Mapping[str, Any]]) -> str:
    """
    Return the condition that a text is a usual object.

    :param text: the text that was read; its bytes may be no UTF-8.
    :param read: name → what was read of the field.
    :param fields: the fields of the schema; their names consist of letters, digits and ``_``.
    """
    is_matched = f"is_valid_utf8({text}) AND rlike({text}, {text_literal(usual_object(fields))})"
    return f"CASE WHEN {is_written_again(text, read, fields)} THEN true ELSE coalesce({is_matched}, false) END"


def is_written_again(text: str, read: Mapping[str, str], fields: Sequence[Mapping[str, Any]]) -> str:
    """
    Return the condition that an object has all fields of the schema in its order, without blanks and escapes.

    Without escapes, a text ends at the next quote. So if the texts are the same, the reader took each value from its
    place, as it is written there, and nothing else is there.
    """
    parts: list[str] = []
    for number, field in enumerate(fields):
        value = f"CAST({read[field['name']]} AS STRING)"
        shown = f"concat('\"', {value}, '\"')" if field["type"] in TEXTS else value
        before = f'{"," if number else "{"}"{field["name"]}":'
        parts += [text_literal(before), f"coalesce({shown}, 'null')"]
    again = f"concat({', '.join([*parts, text_literal('}')])})"
    return f"({again} = {text} AND NOT contains({text}, {text_literal(_BACKSLASH)}))"


def usual_object(fields: Iterable[Mapping[str, Any]]) -> str:
    """
    Return the pattern of texts that are usual objects.

    Each field has an empty group, which matches with the field. To refer to it fails before, so the pattern knows
    which fields the object had, in any order.

    :param fields: the fields of the schema.
    """
    kinds = {field["name"]: _pattern(field["type"]) for field in fields}
    members = "|".join(f'{name}"(){_BLANKS}:{_BLANKS}(?:{kind}|null)' for name, kind in kinds.items())
    # Java knows the groups of a pattern only behind them, so the name that comes next is looked at.
    again = "|".join(f'{name}"\\{number}' for number, name in enumerate(kinds, 1))
    following = f'(?:,{_BLANKS}(?="(?!{again}))|(?=[}}]))'
    return f'^{_BLANKS}[{{]{_BLANKS}(?:"(?:{members}){_BLANKS}{following})*+[}}]{_BLANKS}\\z'


def _pattern(kind: str) -> str:
    if is_decimal(kind):
        precision, scale = digits_of(kind)
        whole = f"[0-9]{{1,{precision - scale}}}" if precision > scale else "0"
        return f"-?{whole}(?:[.][0-9]{{1,{scale}}})?" if scale else f"-?{whole}"
    return _PATTERNS[kind]
