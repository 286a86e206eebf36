"""Unusual names of columns, and names that this package uses itself."""

from __future__ import annotations

import random

PLAIN = ("id", "name", "amount", "Status", "createdAt", "UPPER", "_x", "x1", "größe", "col_7")
"""Names that every writer accepts."""

OURS = (
    *("__vnode", "__epoch", "__is_upsert", "__appeared", "__is_last", "__first_version", "__key_appeared"),
    *(
        "__has_double",
        "__is_double",
        "__key_is_new",
        "__changed_0",
        "__changed_1",
        "__row_vnode",
        "__key_id",
        "__key_x",
    ),
    *("__rows", "__hash", "__side", "__checksum", "__count", "_change_type", "_commit_version", "_commit_timestamp"),
    *(
        "_metadata",
        "vnode",
        "epoch",
        "position",
        "__VNODE",
        "__Changed_0",
        "expected",
        "found",
        "target",
        "source",
        "rows",
    ),
)
"""Names of columns that this package makes or could make."""

RESERVED = (
    *("select", "from", "where", "upstream", "table", "order", "group", "null", "true", "and", "case", "end", "as"),
    *("current_date", "user", "timestamp", "date", "interval", "array", "struct", "values", "default", "time", "count"),
)

UNICODE = (
    *("e\u0301", "\u00e9", "İ", "ı", "ß", "ẞ", "中文", "🙂", "\U00010348x", "ﬁ", "Ω", "\u2126", "אב", "a\u200bb"),
    "n" * 200,
    "ünï" * 70,
)

MAPPED = (
    *("a b", "a,b", "a;b", "{a}", "(a)", "a=b", "a\tb", " a", "a ", "order by", "x{rows}", "${x}", "a\nb"),
    *("{upstream}", "SELECT 1 --", "/* a */"),
)
"""Names that Delta allows only under column mapping."""

QUOTED = (
    "a.b",
    "a.b.c",
    ".",
    "a`b",
    "`",
    "a'b",
    'a"b',
    "a--b",
    "a/b",
    "1a",
    "0",
    "-",
    "*",
    "a*",
    "%s",
    "a\\b",
    "?",
    ":x",
    "@a",
    "#",
)
"""Names that need quotes and that every writer accepts."""

_CHANCES = ((PLAIN, 12), (OURS, 4), (RESERVED, 3), (UNICODE, 3), (QUOTED, 4))


_OF_THE_FEED = frozenset({"_change_type", "_commit_version", "_commit_timestamp"})
"""Names that Spark refuses in a table with a change data feed, but other writers accept."""


def some_names(random: random.Random, count: int, *, mapped: bool, of_spark: bool) -> list[str]:
    """
    Return names that differ even without regard to case.

    :param of_spark: whether Spark makes the table.
    :param mapped: whether to include names that need column mapping.
    """
    pools, weights = zip(*(*_CHANCES, *(((MAPPED, 5),) if mapped else ())), strict=True)
    found: dict[str, str] = {}
    while len(found) < count:
        name = random.choice(random.choices(pools, weights)[0])
        if of_spark and name in _OF_THE_FEED:
            continue
        if name.lower() not in found and name.casefold() not in map(str.casefold, found.values()):
            found[name.lower()] = name
    return list(found.values())
