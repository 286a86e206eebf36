"""
Finds values in the bytes of a Protobuf message that the message's type cannot hold.

A producer may know another version of the type, in which a field is longer or has another type. Google's library cuts
such a number to 32 bits, and takes a field of another type for one that was not set.

Workers get this module with the query, as :mod:`.protobuf_values`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_VARINT, _EIGHT_BYTES, _LENGTH, _GROUP, _END_OF_GROUP, _FOUR_BYTES = range(6)
_FIXED_SIZES = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}

_DOUBLE, _FLOAT, _INT32, _FIXED64, _FIXED32, _BOOL, _STRING = 1, 2, 5, 6, 7, 8, 9
_MESSAGE, _BYTES, _UINT32, _ENUM, _SFIXED32, _SFIXED64, _SINT32 = 11, 12, 13, 14, 15, 16, 17
"""The types of fields, by their numbers in a descriptor."""

_WIRE_TYPES = {
    **dict.fromkeys((_DOUBLE, _FIXED64, _SFIXED64), _EIGHT_BYTES),
    **dict.fromkeys((_FLOAT, _FIXED32, _SFIXED32), _FOUR_BYTES),
    **dict.fromkeys((_STRING, _BYTES, _MESSAGE), _LENGTH),
}
"""The type of a field → the type of its bytes; of all others, :data:`_VARINT`."""

_SIGNED, _UNSIGNED = (_INT32, _ENUM), (_UINT32, _SINT32)
"""Types of 32 bits whose negative numbers have 64 in a message, and those without negative numbers there."""

_HALF, _WHOLE, _NEGATIVE = 1 << 31, 1 << 32, (1 << 64) - (1 << 31)
"""From where numbers are too great for 32 bits with a sign, and without; from where they are negative ones."""


def misfit(body: bytes, message: Any) -> str:
    """
    Return what is wrong with the first field that does not fit its type; empty if all do.

    :param body: a message that the library can read.
    :param message: the descriptor of its type.
    """
    return next((found for found in (_problem(*field) for field in _fields(body, message)) if found), "")


def _problem(field: Any, wire_type: int, value: int | bytes) -> str:
    own = _WIRE_TYPES.get(field.type, _VARINT)
    is_packed = isinstance(value, bytes) and wire_type == _LENGTH != own and field.is_repeated
    if wire_type != own and not is_packed:
        return f"has the field {field.full_name} in another type"
    if field.message_type is not None and isinstance(value, bytes):
        return misfit(value, field.message_type)
    numbers: Iterator[int] = iter(())
    if own == _VARINT:
        numbers = _numbers(value) if isinstance(value, bytes) else iter((value,))
    if any(_is_lost(field, number) for number in numbers):
        return f"has a number in the field {field.full_name} that its type cannot hold"
    return ""


def _is_lost(field: Any, number: int) -> bool:
    """Return whether a number becomes another one in a field's type."""
    kind = field.type
    if kind in _UNSIGNED:
        return number >= _WHOLE
    if kind == _BOOL:
        return number > 1
    if kind == _ENUM and field.enum_type.is_closed and _signed(number) not in field.enum_type.values_by_number:
        # The library leaves it out.
        return True
    return kind in _SIGNED and _HALF <= number < _NEGATIVE


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= _NEGATIVE else number


# ------------------------------------------------------------------------------------------------------------ bytes


def _fields(body: bytes, message: Any) -> Iterator[tuple[Any, int, int | bytes]]:
    """Yield each field that the type knows, with the type of its bytes, and its number or bytes."""
    at = groups = 0
    while at < len(body):
        tag, at = _number(body, at)
        wire_type, value = tag & 7, b""
        number = 0
        if wire_type == _VARINT:
            number, at = _number(body, at)
        elif wire_type == _LENGTH:
            size, at = _number(body, at)
            value, at = body[at : at + size], at + size
        elif wire_type in _FIXED_SIZES:
            at += _FIXED_SIZES[wire_type]
        field = message.fields_by_number.get(tag >> 3)
        # The fields inside of a group are those of another type.
        if field is not None and groups == 0:
            yield field, wire_type, number if wire_type == _VARINT else value
        groups += {_GROUP: 1, _END_OF_GROUP: -1}.get(wire_type, 0)


def _numbers(body: bytes) -> Iterator[int]:
    at = 0
    while at < len(body):
        number, at = _number(body, at)
        yield number


def _number(body: bytes, at: int) -> tuple[int, int]:
    """Return a number of at most 64 bits, and the place after it."""
    found = shift = 0
    while True:
        byte = body[at]
        found |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if not byte & 0x80:
            return found & ((1 << 64) - 1), at
