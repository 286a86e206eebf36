"""
The types of PostgreSQL's columns, as columns of a Delta table.

Every value comes as text, from a snapshot as well as from the log, so that one conversion serves both. A type is either
converted exactly or refused by its name. A value that a Delta type cannot hold, such as ``infinity`` in a date, fails
the epoch; such a column can be read as text instead.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

_MOST_DIGITS = 38
"""The most digits of a decimal in Spark and Delta."""

_NUMERIC, _ENUM, _BASE = "numeric", "e", "b"
_MODIFIER_OFFSET = 4
"""PostgreSQL adds the size of a header to the type modifier of a numeric."""

_NEGATIVE_SCALE, _SCALE_BITS = 0x400, 0x7FF

EXACT = {
    "int2": "short",
    "int4": "integer",
    "int8": "long",
    "oid": "long",
    "float4": "float",
    "float8": "double",
    "bool": "boolean",
    "date": "date",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
    "bytea": "binary",
    "text": "string",
    "varchar": "string",
    "bpchar": "string",
    "name": "string",
    "char": "string",
    "uuid": "string",
    "json": "string",
    "jsonb": "string",
    "xml": "string",
    "time": "string",
    "timetz": "string",
    "interval": "string",
    "inet": "string",
    "cidr": "string",
    "macaddr": "string",
    "macaddr8": "string",
    "bit": "string",
    "varbit": "string",
}
"""PostgreSQL's built-in types → Delta's; types without a counterpart become their text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresType:
    """
    The type of a column, as PostgreSQL's catalog describes it.

    :param name: the type's name; of a domain, that of its base type.
    :param kind: ``b`` for a base type, ``e`` for an enum, ``c`` for a composite type, and so on (``pg_type.typtype``);
        of a domain, that of its base type.
    :param modifier: such as the precision and scale of a numeric; -1 for none.
    :param element: the type of an array's elements; ``None`` if the type is no array.
    """

    name: str
    kind: str = _BASE
    modifier: int = -1
    element: PostgresType | None = None

    @property
    def delta_type(self) -> str | None:
        """The column's type in Delta; ``None`` if it has none."""
        if self.element is not None:
            element = self.element.delta_type
            return None if element is None else _array_of(element)
        if self.kind == _ENUM:
            return "string"
        if self.kind != _BASE:
            return None
        return self._numeric_type if self.name == _NUMERIC else EXACT.get(self.name)

    @property
    def _numeric_type(self) -> str:
        """A decimal if one holds every value of the declared precision and scale; otherwise text."""
        if self.modifier < _MODIFIER_OFFSET:
            return "string"
        modifier = self.modifier - _MODIFIER_OFFSET
        precision, scale = modifier >> 16 & 0xFFFF, modifier & _SCALE_BITS
        if scale & _NEGATIVE_SCALE:
            scale -= _SCALE_BITS + 1
        return f"decimal({precision},{scale})" if 0 <= scale <= precision <= _MOST_DIGITS else "string"

    def __str__(self) -> str:
        return f"{self.element}[]" if self.element is not None else self.name


def _array_of(element: str) -> str:
    """Return the type of an array as Delta writes it."""
    return json.dumps({"type": "array", "elementType": element, "containsNull": True}, separators=(",", ":"))
