"""
Commits that rewrite rows and give them another value of a partition column, but record no change of them.

The value of a partition column is a text in the log, and a writer may read it differently from the writer before. For
example, a timestamp without a zone means another instant to a session in another zone. If such a session compacts the
table, the rows get another value, and the change data feed has no change of them. The same holds for the rows that an
UPDATE, MERGE or DELETE only copies from one file into another, beside the rows that it changes.
"""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Any

Entry = Mapping[str, Any]
Values = tuple[object, ...]

CHAR = "char"
"""The type of a column of type CHAR(n), which Delta calls a string."""

_CHANGES = "cdc"
_GOING = ("delete", "update_preimage")
_COMING = ("insert", "update_postimage")
_ZONED = "timestamp"

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
    files: Sequence[tuple[str, Entry]],
    types: Mapping[str, str],
    entries_before: Callable[[], Mapping[str, Entry]],
    kinds_of_changes: Callable[[Entry], Counter[str]],
) -> bool:
    """
    Return whether a commit gives rows other values, and records no change of them.

    :param files: the commit's files, each with its kind: ``add``, ``remove``, or ``cdc`` for a file of changes.
    :param types: partition column, by its name in the log → its type, as Delta writes it, or ``char``.
    :param entries_before: returns path → entry of the files before the commit; called if an entry lacks something.
    :param kinds_of_changes: returns how many rows of each kind a file of changes has; called for files of a commit that
        may move values, but not for all.
    """
    log = _Log(files, types, entries_before)
    rewritten = [(kind, entry) for kind, entry in files if kind != _CHANGES and not entry.get("dataChange", True)]
    if {kind for kind, _ in rewritten} == {"add", "remove"} and _differ(*log.rows(rewritten)):
        return True
    changes = [entry for kind, entry in files if kind == _CHANGES]
    return bool(changes) and log.has_vague_times() and _moves_beside(log, changes, kinds_of_changes)


class _Log:
    """
    A commit's entries of files, and what they mean.

    The parameters are those of :func:`moves_values`.
    """

    def __init__(
        self,
        files: Sequence[tuple[str, Entry]],
        types: Mapping[str, str],
        entries_before: Callable[[], Mapping[str, Entry]],
    ) -> None:
        self.files = [(kind, entry) for kind, entry in files if kind != _CHANGES]
        self._types = types
        self._entries_before = entries_before

    @cached_property
    def _before(self) -> Mapping[str, Entry]:
        return self._entries_before()

    def rows(self, files: Iterable[tuple[str, Entry]]) -> tuple[_Rows, _Rows]:
        """Return the rows by values in removed files, and in added ones."""
        found = {"remove": _Rows(), "add": _Rows()}
        for kind, entry in files:
            found[kind].add(self.values(entry), _live_rows(entry))
        return found["remove"], found["add"]

    def values(self, entry: Entry) -> Values:
        """Return the values of a file's partition columns."""
        texts = self._texts(entry)
        return tuple(partition_value(texts.get(name), type_) for name, type_ in self._types.items())

    def has_vague_times(self) -> bool:
        """Return whether a file has a time without a zone, which sessions in several zones read in several ways."""
        times = [name for name, type_ in self._types.items() if type_ == _ZONED]
        return any(_is_vague(self._texts(entry).get(name)) for name in times for _, entry in self.files)

    def _texts(self, entry: Entry) -> Mapping[str, str | None]:
        texts = entry.get("partitionValues")
        if texts is None:
            texts = self._before.get(str(entry.get("path")), {}).get("partitionValues")
        return texts or {}


def _moves_beside(log: _Log, changes: Sequence[Entry], kinds_of_changes: Callable[[Entry], Counter[str]]) -> bool:
    """Return whether the rows by value changed by more or less than the recorded changes of rows."""
    before, after = log.rows(log.files)
    gone, come = _Rows(), _Rows()
    for entry in changes:
        kinds = kinds_of_changes(entry)
        gone.add(log.values(entry), sum(kinds[kind] for kind in _GOING))
        come.add(log.values(entry), sum(kinds[kind] for kind in _COMING))
    if before.uncounted or after.uncounted:
        # Rows may have moved within the values that stay; numbers would tell, but there are none.
        has_new = after.values() - before.values() - come.values()
        return bool(has_new or before.values() - after.values() - gone.values())
    everywhere = {*before.counts, *after.counts, *gone.counts, *come.counts}
    differences = {
        values: after.counts[values] - before.counts[values] - come.counts[values] + gone.counts[values]
        for values in everywhere
    }
    # Numbers of rows with another sum are wrong, so they prove nothing.
    return not sum(differences.values()) and any(differences.values())


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


def _is_vague(text: str | None) -> bool:
    if not text:
        return False
    read = _parsed(text)
    return read is None or read.tzinfo is None


def _parsed(text: str) -> dt.datetime | None:
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        return None


def _instant(text: str) -> object:
    read = _parsed(text)
    if read is None:
        return text
    # Epochs read a timestamp without a zone in UTC.
    return (read if read.tzinfo else read.replace(tzinfo=dt.UTC)) - _EPOCH


def _number(text: str) -> str:
    try:
        return str(Decimal(text).normalize())
    except InvalidOperation:
        return text
