"""The vnodes of rows, against Spark's hash written plainly; Spark itself is asked in the integration tests."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_backfill_provider.core.scan.keys import KeyField
from airflow_backfill_provider.lake.files.key_index import arrow_type
from airflow_backfill_provider.lake.files.vnode_hash import vnodes_of
from tests.strategies import KEY_VALUES

ALL = 2**31 - 1
"""So many vnodes that nearly every hash has its own."""

WORD = 0xFFFFFFFF
EPOCH = dt.datetime.fromtimestamp(0, dt.UTC)


def rotated(number, bits):
    return ((number << bits) | (number >> (32 - bits))) & WORD


def mixed(seed, word):
    word = rotated(word * 0xCC9E2D51 & WORD, 15) * 0x1B873593 & WORD
    return (rotated(seed ^ word, 13) * 5 + 0xE6546B64) & WORD


def finished(number, length):
    number ^= length
    for bits, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        number = (number ^ (number >> bits)) * factor & WORD
    return number


def hash_of_bytes(data, seed):
    whole = len(data) - len(data) % 4
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        seed = mixed(seed, word)
    for byte in data[whole:]:
        seed = mixed(seed, (byte - 256 if byte > 127 else byte) & WORD)
    return finished(seed, len(data))


def hash_of(value, kind, seed):
    """Return Spark's hash of one value, by the type of its column."""
    match kind:
        case "string":
            data = value.encode()
        case "binary":
            data = value
        case "date":
            data = struct.pack("<i", (value - EPOCH.date()).days)
        case "timestamp" | "timestamp_ntz":
            instant = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
            data = struct.pack("<q", (instant - EPOCH) // dt.timedelta(microseconds=1))
        case "decimal(5,3)":
            data = struct.pack("<q", int(value.scaleb(3)))
        case "decimal(20,2)" | "decimal(38,0)":
            sign, digits, _ = value.as_tuple()
            number = int("".join(map(str, digits))) * (-1 if sign else 1)
            size = next(size for size in range(1, 18) if -(256**size) // 2 <= number < 256**size // 2)
            data = number.to_bytes(size, "big", signed=True)
        case _:
            data = struct.pack("<q" if kind == "long" else "<i", value)
    return hash_of_bytes(data, seed)


def vnode_of(values, kinds, vnode_count):
    seed = 42
    for value, kind in zip(values, kinds, strict=True):
        seed = seed if value is None else hash_of(value, kind, seed)
    return (seed - 2**32 if seed >= 2**31 else seed) % vnode_count


def vnodes(values, kind, vnode_count=ALL):
    field = KeyField(name="k", type=kind)
    return vnodes_of(pa.table({"k": pa.array(values, arrow_type(field))}), [field], vnode_count).to_pylist()


@pytest.mark.parametrize(
    ("value", "kind", "hashed"),
    [
        (1, "integer", -559580957),
        (1, "long", -1712319331),
        ("", "string", 142593372),
        (None, "string", 42),
        (True, "boolean", -559580957),
    ],
)
def test_hashes_that_spark_is_known_to_give(value, kind, hashed):
    assert vnodes([value], kind) == [hashed % ALL]


@pytest.mark.parametrize("kind", KEY_VALUES)
def test_values_of_every_type_of_key_are_hashed_as_spark_does(kind):
    @settings(max_examples=15)
    @given(st.lists(st.none() | KEY_VALUES[kind], min_size=1, max_size=8))
    def agree(values):
        assert vnodes(values, kind) == [vnode_of([value], [kind], ALL) for value in values]

    agree()


def test_the_hash_of_a_column_is_the_seed_of_the_next_one_and_a_null_leaves_it():
    kinds = {"a": "long", "b": "string", "c": "decimal(20,2)"}
    fields = [KeyField(name=name, type=kind) for name, kind in kinds.items()]
    rows = [(1, "x", Decimal("1.00")), (None, "x", None), (1, None, Decimal("-1.00")), (None, None, None)]
    columns = zip(fields, zip(*rows, strict=True), strict=True)
    table = pa.table({field.name: pa.array(values, arrow_type(field)) for field, values in columns})
    expected = [vnode_of(row, kinds.values(), 256) for row in rows]
    assert vnodes_of(table, fields, 256).to_pylist() == expected
    assert vnodes_of(table, fields[::-1], 256).to_pylist() != expected


@pytest.mark.parametrize("vnode_count", [1, 2, 7, 32_768])
def test_a_negative_hash_has_a_vnode_too(vnode_count):
    found = vnodes(list(range(-50, 50)), "long", vnode_count)
    assert all(0 <= vnode < vnode_count for vnode in found)
    assert found == [vnode_of([number], ["long"], vnode_count) for number in range(-50, 50)]


def test_rows_in_several_pieces_and_no_rows_at_all():
    field = KeyField(name="k", type="string")
    rows = pa.table({"k": pa.chunked_array([["a"], [], ["b", None]])})
    assert vnodes_of(rows, [field], ALL).to_pylist() == vnodes(["a", "b", None], "string")
    assert vnodes_of(rows.slice(0, 0), [field], ALL).to_pylist() == []
