"""
Play the worked example of ``snapshot`` in the concepts, and print its tables.

``python -m docs.snapshot_example --write`` puts them into the page. It does not start Spark. The package's own
functions plan the runs of files, end the windows and move the state; the upstream, and what Spark does with rows, are
written in plain Python. After each epoch, the view is compared with the upstream's rows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from airflow_backfill_provider.core.scan.columns import OwnColumns
from airflow_backfill_provider.core.scan.keys import KeyRange
from airflow_backfill_provider.core.scan.progress import BackfillState, Completed, InProgress, NotStarted
from airflow_backfill_provider.sources.numbered_files import NumberedFile
from airflow_backfill_provider.strategies.snapshot.next_chunk import next_range
from airflow_backfill_provider.strategies.snapshot.scan import FILES_END, SnapshotScan
from docs.generated import main, table

if TYPE_CHECKING:
    from airflow_backfill_provider.core.scan.keys import Position

PAGES = (Path(__file__).parent / "concepts" / "examples" / "snapshot.md",)
RATE_LIMIT = 4
FILES = (("k", "c", "x"), ("p", "a"), ("m", "z", "f"))
"""The keys in each file of the pinned version, in the order of the rows."""

Row = tuple[str, int]
Change = tuple[str, str, int | None]
"""What a statement did, and to which key: its new value, or ``None`` for a delete."""

PINNED = 7
COMMITS: Mapping[int, Sequence[Change]] = {
    8: (("UPDATE", "c", 30), ("UPDATE", "f", 60)),
    9: (("DELETE", "a", None), ("INSERT", "b", 20)),
    10: (("UPDATE", "c", 31), ("UPDATE", "b", 21), ("DELETE", "z", None)),
}
ARRIVED = {1: 7, 2: 8, 3: 10, 4: 10}
"""The newest version when each epoch is requested."""


@dataclass(frozen=True)
class Epoch:
    """What one epoch does."""

    number: int
    window: tuple[int, int]
    ranges: Sequence[KeyRange]


class Example:
    """The upstream, the view, and the epochs of the job."""

    def __init__(self) -> None:
        self.scan = SnapshotScan(2, OwnColumns())
        self.state = self.scan.initial(0)
        self.view: dict[str, int] = {}
        self.reached = PINNED
        self.blocks: dict[str, str] = {}

    def play(self) -> dict[str, str]:
        """Play all epochs and return the blocks of the page."""
        self.blocks["snapshot files"] = table(
            ("file", "row 0", "row 1", "row 2"),
            [(number, *(_row((key, 0)) for key in keys), *[""] * (3 - len(keys))) for number, keys in enumerate(FILES)],
        )
        self.blocks["snapshot commits"] = table(
            ("version", "what it did", "when"),
            [
                (
                    version,
                    "; ".join(_change(change) for change in changes),
                    f"before epoch {min(epoch for epoch, newest in ARRIVED.items() if newest >= version)}",
                )
                for version, changes in COMMITS.items()
            ],
        )
        lines = [self._epoch(number) for number in ARRIVED]
        self.blocks["snapshot epochs"] = table(
            ("epoch", "newest version", "window", "files read", "changes applied", "position afterwards"), lines
        )
        self.blocks["snapshot view"] = table(("key", "value"), sorted(self.view.items()))
        return self.blocks

    def _epoch(self, number: int) -> tuple[object, ...]:
        newest, are_read = ARRIVED[number], self._position() == FILES_END
        # In these commits, the rate limit lets two versions through.
        up_to = min(self.reached + 2, newest) if are_read else PINNED
        epoch = Epoch(number, (self.reached, up_to), self._ranges(is_present=up_to == newest))
        changes = self._net(epoch.window)
        for key, value in changes.items():
            self.view.pop(key, None)
            if value is not None:
                self.view[key] = value
        rows = [key for covered in epoch.ranges for key in self._rows(covered)]
        self.view.update(dict.fromkeys(rows, 0))
        self.state = self.scan.advanced(self.state, epoch=number, ranges=epoch.ranges, rows={0: len(rows)})
        self.reached = up_to
        self._require_truth()
        window = f"({epoch.window[0]}, {up_to}]" if up_to > epoch.window[0] else f"none: still {up_to}"
        return number, newest, window, _listed(rows), _listed(map(_net, changes.items())), _progress(self.state)

    def _ranges(self, *, is_present: bool) -> Sequence[KeyRange]:
        position = self._position()
        if position == FILES_END:
            return [KeyRange(FILES_END, None)] if is_present else []
        files = [
            NumberedFile(path=str(number), stored=len(keys), live=len(keys), is_exact=True, size=0)
            for number, keys in enumerate(FILES)
        ]
        return [next_range(files, position, RATE_LIMIT, is_present=is_present)]

    def _position(self) -> Position | None:
        return getattr(self.state.vnodes[0], "position", None)

    def _rows(self, covered: KeyRange) -> Iterable[str]:
        for number, keys in enumerate(FILES):
            for index, key in enumerate(keys):
                if covered.contains((number, index), self.scan.order):
                    yield key

    def _net(self, window: tuple[int, int]) -> dict[str, int | None]:
        """Return the last change of each key in a window."""
        versions = [version for version in COMMITS if window[0] < version <= window[1]]
        return {key: value for version in versions for _, key, value in COMMITS[version]}

    def _require_truth(self) -> None:
        read = self.scan.read(self.state)
        truth = {key: 0 for covered in read for key in self._rows(covered)}
        truth |= cast("dict[str, int]", self._net((PINNED, self.reached)))
        truth = {key: value for key, value in truth.items() if value is not None}
        if self.view != truth:
            raise AssertionError(f"I1: {self.view} is not {truth}")


def _row(row: Row) -> str:
    return f"{row[0]}: {row[1]}"


def _change(change: Change) -> str:
    verb, key, value = change
    return f"{verb} {key}" + ("" if value is None else f" = {value}")


def _net(change: tuple[str, int | None]) -> str:
    key, value = change
    return f"{key} is gone" if value is None else f"{key}: {value}"


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(texts) or "none"


def _progress(state: BackfillState) -> str:
    match state.vnodes[0]:
        case NotStarted():
            return "not started"
        case InProgress(position=position) if position == FILES_END:
            return "after all files"
        case InProgress(position=(file, row)):
            return f"before file {file!r}" if row == -1 else f"file {file!r}, row {row!r}"
        case Completed():
            return "completed"
        case other:
            raise AssertionError(f"{other} is no progress of this example")


def make() -> dict[str, str]:
    """Return the blocks of the page."""
    return Example().play()


if __name__ == "__main__":
    sys.exit(main(PAGES, make()))
