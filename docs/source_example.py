"""
Play the worked example of ``source`` in the concepts, and print its tables.

``python -m docs.source_example --write`` puts them into the page. It starts neither Spark nor a broker. The package's
own functions share the rate limit, plan the chunks, decide about changes and move the state; the topic, and what Spark
does with rows, are written in plain Python. After each epoch, the view is compared with the records of the topic.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from airflow_backfill_provider.core.scan.keys import KeyField, KeyOrder, KeyRange
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.scan.progress import BackfillState, Completed, InProgress, NotStarted, position_of
from airflow_backfill_provider.core.scan.spark_hash import vnode_of_number
from airflow_backfill_provider.core.scan.splits import SplitRange, split_progress
from airflow_backfill_provider.sources.split_offsets import ends_of, offset_of
from airflow_backfill_provider.strategies.source.chunks import SplitBounds, next_ranges, places_of
from airflow_backfill_provider.strategies.vnode_scan import VnodeScan
from docs.example_topic import ExampleTopic, Written, aborted, committed, opened, records, span
from docs.generated import main, table

PAGES = (Path(__file__).parent / "concepts" / "examples" / "source.md",)
ORDER = KeyOrder((KeyField(name="partition", type="integer"), KeyField(name="offset", type="long")))
VNODES = 5
RATE_LIMIT = 6
PARTITIONS = 3
FIRST = (records(0, 8), records(1, 2), opened(1, 2), aborted(1), records(1, 2))

Key = tuple[int, int]
"""A record's partition and offset."""


@dataclass(frozen=True)
class Played:
    """
    An epoch of the example.

    :param before: what is written to the topic before the epoch is requested.
    :param dies_before: what is written after the first attempt died, before its chunk was in the view; ``None`` if it
        lives.
    """

    before: Sequence[Written] = ()
    dies_before: Sequence[Written] | None = None


EPOCHS = (
    Played(),
    Played(before=[records(0), records(2), records(3, 8), records(4)]),
    Played(before=[records(0), records(1)], dies_before=[records(1)]),
    Played(before=[records(0), opened(2), records(2)]),
    Played(before=[records(0), committed(2)]),
)


@dataclass(frozen=True)
class Barrier:
    """What the barrier of an epoch pins."""

    after: Offset
    up_to: Offset
    read_before: Sequence[KeyRange]
    chunk: Sequence[KeyRange]


class Example:
    """The topic, the view, and the epochs of the job."""

    def __init__(self) -> None:
        self.topic = ExampleTopic(PARTITIONS)
        self.scan = VnodeScan(ORDER, VNODES, frozenset(range(VNODES)))
        self.state = self.scan.initial(0)
        self.view: Counter[Key] = Counter()
        self.blocks: dict[str, str] = {}
        for written in FIRST:
            self.topic.write(written)
        self.begins: Mapping[int, int] = dict.fromkeys(range(PARTITIONS), 0)
        self.reached = offset_of(self.begins)
        self.live_from = self.topic.ends

    def play(self) -> dict[str, str]:
        """Play all epochs and return the blocks of the page."""
        lines = [line for places in self.topic.whole() for line in self.topic.described(places)]
        empty = [(places.split, "none", "nothing yet") for places in self.topic.whole() if not places.size]
        self.blocks["source topic"] = table(("partition", "offsets", "what lies there"), sorted([*lines, *empty]))
        self.blocks["source vnodes"] = table(
            ("partition", "vnode"),
            [(partition, vnode_of_number(partition, VNODES)) for partition in range(PARTITIONS + 2)],
        )
        for number, epoch in enumerate(EPOCHS, start=1):
            self._epoch(number, epoch)
        return self.blocks

    # -------------------------------------------------------------------------------------------------- epochs

    def _epoch(self, number: int, epoch: Played) -> None:
        name = f"source epoch {number}"
        self._write(f"{name} written", epoch.before)
        barrier = self._pinned()
        before = self.state
        changes = self._changes(barrier)
        self.blocks[f"{name} barrier"] = table(
            ("epoch", "window after", "window up to"), [(number, _ends(barrier.after), _ends(barrier.up_to))]
        )
        if number > 1:
            self.blocks[f"{name} changes"] = self._fates(barrier, before)
        self.view.update(changes)
        rows = self._rows(barrier)
        if epoch.dies_before is not None:
            self._write(f"{name} meanwhile", epoch.dies_before)
            _require(self._rows(barrier) == rows, "I2: the second attempt reads the same records")
            self.blocks["source choices"] = self._choices(barrier)
        self.view.update(rows)
        counts = Counter(vnode_of_number(partition, VNODES) for partition, _ in rows)
        self.state = self.scan.advanced(before, epoch=number, ranges=barrier.chunk, rows=counts)
        if barrier.chunk:
            self.blocks[f"{name} chunk"] = self._chunk(barrier, before)
        self.reached = barrier.up_to
        self._require_truth()
        self.blocks[f"{name} result"] = self._result()

    def _pinned(self) -> Barrier:
        up_to = offset_of(self.topic.ends)
        return Barrier(
            self.reached,
            up_to,
            self.scan.read(self.state),
            next_ranges(self.scan, self.state, self._bounds(up_to), limit=RATE_LIMIT),
        )

    def _bounds(self, up_to: Offset) -> SplitBounds:
        return SplitBounds(begins=self.begins, ends=ends_of(up_to))

    def _rows(self, barrier: Barrier) -> list[Key]:
        """Return the records of a chunk."""
        return self._read(places_of(self.scan, barrier.chunk, self._bounds(barrier.up_to)))

    def _changes(self, barrier: Barrier) -> list[Key]:
        """Return the records of a window that the position lets through."""
        return [key for key in self._read(_window(barrier)) if self._is_in(barrier.read_before, key)]

    def _read(self, places: Iterable[SplitRange]) -> list[Key]:
        return [key for part in places for key in self.topic.rows(part)]

    def _is_in(self, ranges: Sequence[KeyRange], key: Key) -> bool:
        position = (vnode_of_number(key[0], VNODES), *key)
        return any(covered.contains(position, self.scan.order) for covered in ranges)

    def _require_truth(self) -> None:
        everything = [SplitRange(partition, 0, end) for partition, end in ends_of(self.reached).items()]
        read = self.scan.read(self.state)
        truth = Counter(key for key in self._read(everything) if self._is_in(read, key))
        _require(self.view == truth, f"I1: {self.view} is {truth}")

    # -------------------------------------------------------------------------------------------------- tables

    def _write(self, name: str, written: Sequence[Written]) -> None:
        if not written:
            return
        lines: list[tuple[int, str, str]] = []
        for one in written:
            for partition, offsets, what in self.topic.described(self.topic.write(one)):
                lines.append((partition, offsets, what))
        self.blocks[name] = table(("partition", "offsets", "what is written"), lines)

    def _chunk(self, barrier: Barrier, before: BackfillState) -> str:
        places = places_of(self.scan, barrier.chunk, self._bounds(barrier.up_to))
        lines = []
        for vnode in range(VNODES):
            if isinstance(before.vnodes[vnode], Completed):
                continue
            parts = [part for part in places if vnode_of_number(part.split, VNODES) == vnode]
            offsets = "; ".join(f"partition {part.split}: {span(range(part.begin, part.end))}" for part in parts)
            size, rows = sum(part.size for part in parts), len(self._read(parts))
            lines.append((vnode, offsets or "none", size, rows, _progress(self.state.vnodes[vnode])))
        return table(("vnode", "offsets", "places", "rows", "the vnode afterwards"), lines)

    def _fates(self, barrier: Barrier, before: BackfillState) -> str:
        lines = []
        for part in _window(barrier):
            keys = self.topic.rows(part)
            progress = before.vnodes[vnode_of_number(part.split, VNODES)]
            for is_let_through, run in groupby(keys, key=lambda key: self._is_in(barrier.read_before, key)):
                offsets = [offset for _, offset in run]
                fate = "the view gets it" if is_let_through else "dropped: a chunk reads it"
                lines.append((part.split, _listed(offsets), _progress(progress), fate))
        return table(("partition", "offsets", "vnode before the epoch", "what becomes of the change"), lines)

    def _choices(self, barrier: Barrier) -> str:
        """Return what the view would have of partition 1 after the next epoch, if the chunk ended elsewhere."""
        partition = 1
        next_window = [SplitRange(partition, ends_of(barrier.up_to)[partition], self.topic.ends[partition])]
        read = [key for key in self.view if key[0] == partition]
        lines = []
        for what, end in (
            ("the topic ended when the job was created", self.live_from[partition]),
            ("the topic ends when the attempt runs", self.topic.ends[partition]),
            ("the window ends", ends_of(barrier.up_to)[partition]),
        ):
            begin = max(offset for _, offset in read) + 1
            chunk = self._read([SplitRange(partition, begin, end)])
            found = Counter([*read, *chunk, *self._read(next_window)])
            truth = Counter(self._read([SplitRange(partition, 0, self.topic.ends[partition])]))
            wrong = [f"{offset} is there twice" for (_, offset), count in sorted(found.items()) if count > 1]
            wrong += [f"{offset} is lost" for _, offset in sorted(truth - found)]
            lines.append((what, _listed([offset for _, offset in sorted(found)]), "; ".join(wrong) or "right"))
        return table(("the chunk ends where", "offsets in the view after the next epoch", "outcome"), lines)

    def _result(self) -> str:
        state = [
            (
                vnode,
                *(position_of(progress) or (None, None)),
                isinstance(progress, Completed),
                progress.row_count,
                self.state.epoch,
            )
            for vnode, progress in enumerate(self.state.vnodes)
        ]
        progress = split_progress(self.state, begins=self.begins, live_from=self.live_from, ends=ends_of(self.reached))
        splits = [
            (
                partition,
                split.stage.value.replace("_", " "),
                f"{split.read.end} of {split.end}",
                _listed(sorted(offset for found, offset in self.view if found == partition)),
            )
            for partition, split in sorted(progress.items())
        ]
        return (
            "The state table afterwards:\n\n"
            + table(("vnode", "partition", "offset", "backfill_finished", "row_count", "epoch"), state)
            + "\nThe partitions, and their records in the view:\n\n"
            + table(("partition", "stage", "next offset", "offsets in the view"), splits)
        )


def make() -> dict[str, str]:
    """Return the blocks of the page."""
    return Example().play()


def _window(barrier: Barrier) -> list[SplitRange]:
    known = ends_of(barrier.after)
    return [SplitRange(partition, known.get(partition, 0), end) for partition, end in ends_of(barrier.up_to).items()]


def _ends(offset: Offset) -> str:
    return ", ".join(map(str, ends_of(offset).values()))


def _listed(offsets: Sequence[int]) -> str:
    """Return offsets in words, with a comma at each gap."""
    runs = []
    for _, run in groupby(enumerate(offsets), key=lambda at: at[1] - at[0]):
        runs.append(span([offset for _, offset in run]))
    return ", ".join(runs) or "none"


def _progress(progress: NotStarted | InProgress | Completed) -> str:
    if isinstance(progress, InProgress):
        partition, offset = progress.position
        return f"InProgress at offset {offset} of partition {partition}"
    return type(progress).__name__


def _require(condition: bool, message: str) -> None:  # noqa: FBT001 - an assertion
    if not condition:
        raise AssertionError(message)


if __name__ == "__main__":
    sys.exit(main(PAGES, make()))
