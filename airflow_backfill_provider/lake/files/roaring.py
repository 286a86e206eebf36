"""
Sets of row numbers in the form in which Delta keeps them: 64-bit Roaring bitmaps, "portable" in Delta's protocol.

A set is divided by the upper bits of its numbers. The lower 16 bits of a division are a list, a bitmap, or a list of
runs. This module reads all three, and writes the first two.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator
from itertools import groupby

_MAGIC = 1_681_511_377
_WITHOUT_RUNS, _WITH_RUNS = 12_346, 12_347
_MOST_LISTED = 4_096
"""The most numbers of a division that are listed; of more, a bitmap is shorter."""

_BITMAP_BYTES = 8_192
_OFFSETS_FROM = 4
"""With runs, the places of divisions are written only if there are so many of them."""

_LOWER, _UPPER = 16, 32
_MASK = (1 << _LOWER) - 1


def encoded(numbers: Iterable[int]) -> bytes:
    """Return a set of numbers, each at least 0, in Delta's form."""
    parts = [(key, list(found)) for key, found in groupby(sorted(set(numbers)), lambda number: number >> _UPPER)]
    bitmaps = [struct.pack("<I", key) + _bitmap(found) for key, found in parts]
    return struct.pack("<Iq", _MAGIC, len(bitmaps)) + b"".join(bitmaps)


def _bitmap(numbers: list[int]) -> bytes:
    divisions = [
        (key & _MASK, [number & _MASK for number in found])
        for key, found in groupby(numbers, lambda number: number >> _LOWER)
    ]
    contents = [_content(found) for _, found in divisions]
    heads = b"".join(struct.pack("<HH", key, len(found) - 1) for key, found in divisions)
    begin = 8 + len(heads) + 4 * len(divisions)
    places = []
    for content in contents:
        places.append(struct.pack("<I", begin))
        begin += len(content)
    return struct.pack("<II", _WITHOUT_RUNS, len(divisions)) + heads + b"".join(places) + b"".join(contents)


def _content(numbers: list[int]) -> bytes:
    if len(numbers) <= _MOST_LISTED:
        return struct.pack(f"<{len(numbers)}H", *numbers)
    bits = bytearray(_BITMAP_BYTES)
    for number in numbers:
        bits[number >> 3] |= 1 << (number & 7)
    return bytes(bits)


def decoded(content: bytes) -> set[int]:
    """
    Return the numbers of a set in Delta's form.

    :raises ValueError: if it is in another form, or cut off.
    """
    try:
        reader = _Reader(content)
        magic, count = reader.numbers("<Iq")
        if magic != _MAGIC:
            raise ValueError(f"a deletion vector begins with {magic}, not {_MAGIC}")
        found: set[int] = set()
        for _ in range(count):
            (key,) = reader.numbers("<I")
            found.update((key << _UPPER) | number for number in _numbers(reader))
    except (struct.error, IndexError) as error:
        raise ValueError(f"a deletion vector cannot be read: {error}") from error
    return found


class _Reader:
    """Reads numbers one after another."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def numbers(self, form: str) -> tuple[int, ...]:
        """Return the next numbers in a form of :mod:`struct`."""
        found = struct.unpack_from(form, self._content, self._at)
        self._at += struct.calcsize(form)
        return found

    def bytes(self, count: int) -> bytes:
        """Return the next bytes."""
        return bytes(self.numbers(f"<{count}B"))


def _numbers(reader: _Reader) -> Iterator[int]:
    """Yield the numbers of a 32-bit bitmap."""
    (first,) = reader.numbers("<I")
    if first & _MASK == _WITH_RUNS:
        count = (first >> _LOWER) + 1
        has_runs = reader.bytes(-(-count // 8))
    elif first == _WITHOUT_RUNS:
        (count,) = reader.numbers("<I")
        has_runs = bytes(-(-count // 8))
    else:
        raise ValueError(f"a part of a deletion vector begins with {first}")
    heads = [reader.numbers("<HH") for _ in range(count)]
    if first == _WITHOUT_RUNS or count >= _OFFSETS_FROM:
        reader.bytes(4 * count)
    for division, (key, most) in enumerate(heads):
        if has_runs[division >> 3] >> (division & 7) & 1:
            lower = _of_runs(reader)
        elif most < _MOST_LISTED:
            lower = array("H", reader.numbers(f"<{most + 1}H"))
        else:
            lower = _of_bits(reader.bytes(_BITMAP_BYTES))
        yield from ((key << _LOWER) | number for number in lower)


def _of_runs(reader: _Reader) -> Iterable[int]:
    (count,) = reader.numbers("<H")
    for _ in range(count):
        begin, more = reader.numbers("<HH")
        yield from range(begin, begin + more + 1)


def _of_bits(bits: bytes) -> Iterable[int]:
    return (place * 8 + bit for place, byte in enumerate(bits) if byte for bit in range(8) if byte >> bit & 1)
