"""
Names of the columns that this package adds beside the users' columns.

Users may choose any column names, including this package's. So this package chooses its names for each job: they begin
with more underscores than any of the job's columns, and never clash. Spark and Delta ignore case, and underscores have
no case.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

CHANGE_FEED_COLUMNS = frozenset({"_change_type", "_commit_version", "_commit_timestamp"})
"""Columns that Delta's change data feed adds. Delta cannot read the feed of a table with such a column."""

MERGE_COLUMNS = frozenset(
    {
        "_source_row_present_",
        "_target_row_present_",
        "_row_dropped_",
        "_row_id_",
        "_file_name_",
        "_tmp_metadata_row_index",
        "__delta_internal_is_row_deleted",
    }
)
"""Columns that Delta adds to a table's columns during a merge. A merge into a table with such a column fails."""

DELETION_VECTOR_COLUMNS = frozenset({"filepath", "rowindexcol", "deletionvectorid", "_metadata"})
"""Columns that a merge also adds if the table has deletion vectors."""

_SHORTEST = "__"


@dataclass(frozen=True, slots=True)
class OwnColumns:
    """
    This package's column names for one set of users' columns.

    :param prefix: underscores; no user's column name begins with as many.
    """

    prefix: str = _SHORTEST

    def named(self, name: str) -> str:
        """Return the name of a column that only one module uses."""
        return self.prefix + name

    def numbered(self, name: str, count: int) -> list[str]:
        """Return the names of several columns that only one module uses."""
        return [f"{self.prefix}{name}_{number}" for number in range(count)]

    @property
    def vnode(self) -> str:
        """The row's vnode."""
        return self.named("vnode")

    @property
    def epoch(self) -> str:
        """The epoch that appended the row to the arrangement."""
        return self.named("epoch")

    @property
    def is_upsert(self) -> str:
        """For a net change: whether the key has a row after it."""
        return self.named("is_upsert")

    @property
    def appeared(self) -> str:
        """For a net change: whether the key had no row before it."""
        return self.named("appeared")


def own_columns(names: Iterable[str]) -> OwnColumns:
    """
    Return this package's column names for some users' columns: with two leading underscores, or more if needed.

    Every reader and writer of a table must choose the same names. So for a stored table, pass the column names that
    were recorded when the job was created.

    :param names: all users' columns in the same table.
    """
    most = max((len(name) - len(name.lstrip("_")) for name in names), default=0)
    return OwnColumns("_" * max(most + 1, len(_SHORTEST)))


def names_within(types: Mapping[str, str]) -> frozenset[str]:
    """
    Return the names of some columns and of all fields nested in them.

    :param types: columns and their types, as Delta writes them.
    """
    fields = (name for kind in types.values() if kind.startswith("{") for name in _fields(json.loads(kind)))
    return frozenset({*types, *fields})


def _fields(kind: Any) -> Iterator[str]:
    if not isinstance(kind, dict):
        return
    for field in kind.get("fields", ()):
        yield field["name"]
        yield from _fields(field["type"])
    for part in ("elementType", "keyType", "valueType"):
        yield from _fields(kind.get(part))
