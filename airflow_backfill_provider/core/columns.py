"""
Names of the columns that this package puts beside those of users.

Users may call their columns anything, also what this package calls its own. So its names are chosen for each job:
they begin with more underscores than any name beside them does, and never clash. Spark and Delta don't distinguish
upper and lower case, and underscores have neither.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

OF_CHANGE_FEED = frozenset({"_change_type", "_commit_version", "_commit_timestamp"})
"""Columns that Delta's change data feed adds; it cannot read the feed of a table with such a column."""

OF_DELTAS_WRITES = frozenset(
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
"""Columns that Delta puts beside those of a table while it merges into it; it fails where one has such a name."""

OF_DELETION_VECTORS = frozenset({"filepath", "rowindexcol", "deletionvectorid", "_metadata"})
"""Columns that it also puts there if the table has deletion vectors."""

_SHORTEST = "__"


@dataclass(frozen=True, slots=True)
class OwnColumns:
    """
    This package's names beside some columns of users.

    :param prefix: underscores that none of the users' names begins with.
    """

    prefix: str = _SHORTEST

    def named(self, name: str) -> str:
        """Return the name of a column that only one module knows."""
        return self.prefix + name

    def numbered(self, name: str, count: int) -> list[str]:
        """Return the names of several columns that only one module knows."""
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
        """Of a net change: whether the key has a row afterwards."""
        return self.named("is_upsert")

    @property
    def appeared(self) -> str:
        """Of a net change: whether the key had no row before."""
        return self.named("appeared")


def own_columns(names: Iterable[str]) -> OwnColumns:
    """
    Return the package's names beside some columns: with two underscores, or with as many more as it takes.

    Everybody who reads or writes a table has to choose the same ones. So of a stored table, the names are those that
    were recorded when the job was created.

    :param names: all users' columns that stand beside ours.
    """
    most = max((len(name) - len(name.lstrip("_")) for name in names), default=0)
    return OwnColumns("_" * max(most + 1, len(_SHORTEST)))


def names_within(types: Mapping[str, str]) -> frozenset[str]:
    """
    Return the names of some columns, and of all fields inside of them.

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
