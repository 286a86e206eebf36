"""
How a view differs from its query: vnode by vnode, and key by key as far as it is worth knowing.

Two sides are compared by checksums of each vnode that do not depend on the order of rows: their number, and of two
independent hashes of each row the sum and the exclusive or. Only vnodes whose checksums differ are looked into.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from airflow_backfill_provider.core.frozen import Frozen
from airflow_backfill_provider.core.keys import EncodedPosition


@dataclass(frozen=True, slots=True, kw_only=True)
class VnodeChecksum:
    """
    What a vnode's rows come to, in whatever order they are read.

    :param rows: how many there are; a row that is there twice counts twice.
    :param sums: of each hash over all rows.
    :param parities: the exclusive or of each hash over all rows.
    """

    rows: int
    sums: tuple[int, int]
    parities: tuple[int, int]


NO_ROWS = VnodeChecksum(rows=0, sums=(0, 0), parities=(0, 0))
"""The checksum of a vnode without a row."""


def differing_vnodes(expected: Mapping[int, VnodeChecksum], found: Mapping[int, VnodeChecksum]) -> tuple[int, ...]:
    """
    Return the vnodes whose checksums differ, ascending.

    :param expected: of the query; vnodes without rows may be left out.
    :param found: of the view; likewise.
    """
    return tuple(
        vnode for vnode in sorted({*expected, *found}) if expected.get(vnode, NO_ROWS) != found.get(vnode, NO_ROWS)
    )


class DifferenceKind(StrEnum):
    """What is wrong with a key of the view."""

    MISSING = "missing"
    """The query gives its row, and the view does not have it."""
    UNEXPECTED = "unexpected"
    """The view has its row, and the query does not give it."""
    REPEATED = "repeated"
    """Both have it, the view more often."""
    DIFFERENT = "different"
    """Both have it, with other values."""


class DifferingKey(Frozen):
    """
    A key that differs.

    :param vnode: the vnode in which it was found to differ.
    :param key: its value, encoded as text.
    :param columns: the view's columns that differ, where both sides have the key once. Their values are not kept.
    """

    kind: DifferenceKind
    vnode: int
    key: EncodedPosition
    columns: tuple[str, ...] = ()


class VnodeDifference(Frozen):
    """
    A vnode whose checksums differ, and how many of its keys do, by kind.

    All counts are 0 only where the rows were not the same when they were read a second time; the vnode counts as
    differing all the same.
    """

    vnode: int
    missing: int = 0
    unexpected: int = 0
    repeated: int = 0
    different: int = 0

    @property
    def keys(self) -> int:
        """How many of its keys differ."""
        return self.missing + self.unexpected + self.repeated + self.different
