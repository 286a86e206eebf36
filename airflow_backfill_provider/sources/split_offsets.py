"""
Offsets of an upstream with splits: the place after the last row of each split, and the sum of all first.

A split only grows. So the sums are ordered as the offsets are, and the distance of two sums is the number of places in
between.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from airflow_backfill_provider.core.errors import StateError
from airflow_backfill_provider.core.scan.offset import BEGINNING, Offset
from airflow_backfill_provider.core.scan.splits import SplitRange

_PLACES = re.compile(r"(\d+( \d+)*)?", re.ASCII)


def offset_of(ends: Mapping[int, int]) -> Offset:
    """
    Return an offset.

    :param ends: split → the place after its last row; all splits, numbered from 0.
    """
    values = [ends[split] for split in range(len(ends))]
    return Offset((sum(values), " ".join(map(str, values))))


def ends_of(offset: Offset) -> dict[int, int]:
    """
    Return for each split the place after its last row; a split that was added later is missing.

    :raises StateError: if it is no offset of splits.
    """
    if offset == BEGINNING:
        return {}
    match offset.root:
        case (int(total), str(text)) if _PLACES.fullmatch(text):
            ends = dict(enumerate(map(int, text.split())))
        case _:
            ends, total = {}, -1
    if sum(ends.values()) != total:
        raise StateError(f"{offset} is no offset of splits; rebuild the job")
    return ends


def window(after: Offset, up_to: Offset) -> list[SplitRange]:
    """
    Return the places of each split in ``(after, up_to]``; a split that was added is new from its start.

    :raises StateError: if an offset goes back, because its rows would be read twice.
    """
    known = ends_of(after)
    found = [SplitRange(split, known.get(split, 0), end) for split, end in ends_of(up_to).items()]
    if any(places.end < places.begin for places in found):
        raise StateError(f"the window from offset {after} to {up_to} goes back in a split; rebuild the job")
    return found
