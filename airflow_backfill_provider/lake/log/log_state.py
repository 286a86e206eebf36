"""
A version of a Delta table as its log has it: the entries of its files, its protocol and its metadata, unparsed.

deltalake returns the files without their deletion vectors. Whoever writes a log that refers to the same files needs the
entries as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.stored_parquet import StoredParquet

_OF_FILE = ("path", "partitionValues", "size", "modificationTime", "deletionVector")
"""The fields of a file's entry that reading it needs; statistics, for example, do not matter."""

WITH_STATISTICS = (*_OF_FILE, "stats", "clusteringProvider")
"""The fields of a file's entry that a new entry of the same file needs."""

Action = dict[str, Any]


def partition_values(entry: Mapping[str, Any]) -> dict[str, str | None]:
    """
    Return the partition values in a file's entry, with null in place of an empty text.

    In Delta's log both are one value. Spark reads an empty text as a text, until it rewrites the file with null.
    """
    return {name: value or None for name, value in dict(entry.get("partitionValues") or {}).items()}


@dataclass(slots=True)
class LogState:
    """
    A version of a table.

    :param files: path, as the log has it → the file's entry.
    :param protocol: the newest entry of the protocol; empty if the log has none.
    :param metadata: the newest entry of the metadata; empty if the log has none.
    :param fields: the fields of a file's entry to keep.
    """

    files: dict[str, Action] = field(default_factory=dict)
    protocol: Action = field(default_factory=dict)
    metadata: Action = field(default_factory=dict)
    fields: Sequence[str] = _OF_FILE

    def apply(self, actions: Iterable[Mapping[str, Any]]) -> None:
        """Apply the entries of one commit, or of a checkpoint."""
        added: dict[str, Action] = {}
        for action in actions:
            if removed := action.get("remove"):
                self.files.pop(removed["path"], None)
            if file := action.get("add"):
                added[file["path"]] = {name: file[name] for name in self.fields if file.get(name) is not None}
            self.protocol = action.get("protocol") or self.protocol
            self.metadata = action.get("metaData") or self.metadata
        # A commit that changes a deletion vector removes the file and adds it again, in any order.
        self.files |= added


def log_state(log: DeltaLog, version: int, fields: Sequence[str] = _OF_FILE) -> LogState:
    """
    Read a version of a table from its log.

    :param log: the table's log.
    :param fields: the fields of a file's entry to return.
    :raises OSError: if the log cannot be read, or begins after the version.
    :raises ValueError: if an entry is invalid.
    """
    state = LogState(fields=fields)
    checkpoint, paths = log.files().newest_checkpoint(version)
    for path in paths:
        state.apply(_of_checkpoint(log, path, fields))
    for commit in range(checkpoint + 1, version + 1):
        state.apply(_of_lines(log.lines(commit)))
    return state


def _of_checkpoint(log: DeltaLog, path: str, fields: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    if path.endswith(".json"):
        actions: Iterable[Mapping[str, Any]] = _of_lines(log.content(path).split(b"\n"))
    else:
        actions = _of_parquet(log, path, fields)
    for action in actions:
        yield action
        if sidecar := action.get("sidecar"):
            yield from _of_parquet(log, f"_delta_log/_sidecars/{sidecar['path']}", fields)


def _of_lines(lines: Iterable[bytes]) -> Iterator[Mapping[str, Any]]:
    return (json.loads(line) for line in lines if line.strip())


def _of_parquet(log: DeltaLog, path: str, fields: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    with log.storage.open_input_file(path) as source:
        wanted = [f"add.{name}" for name in fields]
        rows = StoredParquet(source).read([*wanted, "protocol", "metaData", "sidecar.path"])
    for kind in rows.column_names:
        column = rows.column(kind)
        for value in column.filter(pc.is_valid(column)).to_pylist():
            yield {kind: _without_maps(value)}


def _without_maps(value: Any) -> Any:
    """Return a value with dicts in place of Arrow's lists of pairs, and without empty fields."""
    if isinstance(value, dict):
        return {name: _without_maps(part) for name, part in value.items() if part is not None}
    if isinstance(value, list) and value and all(isinstance(pair, tuple) for pair in value):
        return dict(value)
    return value
