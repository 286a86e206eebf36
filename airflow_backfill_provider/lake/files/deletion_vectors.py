"""Where a table keeps its deletion vectors, as an entry of its log describes it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

_NAMED_UUID = "u"
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_UUID_DIGITS = 20


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
    return "/".join(part for part in (folder, f"deletion_vector_{name}.bin") if part)


def _z85_decoded(text: str) -> bytes:
    """Decode Z85, in which the log writes the id of a file of deletion vectors."""
    decoded = b""
    for start in range(0, len(text), 5):
        value = 0
        for digit in text[start : start + 5]:
            value = value * 85 + _DIGITS.index(digit)
        decoded += value.to_bytes(4, "big")
    return decoded
