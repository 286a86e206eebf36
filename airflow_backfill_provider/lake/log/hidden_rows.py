"""
The number of rows of each data file that a deletion vector hides, from the log.

deltalake returns which rows are hidden, but it loads all deletion vectors into memory, and it does not support every
table. The log has the number of hidden rows in the entry of each deletion vector.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from airflow_backfill_provider.lake.log.delta_log import DeltaLog
from airflow_backfill_provider.lake.stored_parquet import StoredParquet

_ADDED = b'"add"'

Hidden = dict[str, int | None]
"""File → number of its hidden rows; ``None`` if the log's entry is invalid."""


def hidden_row_counts(log: DeltaLog, version: int) -> Hidden:
    """
    Return the number of hidden rows of each file with a deletion vector.

    The result may contain files that are no longer in the table.

    :param log: the table's log.
    :param version: the version to read.
    :raises OSError: if the log cannot be read, or begins after the version.
    :raises ValueError: if an entry is invalid.
    """
    checkpoint, paths = log.files().newest_checkpoint(version)
    hidden: Hidden = {}
    for path in paths:
        hidden |= dict(_of_checkpoint(log, path))
    # The newest entry of a file counts: each change of its deletion vector adds the file again.
    for commit in range(checkpoint + 1, version + 1):
        hidden |= dict(_of_lines(log, log.lines(commit)))
    return {path: rows for path, rows in hidden.items() if rows != 0}


def _of_checkpoint(log: DeltaLog, path: str) -> Iterator[tuple[str, int | None]]:
    if path.endswith(".json"):
        yield from _of_lines(log, log.content(path).split(b"\n"))
        return
    with log.storage.open_input_file(path) as source:
        names = ["add.path", "add.deletionVector.cardinality", "sidecar.path"]
        actions = StoredParquet(source).read(names)
    if "add" in actions.column_names and pc.any(pc.is_valid(actions.column("add"))).as_py():
        yield from _of_adds(actions.column("add"))
    if "sidecar" in actions.column_names:
        for sidecar in pc.drop_null(pc.struct_field(actions.column("sidecar"), "path")).to_pylist():
            yield from _of_checkpoint(log, f"_delta_log/_sidecars/{sidecar}")


def _of_adds(adds: pa.ChunkedArray) -> Iterator[tuple[str, int | None]]:
    if adds.type.get_field_index("deletionVector") < 0:
        return
    rows = pc.struct_field(adds, ["deletionVector", "cardinality"])
    has_vector = pc.is_valid(rows)
    paths = pc.struct_field(adds, "path").filter(has_vector)
    for path, count in zip(paths.to_pylist(), rows.filter(has_vector).to_pylist(), strict=True):
        yield unquote(path), _checked(count)


def _of_lines(log: DeltaLog, lines: Iterable[bytes]) -> Iterator[tuple[str, int | None]]:
    for line in lines:
        action: dict[str, Any] = json.loads(line) if _ADDED in line or b'"sidecar"' in line else {}
        if added := action.get("add"):
            vector = added.get("deletionVector")
            yield unquote(added["path"]), _checked(vector.get("cardinality")) if vector else 0
        if sidecar := action.get("sidecar"):
            yield from _of_checkpoint(log, f"_delta_log/_sidecars/{sidecar['path']}")


def _checked(count: object) -> int | None:
    return count if isinstance(count, int) and count >= 0 else None
