"""
How many rows of each data file a deletion vector hides, as the log says.

deltalake tells which rows are hidden, for which it reads all of them into memory, and not of every table. Their number
stands in the log, beside each deletion vector.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as arrow_fs
import pyarrow.parquet as pq

_CHECKPOINT = re.compile(r"(?:^|/)(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10})|\.[0-9a-f-]{36})?\.(parquet|json)$")
_ADDED = b'"add"'

Hidden = dict[str, int | None]
"""File → number of its rows that are hidden; ``None`` if the log makes no sense there."""


def hidden_row_counts(files: arrow_fs.FileSystem, version: int) -> Hidden:
    """
    Return how many rows are hidden in each file that has a deletion vector.

    Files that are in the table no more may be among them.

    :param files: file system rooted at the table.
    :param version: the version to look at.
    :raises OSError: if the log cannot be read, or begins later.
    :raises ValueError: if an entry makes no sense.
    """
    checkpoint, paths = _newest_checkpoint(files, version)
    hidden: Hidden = {}
    for path in paths:
        hidden |= dict(_of_checkpoint(files, path))
    # A file's newest entry counts: each change of its deletion vector adds the file again.
    for commit in range(checkpoint + 1, version + 1):
        hidden |= dict(_of_json(files, f"_delta_log/{commit:020d}.json"))
    return {path: rows for path, rows in hidden.items() if rows != 0}


def _newest_checkpoint(files: arrow_fs.FileSystem, version: int) -> tuple[int, list[str]]:
    """Return the newest whole checkpoint up to a version, and its files; -1 if there is none."""
    found: dict[tuple[int, str], list[str]] = {}
    selector = arrow_fs.FileSelector("_delta_log", allow_not_found=True)
    for info in files.get_file_info(selector):
        name = _CHECKPOINT.search(info.path)
        if name and int(name[1]) <= version:
            # Parts of one checkpoint belong together; of several checkpoints of a version any will do.
            found.setdefault((int(name[1]), name[3] or info.path), []).append(info.path)
    whole = [key for key, parts in found.items() if not key[1].isdigit() or len(parts) == int(key[1])]
    if not whole:
        return -1, []
    newest = max(whole)
    return newest[0], found[newest]


def _of_checkpoint(files: arrow_fs.FileSystem, path: str) -> Iterator[tuple[str, int | None]]:
    if path.endswith(".json"):
        yield from _of_json(files, path)
        return
    with files.open_input_file(path) as source:
        names = ["add.path", "add.deletionVector.cardinality", "sidecar.path"]
        actions = pq.ParquetFile(source).read(columns=names)
    if "add" in actions.column_names and pc.any(pc.is_valid(actions.column("add"))).as_py():
        yield from _of_adds(actions.column("add"))
    if "sidecar" in actions.column_names:
        for sidecar in pc.drop_null(pc.struct_field(actions.column("sidecar"), "path")).to_pylist():
            yield from _of_checkpoint(files, f"_delta_log/_sidecars/{sidecar}")


def _of_adds(adds: pa.ChunkedArray) -> Iterator[tuple[str, int | None]]:
    if adds.type.get_field_index("deletionVector") < 0:
        return
    rows = pc.struct_field(adds, ["deletionVector", "cardinality"])
    has_vector = pc.is_valid(rows)
    paths = pc.struct_field(adds, "path").filter(has_vector)
    for path, count in zip(paths.to_pylist(), rows.filter(has_vector).to_pylist(), strict=True):
        yield unquote(path), _checked(count)


def _of_json(files: arrow_fs.FileSystem, path: str) -> Iterator[tuple[str, int | None]]:
    with files.open_input_file(path) as source:
        lines = source.read().split(b"\n")
    for line in lines:
        action: dict[str, Any] = json.loads(line) if _ADDED in line or b'"sidecar"' in line else {}
        if added := action.get("add"):
            vector = added.get("deletionVector")
            yield unquote(added["path"]), _checked(vector.get("cardinality")) if vector else 0
        if sidecar := action.get("sidecar"):
            yield from _of_checkpoint(files, f"_delta_log/_sidecars/{sidecar['path']}")


def _checked(count: object) -> int | None:
    return count if isinstance(count, int) and count >= 0 else None
