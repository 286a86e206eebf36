"""Sets of row numbers in Delta's form."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_backfill_provider.lake.files import roaring

NUMBERS = st.one_of(
    st.sets(st.integers(0, 2**33)),
    st.builds(lambda begin, more: set(range(begin, begin + more)), st.integers(0, 2**17), st.integers(0, 10_000)),
)


@given(NUMBERS)
def test_a_set_is_read_as_it_was_written(numbers):
    assert roaring.decoded(roaring.encoded(numbers)) == numbers


def test_few_numbers_are_listed():
    """The bytes of the format, as RoaringFormatSpec has them: cookie, count, key and length, place, numbers."""
    bitmap = struct.pack("<II HH I 3H", 12_346, 1, 1, 2, 16, 0, 5, 65_535)
    assert roaring.encoded({65_541, 65_536, 131_071}) == struct.pack("<IqI", 1_681_511_377, 1, 0) + bitmap


@pytest.mark.parametrize("divisions", [1, 3, 4, 9])
def test_runs_are_read(divisions):
    """Delta writes runs where they are shorter; places of divisions come with four or more of them."""
    heads = b"".join(struct.pack("<HH", key, 11) for key in range(divisions))
    places = bytes(4 * divisions) if divisions >= 4 else b""
    runs = struct.pack("<H HH HH", 2, 10, 9, 65_534, 1) * divisions
    bitmap = struct.pack("<I", 12_347 | (divisions - 1) << 16) + b"\xff" * (-(-divisions // 8)) + heads + places + runs
    found = roaring.decoded(struct.pack("<IqI", 1_681_511_377, 1, 0) + bitmap)
    assert found == {key << 16 | low for key in range(divisions) for low in (*range(10, 20), 65_534, 65_535)}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        struct.pack("<Iq", 1_681_511_376, 0),
        struct.pack("<IqII", 1_681_511_377, 1, 0, 12_345),
        roaring.encoded(range(0, 9_000, 2))[:-1],
    ],
    ids=["nothing", "another form", "another form of a part", "cut off"],
)
def test_anything_else_is_refused(content):
    with pytest.raises(ValueError, match="deletion vector"):
        roaring.decoded(content)
