"""Deletion vectors, written into a Delta log without a JVM."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from tests.builders import commit_file

FEATURES = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["deletionVectors"],
    "writerFeatures": ["deletionVectors", "changeDataFeed"],
}
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
"""Of base 85, as ZeroMQ writes it."""


def actions_of(path: str | Path, version: int) -> list[dict[str, Any]]:
    """Return what a commit does."""
    return [json.loads(line) for line in commit_file(path, version).read_text().splitlines()]


def write_actions(path: str | Path, version: int, *actions: dict[str, Any]) -> None:
    """Write a commit."""
    commit_file(path, version).write_text("".join(json.dumps(action) + "\n" for action in actions))


def added_in(path: str | Path, version: int) -> dict[str, Any]:
    """Return the first file that a commit adds."""
    return next(action["add"] for action in actions_of(path, version) if "add" in action)


def hide(path: str | Path, added: dict[str, Any], rows: Iterable[int], **vector: Any) -> dict[str, Any]:
    """
    Commit a deletion vector that hides some rows of a file, as Delta writes a small one: inside of the log.

    :param added: the file as it was added last.
    :param rows: numbers of rows in the file.
    :param vector: fields of it that say something else.
    :returns: the file as it is added now.
    """
    rows = sorted(rows)
    positions = b"".join(struct.pack("<H", row) for row in rows)
    bitmap = struct.pack("<IQIIIHHI", 1681511377, 1, 0, 12346, 1, 0, len(rows) - 1, 16) + positions
    padded = bitmap + b"\0" * (-len(bitmap) % 4)
    numbers = [int.from_bytes(padded[start : start + 4], "big") for start in range(0, len(padded), 4)]
    text = "".join(DIGITS[number // 85**power % 85] for number in numbers for power in (4, 3, 2, 1, 0))
    hidden = {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(bitmap), "cardinality": len(rows)}
    changed = {**added, "deletionVector": {**hidden, **vector}}
    write_actions(path, DeltaTable(path).version() + 1, {"protocol": FEATURES}, removed(added), {"add": changed})
    return changed


def removed(added: dict[str, Any]) -> dict[str, Any]:
    """Return the action that removes a file as it was added."""
    old = {name: added[name] for name in ("path", "deletionVector") if name in added}
    return {"remove": {**old, "deletionTimestamp": 1, "dataChange": True}}
