"""The vnode of a whole number, as Spark computes it, to choose chunks without a JVM."""

from __future__ import annotations

_BITS = 0xFFFFFFFF

_SEED = 42
"""The seed of Spark's function ``hash``."""


def vnode_of_number(value: int, vnode_count: int) -> int:
    """
    Return the vnode of a distribution key that is one column of Spark's type ``int``.

    :param value: from 0 to 2**31 - 1.
    """
    return _signed(_murmur3(value)) % vnode_count


def _murmur3(value: int) -> int:
    """Return the hash of four bytes; Spark hashes with Murmur3 in its variant for 32 bits."""
    mixed = _rotated(value * 0xCC9E2D51 & _BITS, 15) * 0x1B873593 & _BITS
    hashed = (_rotated(_SEED ^ mixed, 13) * 5 + 0xE6546B64) & _BITS
    hashed ^= 4
    hashed = (hashed ^ hashed >> 16) * 0x85EBCA6B & _BITS
    hashed = (hashed ^ hashed >> 13) * 0xC2B2AE35 & _BITS
    return hashed ^ hashed >> 16


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _BITS


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value
