"""
Chooses where the next chunk of the snapshot ends.

A streaming executor reads until the barrier arrives and takes the last row's key as its position. Here the position is
chosen first, from the Delta log's file statistics and the rate limit, and pinned in the barrier. Then the epoch reads
exactly the keys up to it (I2). Any point of the key space is a correct boundary, so I1 does not depend on this module.
It only decides the *number* of rows.

The rate limit is exact to the row, even if keys are skewed inside a file. Whole files are counted by their statistics
where these are precise enough. Elsewhere, only the key columns of the files around the boundary are read. If files are
laid out in key order, these are one or two files. If keys are in random order, these are all files, and
:attr:`ChunkPart.warnings` says so.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from airflow_backfill_provider.core.scan.file_statistics import (
    FileStatistics,
    KeyIndex,
    is_full,
    lies_within,
    may_hold_some_of,
)
from airflow_backfill_provider.core.scan.keys import KeyOrder, KeyRange, Position

CLOSE_ENOUGH = 0.9
"""A cut at a file's bound is accepted without reading keys if it fills at least this share of the rate limit."""

SCAN_FACTOR = 4
"""An epoch gets a warning if it must scan more than this multiple of the rows that it reads."""


@dataclass(frozen=True, slots=True)
class ChunkPart:
    """
    The chunk of an epoch, or one part of it.

    :param ranges: the ranges to read, in scan order.
    :param rows: the rows in them, by statistics and keys.
    :param completes: whether nothing is left to read afterwards.
    :param scanned_files: data files that may have rows of the chunk.
    :param scanned_rows: rows in these files.
    :param scanned_bytes: bytes of these files.
    :param warnings: why the chunk is more expensive than it should be, if it is.
    """

    ranges: tuple[KeyRange, ...]
    rows: int
    completes: bool
    scanned_files: int
    scanned_rows: int
    scanned_bytes: int
    warnings: tuple[str, ...] = field(default=())


def choose_chunk(
    files: Sequence[FileStatistics],
    *,
    unread: Sequence[KeyRange],
    rate_limit: int | None,
    order: KeyOrder,
    keys: KeyIndex,
) -> ChunkPart:
    """
    Choose the next chunk: as many unread rows, in scan order, as the rate limit allows.

    The result depends only on the arguments, so two planners of the same table version agree.

    :param files: the snapshot's data files.
    :param unread: the unread ranges, in scan order.
    :param rate_limit: the most rows, from 1; ``None`` for all unread rows.
    :param order: the scan's order.
    :param keys: exact keys of files; read for as few files as possible.
    """
    if rate_limit is not None and rate_limit < 1:
        raise ValueError(f"rate_limit is {rate_limit}, but must be at least 1 to plan a chunk")
    chunk: list[KeyRange] = []
    scanned: dict[str, FileStatistics] = {}
    rows = 0
    for index, rest in enumerate(unread):
        reaching = _by_lower_bound([file for file in files if may_hold_some_of(file, rest, order)], order)
        left = None if rate_limit is None else rate_limit - rows
        is_last = index == len(unread) - 1
        cut = _cut(reaching, rest, left, order, keys, is_last=is_last)
        chunk.append(KeyRange(rest.after, cut.at) if cut.is_within else rest)
        scanned |= {file.path: file for file in _begun_by(reaching, chunk[-1].up_to, order)}
        rows += cut.rows
        if cut.is_within or rows == rate_limit:
            break
    completes = len(chunk) == len(unread) and (not chunk or chunk[-1] == unread[-1])
    return _describe(files, [*scanned.values()], tuple(chunk), rows, rate_limit, completes=completes)


def choose_parts(
    files: Sequence[FileStatistics],
    *,
    unread: Sequence[Sequence[KeyRange]],
    rate_limit: int | None,
    order: KeyOrder,
    keys: KeyIndex,
) -> tuple[ChunkPart, ...]:
    """
    Choose the parts of a chunk, one per parallel task run; they share one rate limit fairly.

    Each part gets the same share of it. What one part does not need goes to the others.

    :param unread: the unread ranges of each task run, in scan order.
    :returns: one chunk part per task run; without ranges if it gets nothing.
    """
    chosen: dict[int, ChunkPart] = {part: _nothing(ranges) for part, ranges in enumerate(unread)}
    open_parts = [part for part, ranges in enumerate(unread) if ranges]
    if rate_limit is None or len(open_parts) == 1:
        for part in open_parts:
            chosen[part] = choose_chunk(files, unread=unread[part], rate_limit=rate_limit, order=order, keys=keys)
        return tuple(chosen.values())
    while open_parts:
        shares = _shares(rate_limit, chosen, open_parts)
        grown = {
            part: choose_chunk(files, unread=unread[part], rate_limit=share, order=order, keys=keys)
            for part, share in shares.items()
        }
        # A completed part leaves rows to the others, so its rows are counted exactly: it may share files with them.
        chosen |= {
            part: _counted(chunk, files, order, keys) if chunk.completes else chunk for part, chunk in grown.items()
        }
        still_open = [part for part in open_parts if not chosen[part].completes]
        if len(still_open) == len(open_parts):
            break
        open_parts = still_open
    return tuple(chosen[part] for part in range(len(unread)))


def _shares(rate_limit: int, chosen: dict[int, ChunkPart], open_parts: Sequence[int]) -> dict[int, int]:
    """Return how many rows each open part may read; the first parts get the remainder of the division."""
    completed = sum(chunk.rows for part, chunk in chosen.items() if part not in open_parts)
    share, remainder = divmod(max(rate_limit - completed, 0), len(open_parts))
    shares = {part: share + (index < remainder) for index, part in enumerate(open_parts)}
    return {part: rows for part, rows in shares.items() if rows}


def _counted(chunk: ChunkPart, files: Sequence[FileStatistics], order: KeyOrder, keys: KeyIndex) -> ChunkPart:
    """Return a part with the exact number of its rows."""
    return replace(chunk, rows=rows_within(files, chunk.ranges, order, keys))


def rows_within(files: Sequence[FileStatistics], ranges: Sequence[KeyRange], order: KeyOrder, keys: KeyIndex) -> int:
    """Return the exact number of the files' rows in some ranges."""
    return sum(
        _rows_within(file, covered, order, keys)
        for covered in ranges
        for file in files
        if may_hold_some_of(file, covered, order)
    )


def _nothing(unread: Sequence[KeyRange]) -> ChunkPart:
    return ChunkPart((), 0, not unread, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class _Cut:
    """Where a range is cut, if at all, and the number of rows before the cut."""

    rows: int
    at: Position | None = None
    is_within: bool = False


def _cut(
    rest: Sequence[FileStatistics],
    within: KeyRange,
    rate_limit: int | None,
    order: KeyOrder,
    keys: KeyIndex,
    *,
    is_last: bool,
) -> _Cut:
    """Cut a range after ``rate_limit`` rows, or not at all if it has no more rows."""
    stored = sum(file.row_count for file in rest)
    if rate_limit is None or (is_last and stored <= rate_limit and all(file.is_exact for file in rest)):
        return _Cut(stored)
    rows, counts = 0, {}
    for file in rest:
        counts[file.path] = _rows_within(file, within, order, keys)
        rows += counts[file.path]
        if rows > rate_limit:
            break
    else:
        return _Cut(rows)
    near = _begun_by_the_end_of(rest[: len(counts)], rest, order)
    counts |= {file.path: _rows_within(file, within, order, keys) for file in near[len(counts) :]}
    bound = _last_bound_that_fits(near, counts, within, rate_limit, order, keys)
    if bound is None:
        key = _nth_key(rest, counts, within, rate_limit, order, keys)
    elif bound.rows >= CLOSE_ENOUGH * rate_limit:
        return _Cut(bound.rows, bound.at, is_within=True)
    else:
        after = [file for file in rest if not lies_within(file, KeyRange(None, bound.at), order)]
        key = _nth_key(after, counts, within, rate_limit - bound.ended_rows, order, keys)
    return _Cut(rate_limit, key, is_within=key is not None)


def _begun_by_the_end_of(
    first: Sequence[FileStatistics], files: Sequence[FileStatistics], order: KeyOrder
) -> Sequence[FileStatistics]:
    """
    Return the files that begin at or before the greatest upper bound of the first ones, including these.

    These are a few of possibly a hundred thousand files. No other file matters if the first ones have enough keys.

    :param files: in order of their lower bounds.
    """
    if not all(is_full(file.upper, order) for file in first):
        return files
    return _begun_by(files, max((file.upper for file in first), key=order.sort_key), order)


def _begun_by(files: Sequence[FileStatistics], position: Position | None, order: KeyOrder) -> Sequence[FileStatistics]:
    """
    Return the files that may have a key at or before a position; all files if the position is ``None``.

    :param files: in order of their lower bounds.
    """
    if position is None:
        return files
    return files[: bisect_right(files, 0, key=lambda file: order.compare(file.lower, position))]


@dataclass(frozen=True, slots=True, kw_only=True)
class _FileBound:
    """
    The upper bound of a file, as a candidate for the cut.

    :param at: the bound.
    :param begun: the number of files that begin at or before it.
    :param ended: the number of files that end at or before it.
    :param ended_rows: the rows of the files that end at or before it.
    """

    at: Position
    begun: int
    ended: int
    ended_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _CountedBound:
    """
    The upper bound of a file, with the rows that a cut there reads.

    :param ended_rows: rows of the files that end at or before it.
    :param rows: these rows, and those before the cut in files that end after it.
    """

    at: Position
    ended_rows: int
    rows: int


def _last_bound_that_fits(
    rest: Sequence[FileStatistics],
    counts: dict[str, int],
    within: KeyRange,
    rate_limit: int,
    order: KeyOrder,
    keys: KeyIndex,
) -> _CountedBound | None:
    """
    Return the last upper bound of a file that has no more rows before it than the rate limit, if there is one.

    If files are in key order, few files extend across such a bound: small ones, written by changes, with a few rows
    from the whole key range. Counting their keys avoids reading the keys of the large files.
    """
    ending = sorted((file for file in rest if is_full(file.upper, order)), key=lambda file: order.sort_key(file.upper))
    indexes = {file.path: index for index, file in enumerate(ending)}

    def rows_before(bound: _FileBound) -> int:
        """Count the rows before a bound; stop when there are too many."""
        rows = bound.ended_rows
        for file in rest[: bound.begun]:
            if rows > rate_limit:
                break
            if indexes.get(file.path, len(ending)) >= bound.ended:
                rows += keys.count(file, KeyRange(within.after, bound.at))
        return rows

    bounds = _file_bounds(rest, ending, counts, within, rate_limit, order)
    fitting: _CountedBound | None = None
    low, high = 0, len(bounds)
    while low < high:
        middle = (low + high) // 2
        bound = bounds[middle]
        rows = rows_before(bound)
        if rows > rate_limit:
            high = middle
        else:
            fitting = _CountedBound(at=bound.at, ended_rows=bound.ended_rows, rows=rows)
            low = middle + 1
    return fitting


def _file_bounds(
    rest: Sequence[FileStatistics],
    ending: Sequence[FileStatistics],
    counts: dict[str, int],
    within: KeyRange,
    rate_limit: int,
    order: KeyOrder,
) -> list[_FileBound]:
    """Return the upper bounds of files in a range, in key order, as long as the files' rows fit the rate limit."""
    bounds: list[_FileBound] = []
    begun, rows = 0, 0
    for index, file in enumerate(ending):
        rows += counts[file.path]
        if rows > rate_limit:
            break
        while begun < len(rest) and order.compare(rest[begun].lower, file.upper) <= 0:
            begun += 1
        if not within.contains(file.upper, order):
            continue
        if bounds and order.compare(bounds[-1].at, file.upper) == 0:
            bounds.pop()
        bounds.append(_FileBound(at=file.upper, begun=begun, ended=index + 1, ended_rows=rows))
    return bounds


def _nth_key(
    files: Sequence[FileStatistics],
    counts: dict[str, int],
    within: KeyRange,
    wanted: int,
    order: KeyOrder,
    keys: KeyIndex,
) -> Position | None:
    """Return the ``wanted``-th smallest key of the files, without reading files that begin after it."""
    loaded, rows = 0, 0
    while loaded < len(files) and rows < wanted:
        rows += counts[files[loaded].path]
        loaded += 1
    while True:
        key = keys.nth(files[:loaded], within, wanted)
        if key is None:
            # The files may have fewer keys than counted.
            if loaded == len(files):
                return None
            loaded += 1
            continue
        needed = loaded
        while needed < len(files) and order.compare(files[needed].lower, key) <= 0:
            needed += 1
        if needed == loaded:
            return key
        # More files can only make the key smaller, so no further files are needed next time.
        loaded = needed


def _describe(
    files: Sequence[FileStatistics],
    scanned: Sequence[FileStatistics],
    chunk: tuple[KeyRange, ...],
    planned_rows: int,
    rate_limit: int | None,
    *,
    completes: bool,
) -> ChunkPart:
    rows = sum(file.stored_rows for file in scanned)
    warnings = []
    largest = max((file.stored_rows for file in files), default=0)
    if rate_limit is not None and not completes and rows > SCAN_FACTOR * rate_limit + 2 * largest:
        warnings.append(
            f"the epoch must scan {len(scanned)} of {len(files)} files ({rows} rows) to read {rate_limit} rows: the "
            "upstream's files are not laid out in key order. Raise the rate limit, rewrite the upstream in key order, "
            "or rebuild the job with strategy arrangement"
        )
    return ChunkPart(
        ranges=chunk,
        rows=planned_rows,
        completes=completes,
        scanned_files=len(scanned),
        scanned_rows=rows,
        scanned_bytes=sum(file.size for file in scanned),
        warnings=tuple(warnings),
    )


def _by_lower_bound(files: Sequence[FileStatistics], order: KeyOrder) -> list[FileStatistics]:
    # A bound comes before its extensions, because it covers more keys.
    return sorted(files, key=lambda file: (order.sort_key(file.lower), file.path))


def _rows_within(file: FileStatistics, covered: KeyRange, order: KeyOrder, keys: KeyIndex) -> int:
    """Return the rows of a file in a range; read keys only if the statistics are not exact."""
    return file.row_count if file.is_exact and lies_within(file, covered, order) else keys.count(file, covered)
