"""
The vnodes of rows, without Spark: ``pmod(hash(distribution key), vnode_count)`` as Spark computes it, with Arrow.

Spark's hash is 32-bit Murmur3 with the seed 42. The hash of each column is the seed for the next one, and a null leaves
the hash unchanged. Planners use this module to count rows. The rows that an epoch reads are selected by Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce

import pyarrow as pa
import pyarrow.compute as pc

from airflow_backfill_provider.core.scan.decimals import digits_of
from airflow_backfill_provider.core.scan.keys import KeyField, KeyKind

_SEED = 42
_LONG_DECIMAL = 18
"""The most digits of a decimal that Spark hashes as a long."""

_UINT = pa.uint32()
_WORD = 4


def vnodes_of(rows: pa.Table, fields: Sequence[KeyField], vnode_count: int) -> pa.Array:
    """
    Return each row's vnode.

    :param rows: a table with the columns of the key, in their Arrow types.
    :param fields: the columns of the distribution key.
    """
    seeds = pa.repeat(pa.scalar(_SEED, _UINT), rows.num_rows)
    hashed = reduce(lambda hashes, field: _hashed(_column(rows, field.name), field, hashes), fields, seeds)
    signed = hashed.view(pa.int32()).cast(pa.int64())
    quotient = pc.cast(pc.floor(pc.divide(signed.cast(pa.float64()), float(vnode_count))), pa.int64())
    return pc.subtract(signed, pc.multiply(quotient, vnode_count)).cast(pa.int32())


def _column(rows: pa.Table, name: str) -> pa.Array:
    column = rows.column(name).combine_chunks()
    return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column


def _hashed(values: pa.Array, field: KeyField, seeds: pa.Array) -> pa.Array:
    """Return the hashes of values; the hash of a null is its seed."""
    is_valid = pc.is_valid(values)
    present = values.drop_null()
    return pc.replace_with_mask(seeds, is_valid, _hash_of(field)(present, seeds.filter(is_valid)))


def _hash_of(field: KeyField) -> Callable[[pa.Array, pa.Array], pa.Array]:
    if field.kind in {KeyKind.STRING, KeyKind.BINARY}:
        return _hash_bytes
    if field.kind is KeyKind.DECIMAL:
        digits, _ = digits_of(field.type)
        return partial(_hash_decimals, digits=digits)
    if field.type in {"long", "timestamp", "timestamp_ntz"}:
        return lambda values, seeds: _hash_longs(values.view(pa.int64()), seeds)
    return _hash_ints


def _hash_ints(values: pa.Array, seeds: pa.Array) -> pa.Array:
    numbers = values.view(pa.int32()) if pa.types.is_date32(values.type) else values.cast(pa.int32())
    return _finished(_mixed(seeds, numbers.view(_UINT)), pa.scalar(_WORD, _UINT))


def _hash_longs(values: pa.Array, seeds: pa.Array) -> pa.Array:
    bits = values.view(pa.uint64())
    low = pc.bit_wise_and(bits, pa.scalar(0xFFFFFFFF, pa.uint64())).cast(_UINT)
    high = pc.shift_right(bits, pa.scalar(32, pa.uint64())).cast(_UINT)
    return _finished(_mixed(_mixed(seeds, low), high), pa.scalar(2 * _WORD, _UINT))


def _hash_decimals(values: pa.Array, seeds: pa.Array, *, digits: int) -> pa.Array:
    unscaled = values.view(pa.decimal128(values.type.precision, 0))
    if digits <= _LONG_DECIMAL:
        return _hash_longs(unscaled.cast(pa.int64()), seeds)
    numbers = [int(number) for number in unscaled.to_pylist()]
    # The shortest two's complement, as Java's BigInteger writes it.
    encoded = [number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True) for number in numbers]
    return _hash_bytes(pa.array(encoded, pa.binary()), seeds)


def _hash_bytes(values: pa.Array, seeds: pa.Array) -> pa.Array:
    data = values.cast(pa.binary())
    lengths = pc.binary_length(data).cast(_UINT)
    rests = pc.bit_wise_and(lengths, pa.scalar(_WORD - 1, _UINT))
    hashes = seeds
    for start in range(0, (pc.max(lengths).as_py() or 0) - _WORD + 1, _WORD):
        has_word = pc.greater_equal(lengths, start + _WORD)
        words = pc.binary_slice(data.filter(has_word), start, start + _WORD).cast(pa.binary(_WORD)).view(_UINT)
        hashes = pc.replace_with_mask(hashes, has_word, _mixed(hashes.filter(has_word), words))
    for rest in range(1, _WORD):
        has_rest = pc.equal(rests, rest)
        ends = pc.binary_slice(data.filter(has_rest), -rest, None)
        mixed = hashes.filter(has_rest)
        for index in range(rest):
            byte = pc.binary_slice(ends, index, index + 1).cast(pa.binary(1)).view(pa.int8())
            mixed = _mixed(mixed, byte.cast(pa.int32()).view(_UINT))
        hashes = pc.replace_with_mask(hashes, has_rest, mixed)
    return _finished(hashes, lengths)


def _mixed(hashes: pa.Array, words: pa.Array) -> pa.Array:
    """Mix a word into each hash."""
    word = _times(_rotated(_times(words, 0xCC9E2D51), 15), 0x1B873593)
    hashes = _rotated(pc.bit_wise_xor(hashes, word), 13)
    return pc.add(_times(hashes, 5), pa.scalar(0xE6546B64, _UINT))


def _finished(hashes: pa.Array, lengths: pa.Array | pa.Scalar) -> pa.Array:
    hashes = pc.bit_wise_xor(hashes, lengths)
    hashes = _times(_folded(hashes, 16), 0x85EBCA6B)
    hashes = _times(_folded(hashes, 13), 0xC2B2AE35)
    return _folded(hashes, 16)


def _times(numbers: pa.Array, factor: int) -> pa.Array:
    return pc.multiply(numbers, pa.scalar(factor, _UINT))


def _rotated(numbers: pa.Array, bits: int) -> pa.Array:
    left = pc.shift_left(numbers, pa.scalar(bits, _UINT))
    return pc.bit_wise_or(left, pc.shift_right(numbers, pa.scalar(32 - bits, _UINT)))


def _folded(numbers: pa.Array, bits: int) -> pa.Array:
    return pc.bit_wise_xor(numbers, pc.shift_right(numbers, pa.scalar(bits, _UINT)))
