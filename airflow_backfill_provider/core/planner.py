"""
Where the next chunk of the snapshot ends.

A streaming executor reads until the barrier comes and takes the last row's key as its position. Here the
position is chosen first, from the Delta log's file statistics and the rate limit, and pinned in the barrier; then
the epoch reads exactly the keys in between (I2). Any point of the key space is a correct boundary (I1 does not
depend on the planner); the planner's business is the *number* of rows.

The rate limit is kept to the row, however keys are skewed inside a file: whole files are counted by their
statistics while that is sharp enough, and where it is not, the key columns (nothing else) of the few files around the
boundary are read. Files laid out in key order make that one or two files; files in random order make it all of them,
which :attr:`ChunkPlan.warnings` tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cmp_to_key
from typing import Protocol

from airflow_backfill_provider.core.keys import KeyOrder, KeyValue, Position
from airflow_backfill_provider.core.progress import SnapshotRange

CLOSE_ENOUGH = 0.9
"""A cut at file bounds that fills this share of the rate limit is taken without reading any key."""

SCAN_FACTOR = 4
"""An epoch that must scan more than this multiple of the rows that it reads is warned of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatistics:
    """
    What the Delta log says of one data file.

    :param path: identifies the file to a :class:`KeyIndex`.
    :param row_count: rows in it; deleted ones may be counted.
    :param size: bytes.
    :param lower: a lower bound of its keys in key order: values of the leading key columns, as many as
        have statistics; empty if none has.
    :param upper: an upper bound likewise.
    """

    path: str
    row_count: int
    size: int = 0
    lower: tuple[KeyValue | None, ...] = ()
    upper: tuple[KeyValue | None, ...] = ()


class KeyIndex(Protocol):
    """Exact keys of data files, for where statistics are too coarse."""

    def count(self, file: FileStatistics, *, after: Position | None) -> int:
        """Return the number of the file's keys behind a position."""
        ...

    def nth(self, files: Sequence[FileStatistics], *, after: Position | None, n: int) -> Position | None:
        """Return the n-th smallest (from 1) of the files' keys behind a position; None if there are fewer."""
        ...


@dataclass(frozen=True, slots=True)
class ChunkPlan:
    """
    The chunk that one epoch shall read.

    :param chunk: its bounds.
    :param scanned_files: data files that may hold rows of the chunk.
    :param scanned_rows: rows in those.
    :param scanned_bytes: bytes of those.
    :param warnings: why the plan costs more than it should, if it does.
    """

    chunk: SnapshotRange
    scanned_files: int
    scanned_rows: int
    scanned_bytes: int
    warnings: tuple[str, ...] = field(default=())


def plan_chunk(
    files: Sequence[FileStatistics],
    *,
    after: Position | None,
    rate_limit: int | None,
    order: KeyOrder,
    keys: KeyIndex,
) -> ChunkPlan:
    """
    Choose the next chunk: as many rows behind ``after`` as the rate limit allows.

    The result is a function of its arguments: two planners of one upstream version agree.

    :param files: the upstream's data files at the version that the chunk will be read at.
    :param after: the current position; ``None`` if nothing was read yet.
    :param rate_limit: rows at most, from 1; ``None`` for all that is left.
    :param order: the key's order.
    :param keys: exact keys, asked for as few files as possible.
    """
    if rate_limit is not None and rate_limit < 1:
        raise ValueError(f"rate_limit is {rate_limit}; a barrier that reads no snapshot has no chunk to plan")
    rest = _by_lower_bound([file for file in files if _may_reach_behind(file, after, order)], order)
    up_to = None if rate_limit is None else _cut(rest, after, rate_limit, order, keys)
    return _describe(rest, files, SnapshotRange(after, up_to), rate_limit, order)


def _cut(
    rest: Sequence[FileStatistics], after: Position | None, rate_limit: int, order: KeyOrder, keys: KeyIndex
) -> Position | None:
    """Return the position that ends a chunk of ``rate_limit`` rows, or None if no more than that are left."""
    if sum(file.row_count for file in rest) <= rate_limit:
        return None
    counts = {
        file.path: keys.count(file, after=after) if _may_start_before(file, after, order) else file.row_count
        for file in rest
    }
    if sum(counts.values()) <= rate_limit:
        return None
    bound = _last_file_bound_within(rest, counts, after, rate_limit, order)
    reaching = [
        file
        for file in rest
        if bound is None or not _is_full(file.upper, order) or order.compare(file.upper, bound) > 0
    ]
    # Files that reach behind the bound are not counted: a few rows with moved keys let a file reach anywhere.
    bounded_rows = sum(counts.values()) - sum(counts[file.path] for file in reaching)
    if bound is not None and bounded_rows >= CLOSE_ENOUGH * rate_limit:
        return bound
    return _nth_key(reaching, counts, after, rate_limit - bounded_rows, order, keys)


def _last_file_bound_within(
    rest: Sequence[FileStatistics],
    counts: dict[str, int],
    after: Position | None,
    rate_limit: int,
    order: KeyOrder,
) -> Position | None:
    """
    Return the last upper bound of a file that is certain to keep the rate limit, if there is one.

    All rows of every file that begins at or before the bound are counted.
    """
    best: Position | None = None
    rows, begun = 0, 0
    uppers = sorted((file.upper for file in rest if _is_full(file.upper, order)), key=cmp_to_key(order.compare))
    for upper in uppers:
        while begun < len(rest) and order.compare(rest[begun].lower, upper) <= 0:
            rows += counts[rest[begun].path]
            begun += 1
        if rows > rate_limit:
            break
        if after is None or order.compare(upper, after) > 0:
            best = upper
    return best


def _nth_key(
    files: Sequence[FileStatistics],
    counts: dict[str, int],
    after: Position | None,
    wanted: int,
    order: KeyOrder,
    keys: KeyIndex,
) -> Position | None:
    """Return the ``wanted``-th smallest key of the files, reading no file that begins behind it."""
    loaded, rows = 0, 0
    while loaded < len(files) and rows < wanted:
        rows += counts[files[loaded].path]
        loaded += 1
    while True:
        key = keys.nth(files[:loaded], after=after, n=wanted)
        if key is None:
            # Statistics count deleted rows, too, so the files may hold fewer keys than they say.
            if loaded == len(files):
                return None
            loaded += 1
            continue
        needed = loaded
        while needed < len(files) and order.compare(files[needed].lower, key) <= 0:
            needed += 1
        if needed == loaded:
            return key
        # More files can only bring smaller keys, so the next answer needs no file beyond these.
        loaded = needed


def _describe(
    rest: Sequence[FileStatistics],
    files: Sequence[FileStatistics],
    chunk: SnapshotRange,
    rate_limit: int | None,
    order: KeyOrder,
) -> ChunkPlan:
    scanned = [file for file in rest if chunk.up_to is None or order.compare(file.lower, chunk.up_to) <= 0]
    rows = sum(file.row_count for file in scanned)
    warnings = []
    largest = max((file.row_count for file in files), default=0)
    if rate_limit is not None and chunk.up_to is not None and rows > SCAN_FACTOR * rate_limit + 2 * largest:
        warnings.append(
            f"the epoch must scan {len(scanned)} of {len(files)} files ({rows} rows) to read {rate_limit} rows: the "
            "upstream's files are not laid out in the key's order, so statistics cannot bound a chunk. Raise the rate "
            "limit, or rewrite the upstream ordered by its key"
        )
    return ChunkPlan(
        chunk=chunk,
        scanned_files=len(scanned),
        scanned_rows=rows,
        scanned_bytes=sum(file.size for file in scanned),
        warnings=tuple(warnings),
    )


def _by_lower_bound(files: Sequence[FileStatistics], order: KeyOrder) -> list[FileStatistics]:
    # A shorter bound covers more keys than a longer one with the same beginning, so it comes first.
    def compare(left: FileStatistics, right: FileStatistics) -> int:
        by_key = order.compare(left.lower, right.lower) or len(left.lower) - len(right.lower)
        return by_key or (left.path > right.path) - (left.path < right.path)

    return sorted(files, key=cmp_to_key(compare))


def _may_reach_behind(file: FileStatistics, after: Position | None, order: KeyOrder) -> bool:
    # A file that ends exactly at the position is kept: strings' and timestamps' bounds are rounded.
    return after is None or order.compare(file.upper, after) >= 0


def _may_start_before(file: FileStatistics, after: Position | None, order: KeyOrder) -> bool:
    return after is not None and order.compare(file.lower, after) <= 0


def _is_full(bound: tuple[KeyValue | None, ...], order: KeyOrder) -> bool:
    return len(bound) == len(order.fields)
