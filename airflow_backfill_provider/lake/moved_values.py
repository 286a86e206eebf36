"""
Commits that rewrite rows and record no change, but give the rows another value of a partition column.

The value of a partition column is a text in the log, and a writer may read it differently from the writer before. For
example, a timestamp without a zone means another instant to a session in another zone. If such a session compacts the
table, the rows get another value, and the change data feed has no change of them.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

Entry = Mapping[str, Any]
Values = tuple[object, ...]

CHAR = "char"
"""The type of a column of type CHAR(n), which Delta calls a string."""

_EPOCH = dt.datetime.fromtimestamp(0, dt.UTC)
_TIMES = {"timestamp", "timestamp_ntz"}
_PLAIN = {"string", "date", "binary"}
"""Types whose values have one text each."""


@dataclass(slots=True)
class _Rows:
    """
    Files by the values of their partition columns.

    :param counts: values → the number of rows in files with a known number.
    :param uncounted: values of files with an unknown number of rows.
    """

    counts: Counter[Values] = field(default_factory=Counter)
    uncounted: set[Values] = field(default_factory=set)

    def add(self, values: Values, rows: int | None) -> None:
        """Add a file."""
        if rows is None:
            self.uncounted.add(values)
        elif rows:
            self.counts[values] += rows

    def values(self) -> set[Values]:
        """Return the values that rows have, or may have."""
        return {*self.counts, *self.uncounted}


def moves_values(
    actions: Iterable[Mapping[str, Entry]], types: Mapping[str, str], entries_before: Callable[[], Mapping[str, Entry]]
) -> bool:
    """
    Return whether a commit rewrites rows without a change, and gives some of them other values.

    :param actions: the commit's entries.
    :param types: partition column, by its name in the log → its type, as Delta writes it, or ``char``.
    :param entries_before: returns path → entry of the files before the commit; called if an entry lacks its values.
    """
    rewritten = [
        (kind, entry)
        for action in actions
        for kind, entry in action.items()
        if kind in {"add", "remove"} and not entry.get("dataChange", True)
    ]
    if {kind for kind, _ in rewritten} != {"add", "remove"}:
        return False
    lacking = any(entry.get("partitionValues") is None for _, entry in rewritten)
    known = entries_before() if lacking else {}
    found = {"add": _Rows(), "remove": _Rows()}
    for kind, entry in rewritten:
        texts = entry.get("partitionValues")
        if texts is None:
            texts = known.get(str(entry.get("path")), {}).get("partitionValues") or {}
        values = tuple(partition_value(texts.get(name), type_) for name, type_ in types.items())
        found[kind].add(values, _live_rows(entry))
    return _differ(found["remove"], found["add"])


def _differ(before: _Rows, after: _Rows) -> bool:
    if before.values() != after.values():
        return True
    # The same values may have swapped rows. Numbers of rows with another sum are wrong, so they prove nothing.
    is_known = not (before.uncounted or after.uncounted) and before.counts.total() == after.counts.total()
    return is_known and before.counts != after.counts


def _live_rows(entry: Entry) -> int | None:
    """Return the number of a file's rows that a reader finds; ``None`` if the log does not tell."""
    try:
        stored = json.loads(entry.get("stats") or "{}").get("numRecords")
    except (ValueError, AttributeError):
        return None
    hidden = (entry.get("deletionVector") or {}).get("cardinality", 0)
    return stored - hidden if isinstance(stored, int) and isinstance(hidden, int) else None


def partition_value(text: str | None, type_: str) -> object:
    """
    Return what a text in the log means, so that two texts for one value are equal.

    :param text: the text; the empty one is null, for every type but CHAR(n).
    :param type_: the column's type, as Delta writes it, or ``char``.
    """
    if type_ == CHAR and text is not None:
        # Delta's scan pads it, so a compaction writes blanks.
        return text.rstrip(" ")
    if not text:
        return None
    if type_ == "boolean":
        return text.lower()
    if type_ in _TIMES:
        return _instant(text)
    return text if type_ in _PLAIN else _number(text)


def _instant(text: str) -> object:
    try:
        read = dt.datetime.fromisoformat(text)
    except ValueError:
        return text
    # Epochs read a timestamp without a zone in UTC.
    return (read if read.tzinfo else read.replace(tzinfo=dt.UTC)) - _EPOCH


def _number(text: str) -> str:
    try:
        return str(Decimal(text).normalize())
    except InvalidOperation:
        return text
