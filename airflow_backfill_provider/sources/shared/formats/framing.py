"""
What Confluent's serializers write before the body of a record: a zero, and the id of a schema in four bytes.

The functions take and return expressions of Spark SQL as text; see :mod:`.spark`.
"""

from __future__ import annotations

NOT_FRAMED = "is not framed by a schema registry"
"""What is wrong with a record that does not begin so."""

HEADER_LENGTH = 5

_MAGIC = "00"
_ID = 2
_ID_LENGTH = 4


def is_framed(record: str) -> str:
    """Return whether a record begins with a zero and an id; false if it is null."""
    return f"coalesce(hex(substring({record}, 1, 1)) = '{_MAGIC}' AND octet_length({record}) >= {HEADER_LENGTH}, false)"


def schema_id(record: str) -> str:
    """Return the id that a framed record begins with; it is never negative, as the registry's ids are not."""
    return f"CAST(conv(hex(substring({record}, {_ID}, {_ID_LENGTH})), 16, 10) AS BIGINT)"


def body(record: str) -> str:
    """Return what follows the id."""
    return f"substring({record}, {HEADER_LENGTH + 1})"
