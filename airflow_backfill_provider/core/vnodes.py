"""Sets of vnodes as people write them: numbers, and ranges such as ``0-15``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from airflow_backfill_provider.core.errors import InvalidJobError

_RANGE = re.compile(r"(\d+)(?:\s*-\s*(\d+))?")


def parse_vnodes(written: Iterable[int | str] | int | str, vnode_count: int) -> frozenset[int]:
    """
    Return the vnodes that are meant.

    :param written: numbers and ranges (both ends included), one by one or in a text with commas in between.
    :param vnode_count: vnodes of the job.
    :raises InvalidJobError: if something else is written, or a vnode that the job does not have.
    """
    items = [written] if isinstance(written, int | str) else list(written)
    vnodes: set[int] = set()
    for part in ",".join(map(str, items)).split(",") if items else ():
        found = _RANGE.fullmatch(part.strip())
        first = int(found.group(1)) if found else 0
        last = int(found.group(2) or first) if found else -1
        if not 0 <= first <= last < vnode_count:
            raise InvalidJobError(
                f"vnodes: {part.strip()!r} names no vnodes of the job; allowed are numbers from 0 to "
                f"{vnode_count - 1} and ranges of them, such as 0-15"
            )
        vnodes.update(range(first, last + 1))
    return frozenset(vnodes)


def format_vnodes(vnodes: Iterable[int]) -> str:
    """Return vnodes as people write them, neighbours as ranges."""
    runs: list[list[int]] = []
    for vnode in sorted(set(vnodes)):
        if runs and runs[-1][1] == vnode - 1:
            runs[-1][1] = vnode
        else:
            runs.append([vnode, vnode])
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs)
