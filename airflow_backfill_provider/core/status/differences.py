"""
How a view differs from its query, by vnode, and by key where keys are recorded.

Both sides are compared by one checksum per vnode, which does not depend on the order of rows: the number of rows, and
the sums of two independent hashes of each row. Keys are compared only where the checksums differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from airflow_backfill_provider.core.frozen import Frozen
from airflow_backfill_provider.core.scan.keys import EncodedPosition


@dataclass(frozen=True, slots=True, kw_only=True)
class VnodeChecksum:
    """
    The checksum of a vnode's rows, independent of their order.

    :param rows: the number of rows; duplicates count.
    :param sums: the sum of each hash over all rows.
    """

    rows: int
    sums: tuple[int, int]


NO_ROWS = VnodeChecksum(rows=0, sums=(0, 0))
"""The checksum of a vnode without rows."""


def differing_vnodes(expected: Mapping[int, VnodeChecksum], found: Mapping[int, VnodeChecksum]) -> tuple[int, ...]:
    """
    Return the vnodes with different checksums, ascending.

    :param expected: checksums of the query by vnode; vnodes without rows may be left out.
    :param found: checksums of the view, likewise.
    """
    return tuple(
        vnode for vnode in sorted({*expected, *found}) if expected.get(vnode, NO_ROWS) != found.get(vnode, NO_ROWS)
    )


class DifferenceKind(StrEnum):
    """How a key of the view differs."""

    MISSING = "missing"
    """The query returns its row, but the view does not have it."""
    UNEXPECTED = "unexpected"
    """The view has its row, but the query does not return it."""
    REPEATED = "repeated"
    """Both have its row, and the view has it more often."""
    DIFFERENT = "different"
    """Both have its row, with different values."""


class DifferingKey(Frozen):
    """
    A key that differs.

    :param vnode: the vnode in which it differs.
    :param key: the key, encoded as text.
    :param columns: the columns that differ, if both sides have the key once. Values are not recorded.
    """

    kind: DifferenceKind
    vnode: int
    key: EncodedPosition
    columns: tuple[str, ...] = ()


class VnodeDifference(Frozen):
    """
    A vnode with different checksums, and the number of its differing keys by kind.

    All counts are 0 only if the rows changed before they were read again. The vnode still counts as differing.
    """

    vnode: int
    missing: int = 0
    unexpected: int = 0
    repeated: int = 0
    different: int = 0

    @property
    def keys(self) -> int:
        """The number of keys that differ."""
        return self.missing + self.unexpected + self.repeated + self.different
