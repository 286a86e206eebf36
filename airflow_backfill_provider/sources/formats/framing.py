"""What Confluent's serializers write before the body of a record: a zero, and the id of a schema in four bytes."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

NOT_FRAMED = "is not framed by a schema registry"
"""What is wrong with a record that does not begin so."""

HEADER_LENGTH = 5

_MAGIC = "00"
_ID = 2
_ID_LENGTH = 4


def is_framed(record: Column) -> Column:
    """Return whether a record begins with a zero and an id; false if it is null."""
    begins = F.hex(F.substring(record, 1, 1)) == _MAGIC
    return F.coalesce(begins & (F.octet_length(record) >= HEADER_LENGTH), F.lit(False))


def schema_id(record: Column) -> Column:
    """Return the id that a framed record begins with; it is never negative, as the registry's ids are not."""
    return F.conv(F.hex(F.substring(record, _ID, _ID_LENGTH)), 16, 10).cast("bigint")


def body(record: Column) -> Column:
    """Return what follows the id."""
    return record.substr(F.lit(HEADER_LENGTH + 1), F.octet_length(record))
