"""
Splits, to which rows are appended, and how far a backfill has read each.

Ports the states of the streaming executor of sources: a split is read up to a place; then it catches up with what was
appended since the backfill began; then it is finished, and everything that comes is a change. One difference: here the
state follows from the position of the split's vnode, and is not stored a second time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from airflow_backfill_provider.core.scan.progress import BackfillState, Completed, InProgress
from airflow_backfill_provider.core.scan.spark_hash import vnode_of_number


@dataclass(frozen=True, slots=True, order=True)
class SplitRange:
    """
    Places of rows in one split, as ``[begin, end)``.

    Not every place has a row: compaction and control records leave gaps.

    :param split: the split's number.
    """

    split: int
    begin: int
    end: int

    @property
    def size(self) -> int:
        """The number of places."""
        return max(self.end - self.begin, 0)


class SplitStage(StrEnum):
    """How far the backfill of a split is."""

    BACKFILLING = "backfilling"
    CATCHING_UP = "catching_up"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class SplitProgress:
    """
    The progress of one split.

    :param read: the places that are read; without those that were gone before the backfill began.
    :param end: the place after its last row, as of the offset that was asked about.
    """

    stage: SplitStage
    read: SplitRange
    end: int


def splits_by_vnode(splits: Iterable[int], vnode_count: int) -> dict[int, list[int]]:
    """Return for each vnode that has splits their numbers, in order."""
    found: dict[int, list[int]] = defaultdict(list)
    for split in sorted(splits):
        found[vnode_of_number(split, vnode_count)].append(split)
    return dict(found)


def split_progress(
    state: BackfillState, *, begins: Mapping[int, int], live_from: Mapping[int, int], ends: Mapping[int, int]
) -> dict[int, SplitProgress]:
    """
    Return the progress of each split.

    :param begins: split → the first place that the backfill reads; 0 if it is missing.
    :param live_from: split → the end of what was there when the backfill began; what comes after is caught up with.
    :param ends: split → the place after its last row that is committed to be read.
    """
    found = {}
    for vnode, splits in splits_by_vnode(ends, len(state.vnodes)).items():
        progress = state.vnodes[vnode]
        for split in splits:
            begin, end = begins.get(split, 0), ends[split]
            next_place = begin
            if isinstance(progress, Completed):
                next_place = end
            elif isinstance(progress, InProgress):
                next_place = _next_place(progress, split, begin, end)
            is_behind = next_place < live_from.get(split, 0)
            stage = SplitStage.BACKFILLING if is_behind else SplitStage.CATCHING_UP
            if isinstance(progress, Completed):
                stage = SplitStage.FINISHED
            found[split] = SplitProgress(stage, SplitRange(split, begin, next_place), end)
    return found


def _next_place(progress: InProgress, split: int, begin: int, end: int) -> int:
    """Return the place after those that were read; splits of one vnode are read one after the other."""
    current, place = progress.position
    if not isinstance(current, int) or not isinstance(place, int):
        raise TypeError(f"{progress.position} is not a place in a split")
    if split == current:
        return place + 1
    return end if split < current else begin
