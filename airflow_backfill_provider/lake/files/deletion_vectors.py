"""Deletion vectors: which rows of a data file a table hides, as an entry of its log describes it, and their files."""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from airflow_backfill_provider.lake.files import roaring

_NAMED_UUID, _IN_THE_LOG = "u", "i"
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_UUID_DIGITS = 20
_MOST_HIDDEN = 1_000_000
"""The most hidden rows of a file that are read into memory."""

_FORMAT = b"\x01"
"""The first byte of a file of deletion vectors."""


def vector_file(vector: Mapping[str, Any]) -> str | None:
    """
    Return the path of a deletion vector's file, relative to the table.

    :param vector: the description of the vector in the log.
    :returns: ``None`` if the vector is in the log itself, or in a file outside of the table.
    """
    if vector["storageType"] != _NAMED_UUID:
        return None
    text = vector["pathOrInlineDv"]
    folder, name = text[:-_UUID_DIGITS], uuid.UUID(bytes=_z85_decoded(text[-_UUID_DIGITS:]))
    return "/".join(part for part in (folder, _file_of(name)) if part)


def hidden_rows(table: Path, vector: Mapping[str, Any]) -> set[int]:
    """
    Return the numbers of the rows that a local table hides of a data file.

    :param vector: the description of the vector in the log.
    :raises ValueError: if it cannot be read.
    :raises OSError: likewise.
    """
    if vector["storageType"] == _IN_THE_LOG:
        found = roaring.decoded(_z85_decoded(vector["pathOrInlineDv"])[: vector["sizeInBytes"]])
    else:
        found = roaring.decoded(_stored(table, vector))
    if len(found) != vector["cardinality"]:
        raise ValueError(f"a deletion vector has {len(found)} rows, and the log says {vector['cardinality']}")
    return found


def few_hidden_rows(table: Path, entry: Mapping[str, Any]) -> set[int]:
    """
    Return the numbers of the rows that a local table hides of a data file, if they are few.

    :param entry: the file's entry in the log.
    :raises ValueError: if they are many, or cannot be read.
    :raises OSError: if they cannot be read.
    """
    vector = entry.get("deletionVector")
    if not vector:
        return set()
    if vector["cardinality"] > _MOST_HIDDEN:
        raise ValueError(f"a deletion vector of {vector['cardinality']} rows is not read into memory")
    return hidden_rows(table, vector)


def _stored(table: Path, vector: Mapping[str, Any]) -> bytes:
    name = vector_file(vector)
    if name is None:
        raise ValueError("a deletion vector lies outside of its table")
    begin = vector.get("offset") or 0
    with (table / name).open("rb") as file:
        file.seek(begin)
        (size,) = struct.unpack(">i", file.read(4))
        content = file.read(size)
        checksum = file.read(4)
    if size != vector["sizeInBytes"] or checksum != _checksum(content):
        raise ValueError(f"the deletion vector at {begin} of {name} is damaged")
    return content


def write_hidden_rows(table: Path, rows: Mapping[str, Iterable[int]]) -> tuple[Path, dict[str, dict[str, Any]]]:
    """
    Write the deletion vectors of some data files of a local table into one new file.

    :param rows: data file → the numbers of all of its rows that are hidden.
    :returns: the new file, and the descriptions of the vectors for the log.
    """
    name, content = uuid.uuid4(), bytearray(_FORMAT)
    described = {}
    for file, numbers in rows.items():
        found = set(numbers)
        vector = roaring.encoded(found)
        described[file] = {
            "storageType": _NAMED_UUID,
            "pathOrInlineDv": _z85_encoded(name.bytes),
            "offset": len(content),
            "sizeInBytes": len(vector),
            "cardinality": len(found),
        }
        content += struct.pack(">i", len(vector)) + vector + _checksum(vector)
    written = table / _file_of(name)
    written.write_bytes(content)
    return written, described


def _file_of(name: uuid.UUID) -> str:
    return f"deletion_vector_{name}.bin"


def _checksum(content: bytes) -> bytes:
    return struct.pack(">I", zlib.crc32(content))


def _z85_decoded(text: str) -> bytes:
    """Decode Z85, in which the log writes the id of a file of deletion vectors, and short vectors."""
    decoded = bytearray()
    for start in range(0, len(text), 5):
        value = 0
        for digit in text[start : start + 5]:
            value = value * 85 + _DIGITS.index(digit)
        decoded += value.to_bytes(4, "big")
    return bytes(decoded)


def _z85_encoded(content: bytes) -> str:
    """Encode bytes, of which there are a multiple of four, in Z85."""
    digits = []
    for start in range(0, len(content), 4):
        value = int.from_bytes(content[start : start + 4], "big")
        digits += [_DIGITS[value // 85**power % 85] for power in (4, 3, 2, 1, 0)]
    return "".join(digits)
