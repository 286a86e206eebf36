"""
Offsets of a topic: one for each of its partitions, and their sum first.

A partition is a split. Its offsets never go back as long as the topic is the same; the distance of two sums counts gaps
between records, too.
"""

from __future__ import annotations

<<<<<<< HEAD
import re
from collections.abc import Mapping

from airflow_backfill_provider.core.errors import StateError
from airflow_backfill_provider.core.offset import BEGINNING, Offset

_PLACES = re.compile(r"(\d+( \d+)*)?", re.ASCII)


def offset_of(ends: Mapping[int, int]) -> Offset:
    """
    Return an offset.

    :param ends: partition → the offset after its last record; all partitions, which Kafka numbers from 0.
    """
    values = [ends[partition] for partition in range(len(ends))]
    return Offset((sum(values), " ".join(map(str, values))))


def ends_of(offset: Offset) -> dict[int, int]:
    """
    Return for each partition the offset after its last record; a partition that was added later is missing.

    :raises StateError: if it is no offset of a topic.
    """
    if offset == BEGINNING:
        return {}
    match offset.root:
        case (int(total), str(text)) if _PLACES.fullmatch(text):
            ends = dict(enumerate(map(int, text.split())))
        case _:
            ends, total = {}, -1
    if sum(ends.values()) != total:
        raise StateError(f"{offset} is no offset of a topic; rebuild the job")
    return ends
=======
from airflow_backfill_provider.sources.split_offsets import ends_of, offset_of, window

__all__ = ["ends_of", "offset_of", "window"]
>>>>>>> files
