"""Parses and formats sets of vnodes: numbers, and ranges such as ``0-15``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from airflow_backfill_provider.core.errors import InvalidJobError

_RANGE = re.compile(r"(\d+)(?:\s*-\s*(\d+))?")


def parse_vnodes(written: Iterable[int | str] | int | str, vnode_count: int) -> frozenset[int]:
    """
    Parse a set of vnodes.

    :param written: numbers and ranges (both ends included), as a list or as comma-separated text.
    :param vnode_count: the job's number of vnodes.
    :raises InvalidJobError: if an item is neither a number nor a range, or the job does not have the vnode.
    """
    items = [written] if isinstance(written, int | str) else list(written)
    vnodes: set[int] = set()
    for part in ",".join(map(str, items)).split(",") if items else ():
        found = _RANGE.fullmatch(part.strip())
        first = int(found.group(1)) if found else 0
        last = int(found.group(2) or first) if found else -1
        if not 0 <= first <= last < vnode_count:
            raise InvalidJobError(
                f"vnodes: {part.strip()!r} is not a vnode or a range of vnodes of the job; allowed are numbers from 0 "
                f"to {vnode_count - 1}, and ranges such as 0-15"
            )
        vnodes.update(range(first, last + 1))
    return frozenset(vnodes)


def format_vnodes(vnodes: Iterable[int]) -> str:
    """Format a set of vnodes as numbers and ranges."""
    spans: list[list[int]] = []
    for vnode in sorted(set(vnodes)):
        if spans and spans[-1][1] == vnode - 1:
            spans[-1][1] = vnode
        else:
            spans.append([vnode, vnode])
    return ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in spans)


def require_parallelism(parallelism: int, vnode_count: int) -> None:
    """
    Refuse a parallelism that a job cannot have.

    :raises InvalidJobError: naming the allowed range.
    """
    if not 1 <= parallelism <= vnode_count:
        raise InvalidJobError(
            f"parallelism: {parallelism} is not allowed; allowed are 1 to {vnode_count}, the job's vnode_count"
        )
