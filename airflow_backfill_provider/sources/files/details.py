"""What the file log has about a file beside its size: what its path says, and what tells whether it was moved."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from airflow_backfill_provider.core.errors import UpstreamError

_PARTITION = "="
"""The prefix of the names of columns in the details."""

_DIGEST, _HAS_ALL, _EMPTY = "digest", "has_all", "empty"

_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDetails:
    """
    Details of a file.

    :param partitions: column → its value as a text, for columns whose values are in the file's path.
    :param digest: of its content; empty as long as it was not read.
    :param has_all: whether the file has these columns, too.
    :param empty: columns that have no value and no type in the file.
    """

    partitions: Mapping[str, str | None] = field(default_factory=dict)
    digest: str = ""
    has_all: bool = False
    empty: tuple[str, ...] = ()

    @property
    def layout(self) -> tuple[object, ...]:
        """What files must have in common to be read together: the columns in their paths, and those in the files."""
        return tuple(self.partitions), self.has_all, self.empty

    def to_text(self) -> str:
        """Return the details for the file log."""
        known = {_DIGEST: self.digest, _HAS_ALL: "true" if self.has_all else "", _EMPTY: json.dumps(self.empty)}
        return json.dumps({**known, **{_PARTITION + name: value for name, value in self.partitions.items()}})

    @classmethod
    def from_text(cls, text: str) -> FileDetails:
        """Return the details from the file log."""
        known = json.loads(text)
        return cls(
            partitions={name[1:]: value for name, value in known.items() if name.startswith(_PARTITION)},
            digest=known[_DIGEST],
            has_all=bool(known[_HAS_ALL]),
            empty=tuple(json.loads(known[_EMPTY])),
        )


def partition_field(column: str) -> str:
    """Return the name of a column's value in the details' text."""
    return _PARTITION + column


def partitions_of(path: str, columns: Sequence[str], where: str) -> dict[str, str | None]:
    """
    Return the values of columns that a path has in the names of its folders, as Hive writes them: ``year=2024``.

    :param columns: the names of the columns; Spark ignores their case.
    :raises UpstreamError: if two folders have different values of a column.
    """
    known = {name.lower(): name for name in columns}
    found: dict[str, str | None] = {}
    for folder in path.split("/")[:-1]:
        name, separator, text = folder.partition("=")
        column = known.get(unquote(name).lower()) if separator else None
        if column is None:
            continue
        value = None if text == _HIVE_NULL else unquote(text)
        if found.setdefault(column, value) != value:
            raise UpstreamError(f"{where}: two folders have different values of column {column}; move the file")
    return found
