"""
The topic of a worked example: partitions of records, and transactions that are open, committed or aborted.

A reader sees what a consumer with ``isolation.level=read_committed`` sees.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from airflow_backfill_provider.core.scan.splits import SplitRange


class Place(StrEnum):
    """What lies at an offset of a partition."""

    RECORD = "a record"
    OPEN = "a record of a transaction that is open"
    ABORTED = "a record of a transaction that was aborted"
    COMMIT_MARK = "a control record: the transaction is committed"
    ABORT_MARK = "a control record: the transaction is aborted"


_PLURALS = {
    Place.RECORD: "records",
    Place.OPEN: "records of a transaction that is open",
    Place.ABORTED: "records of a transaction that was aborted",
}


@dataclass(frozen=True)
class Written:
    """
    What a producer does to one partition.

    :param places: what it appends.
    :param ends: whether a transaction that was open is committed, or aborted, before that; ``None`` if neither.
    """

    partition: int
    places: Sequence[Place] = ()
    ends: Place | None = None


def records(partition: int, count: int = 1) -> Written:
    """Return that a producer without a transaction appends records."""
    return Written(partition, [Place.RECORD] * count)


def opened(partition: int, count: int = 1) -> Written:
    """Return that records of a transaction are appended."""
    return Written(partition, [Place.OPEN] * count)


def aborted(partition: int) -> Written:
    """Return that the open transaction is aborted."""
    return Written(partition, [Place.ABORT_MARK], Place.ABORTED)


def committed(partition: int) -> Written:
    """Return that the open transaction is committed."""
    return Written(partition, [Place.COMMIT_MARK], Place.RECORD)


class ExampleTopic:
    """A topic; a partition that is written to exists."""

    def __init__(self, partitions: int) -> None:
        self._places: dict[int, list[Place]] = {partition: [] for partition in range(partitions)}

    def write(self, written: Written) -> SplitRange:
        """Append what a producer writes, and return where it lies."""
        places = self._places.setdefault(written.partition, [])
        if written.ends is not None:
            places[:] = [written.ends if place is Place.OPEN else place for place in places]
        begin = len(places)
        places.extend(written.places)
        return SplitRange(written.partition, begin, len(places))

    @property
    def ends(self) -> dict[int, int]:
        """Partition → the offset up to which all transactions are decided."""
        return {
            partition: places.index(Place.OPEN) if Place.OPEN in places else len(places)
            for partition, places in sorted(self._places.items())
        }

    def rows(self, places: SplitRange) -> list[tuple[int, int]]:
        """Return the keys of the committed records at some places."""
        return [(places.split, offset) for offset, place in self._at(places) if place is Place.RECORD]

    def described(self, places: SplitRange) -> Iterator[tuple[int, str, str]]:
        """Yield (partition, offsets, what lies there) for each run of places of one kind."""
        for kind, run in groupby(self._at(places), key=lambda at: at[1]):
            offsets = [offset for offset, _ in run]
            yield places.split, span(offsets), (_PLURALS.get(kind, kind) if len(offsets) > 1 else kind)

    def whole(self) -> list[SplitRange]:
        """Return all places, also those that no reader sees yet."""
        return [SplitRange(partition, 0, len(places)) for partition, places in sorted(self._places.items())]

    def _at(self, places: SplitRange) -> list[tuple[int, Place]]:
        return list(enumerate(self._places[places.split]))[places.begin : places.end]


def span(offsets: Sequence[int]) -> str:
    """Return consecutive offsets in words."""
    if not offsets:
        return "none"
    return str(offsets[0]) if len(offsets) == 1 else f"{offsets[0]} to {offsets[-1]}"
