"""
Keys and their order.

A *position* is a point in key order: one value for each key column, ``None`` where the column is null. Everything
that compares keys (next chunk, change filter, bounds of chunks) uses the order defined here: column by column, nulls
first, each column in its own direction, strings and binary by their bytes. A bound of a range may be shorter than the
key. It then covers all keys that begin with it: in an order by (vnode, key), ``(5,)`` is all of vnode 5. Ports
``cmp_datum_iter`` with the storage key's order types. "No position yet" is ``None``, which differs from the position of
a null key, ``(None,)``.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from enum import Enum
from typing import Any

from airflow_backfill_provider.core.errors import InvalidJobError, StateLayoutError
from airflow_backfill_provider.core.scan.decimals import digits_of, is_decimal

KeyValue = int | str | Decimal | dt.date | dt.datetime | bytes | bool
Position = tuple[KeyValue | None, ...]
EncodedPosition = tuple[str | None, ...]


class KeyKind(Enum):
    """How values of a key column are compared and encoded."""

    INTEGER = "integer"
    STRING = "string"
    DECIMAL = "decimal"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMP_NTZ = "timestamp_ntz"
    BINARY = "binary"
    BOOLEAN = "boolean"


_ALL_DIGITS = Context(prec=1_000)

_INTEGER_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}

_KINDS = {
    "byte": KeyKind.INTEGER,
    "short": KeyKind.INTEGER,
    "integer": KeyKind.INTEGER,
    "long": KeyKind.INTEGER,
    "string": KeyKind.STRING,
    "date": KeyKind.DATE,
    "timestamp": KeyKind.TIMESTAMP,
    "timestamp_ntz": KeyKind.TIMESTAMP_NTZ,
    "binary": KeyKind.BINARY,
    "boolean": KeyKind.BOOLEAN,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyField:
    """
    One column of the key.

    :param name: the upstream's column.
    :param type: Delta's name of its type, such as ``long`` or ``decimal(20,2)``.
    :param descending: whether values are scanned from the largest to the smallest; nulls still come first.
    """

    name: str
    type: str
    descending: bool = False

    @property
    def kind(self) -> KeyKind:
        """
        The kind of the column's type.

        :raises InvalidJobError: for a type that Spark, Arrow and Python do not order alike.
        """
        if is_decimal(self.type):
            return KeyKind.DECIMAL
        try:
            return _KINDS[self.type]
        except KeyError:
            raise InvalidJobError(
                f"upstream.key: column {self.name!r} has type {self.type}, which cannot be a key; allowed are "
                f"{', '.join(sorted(_KINDS))} and decimal(p,s)"
            ) from None

    def encode(self, value: KeyValue | None) -> str | None:
        """Encode a value as text, exactly and independently of this machine's time zone."""
        return None if value is None else _ENCODERS[self.kind](value)

    def decode(self, text: str | None) -> KeyValue | None:
        """
        Decode what :meth:`encode` returned.

        :raises StateLayoutError: if the text is not a value of the column's type.
        """
        if text is None:
            return None
        try:
            value = _DECODERS[self.kind](text)
            self._require_in_type(value)
        except (ValueError, ArithmeticError) as error:
            raise StateLayoutError(
                f"the position's value for key column {self.name!r} is not of type {self.type}: {error}"
            ) from error
        return value

    def _require_in_type(self, value: KeyValue) -> None:
        """Refuse a value that Spark cannot cast to the column's type without change."""
        if isinstance(value, int) and self.type in _INTEGER_BITS:
            most = 2 ** (_INTEGER_BITS[self.type] - 1)
            if not -most <= value < most:
                raise ValueError(f"{value} is not between {-most} and {most - 1}")
        if isinstance(value, Decimal) and is_decimal(self.type):
            precision, scale = digits_of(self.type)
            digits_before = value.adjusted() + 1 if value else 0
            digits_after = -int(value.normalize(_ALL_DIGITS).as_tuple().exponent)
            if digits_before > precision - scale or digits_after > scale:
                raise ValueError(f"{value} has more than {precision - scale} digits before, or {scale} after the point")


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """The key's columns, most significant first, and the order of positions that they define."""

    fields: tuple[KeyField, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The key columns' names."""
        return tuple(field.name for field in self.fields)

    def compare(self, left: Sequence[KeyValue | None], right: Sequence[KeyValue | None]) -> int:
        """
        Compare two positions; if one is shorter, by its columns only.

        :returns: negative, zero or positive if ``left`` comes before, equals or comes after ``right``.
        """
        for field, mine, theirs in zip(self.fields, left, right, strict=False):
            if mine == theirs:
                continue
            if mine is None or theirs is None:
                return -1 if mine is None else 1
            # Values of one column have one type. Python compares strings by code point, which is the order of the
            # UTF-8 bytes that Spark compares.
            before = mine < theirs  # type: ignore[operator]
            return 1 if before == field.descending else -1
        return 0

    def sort_key(self, position: Sequence[KeyValue | None]) -> tuple[object, ...]:
        """
        Return a sort key that orders positions like :meth:`compare`, and a shorter one before its extensions.

        For many positions, sort keys are faster than comparisons.
        """
        return tuple(map(_sortable, self.fields, position))

    def encode(self, position: Position | None) -> EncodedPosition | None:
        """Encode a position, or its leading columns, as text; ``None`` stays ``None``."""
        if position is None:
            return None
        if len(position) > len(self.fields):
            raise ValueError(f"{position} has more columns than the key: {', '.join(self.names)}")
        return tuple(field.encode(value) for field, value in zip(self.fields, position, strict=False))

    def decode(self, encoded: Sequence[str | None] | None) -> Position | None:
        """
        Decode what :meth:`encode` returned.

        :raises StateLayoutError: if there are too many columns, or a value's type is wrong.
        """
        if encoded is None:
            return None
        if not 0 < len(encoded) <= len(self.fields):
            raise StateLayoutError(
                f"the position has {len(encoded)} columns, but the key has {len(self.fields)}: {', '.join(self.names)}"
            )
        return tuple(field.decode(text) for field, text in zip(self.fields, encoded, strict=False))


@dataclass(frozen=True, slots=True)
class KeyRange:
    """
    The keys in ``(after, up_to]``.

    :param after: exclusive lower bound; keys that begin with it are excluded too. ``None`` for no lower bound.
    :param up_to: inclusive upper bound; keys that begin with it are included too. ``None`` for no upper bound.
    """

    after: Position | None
    up_to: Position | None

    def contains(self, key: Position, order: KeyOrder) -> bool:
        """Return whether a key lies in the range."""
        is_after = self.after is None or order.compare(key, self.after) > 0
        return is_after and (self.up_to is None or order.compare(key, self.up_to) <= 0)


EVERYTHING = KeyRange(None, None)
"""All keys."""


@dataclass(frozen=True, slots=True)
class _Descending:
    """A value with reversed order."""

    value: Any

    def __lt__(self, other: _Descending) -> bool:
        return bool(other.value < self.value)


def _sortable(field: KeyField, value: KeyValue | None) -> tuple[object, ...]:
    if value is None:
        return (0,)
    return (1, _Descending(value) if field.descending else value)


def _encode_instant(value: dt.datetime) -> str:
    return value.astimezone(dt.UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _encode_local(value: dt.datetime) -> str:
    return value.isoformat(timespec="microseconds")


def _decode_decimal(text: str) -> Decimal:
    value = Decimal(text)
    if not value.is_finite():
        raise ValueError(f"{text!r} is not a number")
    return value


def _decode_instant(text: str) -> dt.datetime:
    value = dt.datetime.fromisoformat(text)
    return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)


def _decode_local(text: str) -> dt.datetime:
    value = dt.datetime.fromisoformat(text)
    if value.tzinfo is not None:
        raise ValueError(f"{text!r} has a time zone, but the column's type has none")
    return value


def _decode_boolean(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError(f"{text!r} is neither 'true' nor 'false'")
    return text == "true"


_ENCODERS: dict[KeyKind, Callable[..., str]] = {
    KeyKind.INTEGER: str,
    KeyKind.STRING: str,
    KeyKind.DECIMAL: lambda value: format(value, "f"),
    KeyKind.DATE: lambda value: value.isoformat(),
    KeyKind.TIMESTAMP: _encode_instant,
    KeyKind.TIMESTAMP_NTZ: _encode_local,
    KeyKind.BINARY: lambda value: value.hex(),
    KeyKind.BOOLEAN: lambda value: "true" if value else "false",
}

_DECODERS: dict[KeyKind, Callable[[str], KeyValue]] = {
    KeyKind.INTEGER: int,
    KeyKind.STRING: str,
    KeyKind.DECIMAL: _decode_decimal,
    KeyKind.DATE: dt.date.fromisoformat,
    KeyKind.TIMESTAMP: _decode_instant,
    KeyKind.TIMESTAMP_NTZ: _decode_local,
    KeyKind.BINARY: bytes.fromhex,
    KeyKind.BOOLEAN: _decode_boolean,
}
