"""Files with the places of their rows: how places are given, and which files have some places."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from airflow_backfill_provider.core.scan.splits import SplitRange

SPLIT_COUNT = 8
"""The number of splits of a new file log. Task runs share splits, so it bounds their parallelism."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """
    A file with rows.

    :param path: its path in the upstream's folder.
    :param size: its size in bytes.
    :param modified: when it was written, in milliseconds since 1970.
    :param rows: the number of its rows.
    :param added_at: when its rows became part of the upstream, in milliseconds since 1970.
    :param details: what else its source needs to read it.
    """

    path: str
    size: int
    modified: int
    rows: int
    added_at: int
    details: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedFile:
    """
    A file whose rows have places.

    :param number: its number in the log.
    :param split: the split that it was added to.
    :param begin: the place of its first row.
    :param revision: how often its entry was amended.
    """

    number: int
    split: int
    begin: int
    file: FoundFile
    revision: int = 0

    @property
    def end(self) -> int:
        """The place after its last row."""
        return self.begin + self.file.rows

    @property
    def is_withdrawn(self) -> bool:
        """Whether its places have no rows, and never will."""
        return not self.file.path

    def at(self, file: FoundFile) -> PlacedFile:
        """Return the entry of the same rows in another file."""
        return replace(self, file=file, revision=self.revision + 1)

    def withdrawn(self) -> PlacedFile:
        """Return the entry without rows: its places stay empty, because places are never given anew."""
        return self.at(replace(self.file, path=""))


@dataclass(frozen=True, slots=True)
class FilePart:
    """
    The rows of a file at places ``[begin, end)``.

    :param placed: the file.
    """

    placed: PlacedFile
    begin: int
    end: int


class PlacedFiles:
    """
    The files of a log, in its order.

    :param entries: the entries; of those with one number, the one that was amended most often counts.
    """

    def __init__(self, entries: Sequence[PlacedFile] = ()) -> None:
        newest = {entry.number: entry for entry in sorted(entries, key=lambda one: (one.number, one.revision))}
        self._all = [*newest.values()]
        self.files = [entry for entry in self._all if not entry.is_withdrawn]

    @cached_property
    def withdrawn(self) -> list[SplitRange]:
        """The places that have no rows."""
        return [SplitRange(one.split, one.begin, one.end) for one in self._all if one.is_withdrawn]

    def missing_in(self, places: SplitRange) -> int:
        """Return how many of some places have no rows."""
        return sum(
            max(min(one.end, places.end) - max(one.begin, places.begin), 0)
            for one in self.withdrawn
            if one.split == places.split
        )

    @cached_property
    def ends(self) -> dict[int, int]:
        """For each split the place after its last row."""
        return _ends(self._all)

    @cached_property
    def by_path(self) -> Mapping[str, PlacedFile]:
        """The files by their paths."""
        return {placed.file.path: placed for placed in self.files}

    def and_then(self, found: Iterable[FoundFile]) -> list[PlacedFile]:
        """
        Give places to the rows of files that are not in the log, one after the other.

        Each goes to the split with the fewest rows, so that splits have about the same number.
        """
        ends, number = dict(self.ends), len(self._all)
        placed = []
        for file in found:
            split = min(ends, key=lambda one: (ends[one], one))
            placed.append(PlacedFile(number=number, split=split, begin=ends[split], file=file))
            ends[split] += file.rows
            number += 1
        return placed

    def with_more(self, found: Iterable[FoundFile]) -> PlacedFiles:
        """Return these files and others that are not in the log."""
        return PlacedFiles([*self._all, *self.and_then(found)])

    def parts(self, ranges: Sequence[SplitRange]) -> list[FilePart]:
        """Return what files have of some places, in the log's order."""
        wanted: dict[int, list[SplitRange]] = {}
        for places in ranges:
            wanted.setdefault(places.split, []).append(places)
        return [
            FilePart(placed, max(placed.begin, places.begin), min(placed.end, places.end))
            for placed in self.files
            for places in wanted.get(placed.split, ())
            if max(placed.begin, places.begin) < min(placed.end, places.end)
        ]

    def ends_at(self, instant: dt.datetime) -> dict[int, int] | None:
        """
        Return the splits' ends before the first file that was added after an instant.

        :returns: ``None`` if all were added later.
        """
        milliseconds = instant.timestamp() * 1000
        count = next(
            (number for number, placed in enumerate(self._all) if placed.file.added_at > milliseconds),
            len(self._all),
        )
        return None if self._all and not count else _ends(self._all[:count])

    def newest_time(self, ends: Mapping[int, int]) -> dt.datetime | None:
        """Return when the newest of the files with places before some ends was added; ``None`` if there is none."""
        times = [placed.file.added_at for placed in self.files if placed.begin < ends.get(placed.split, 0)]
        return instant_of(max(times)) if times else None


def instant_of(milliseconds: int) -> dt.datetime:
    """Return an instant from its milliseconds since 1970."""
    return dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC)


def merged(parts: Iterable[FilePart]) -> list[SplitRange]:
    """Return the places of parts as few ranges."""
    found: list[SplitRange] = []
    for split, begin, end in sorted((part.placed.split, part.begin, part.end) for part in parts):
        if found and (found[-1].split, found[-1].end) == (split, begin):
            found[-1] = SplitRange(split, found[-1].begin, end)
        else:
            found.append(SplitRange(split, begin, end))
    return found


def _ends(files: Sequence[PlacedFile]) -> dict[int, int]:
    ends = dict.fromkeys(range(SPLIT_COUNT), 0)
    for placed in files:
        ends[placed.split] = placed.end
    return ends
