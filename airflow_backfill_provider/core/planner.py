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

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from airflow_backfill_provider.core.file_statistics import (
    FileStatistics,
    KeyIndex,
    is_full,
    lies_within,
    may_hold_some_of,
)
from airflow_backfill_provider.core.keys import KeyOrder, KeyRange, Position

CLOSE_ENOUGH = 0.9
"""A cut at file bounds that fills this share of the rate limit is taken without reading any key."""

SCAN_FACTOR = 4
"""An epoch that must scan more than this multiple of the rows that it reads is warned of."""


@dataclass(frozen=True, slots=True)
class ChunkPlan:
    """
    What one run shall read in one epoch.

    :param ranges: the chunk, in scan order.
    :param rows: rows in it, by statistics and keys.
    :param completes: whether nothing is left to read afterwards.
    :param scanned_files: data files that may hold rows of the chunk.
    :param scanned_rows: rows in those.
    :param scanned_bytes: bytes of those.
    :param warnings: why the plan costs more than it should, if it does.
    """

    ranges: tuple[KeyRange, ...]
    rows: int
    completes: bool
    scanned_files: int
    scanned_rows: int
    scanned_bytes: int
    warnings: tuple[str, ...] = field(default=())


def plan_chunk(
    files: Sequence[FileStatistics],
    *,
    unread: Sequence[KeyRange],
    rate_limit: int | None,
    order: KeyOrder,
    keys: KeyIndex,
) -> ChunkPlan:
    """
    Choose the next chunk: as many unread rows, in scan order, as the rate limit allows.

    The result is a function of its arguments: two planners of one table version agree.

    :param files: the snapshot's data files.
    :param unread: what is left to read, in scan order.
    :param rate_limit: rows at most, from 1; ``None`` for all that is left.
    :param order: the scan's order.
    :param keys: exact keys, asked for as few files as possible.
    """
    if rate_limit is not None and rate_limit < 1:
        raise ValueError(f"rate_limit is {rate_limit}; a barrier that reads no snapshot has no chunk to plan")
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


def plan_parts(
    files: Sequence[FileStatistics],
    *,
    unread: Sequence[Sequence[KeyRange]],
    rate_limit: int | None,
    order: KeyOrder,
    keys: KeyIndex,
) -> tuple[ChunkPlan, ...]:
    """
    Choose the chunks of parallel runs, which share one rate limit fairly.

    Each run gets the same share of it; what one does not need, the others get.

    :param unread: for each run, what is left for it to read, in scan order.
    :returns: a plan for each run; without ranges for one that gets nothing.
    """
    plans: dict[int, ChunkPlan] = {run: _nothing(ranges) for run, ranges in enumerate(unread)}
    hungry = [run for run, ranges in enumerate(unread) if ranges]
    if rate_limit is None or len(hungry) == 1:
        for run in hungry:
            plans[run] = plan_chunk(files, unread=unread[run], rate_limit=rate_limit, order=order, keys=keys)
        return tuple(plans.values())
    while hungry:
        shares = _shares(rate_limit, plans, hungry)
        grown = {
            run: plan_chunk(files, unread=unread[run], rate_limit=share, order=order, keys=keys)
            for run, share in shares.items()
        }
        # What a run that has enough does not read is the others'; files that it shares with them must not count whole.
        plans |= {run: _counted(plan, files, order, keys) if plan.completes else plan for run, plan in grown.items()}
        still = [run for run in hungry if not plans[run].completes]
        if len(still) == len(hungry):
            break
        hungry = still
    return tuple(plans[run] for run in range(len(unread)))


def _shares(rate_limit: int, plans: dict[int, ChunkPlan], hungry: Sequence[int]) -> dict[int, int]:
    """Return what each run that has not enough yet may read; the first ones get what does not divide evenly."""
    satisfied = sum(plan.rows for run, plan in plans.items() if run not in hungry)
    share, odd = divmod(max(rate_limit - satisfied, 0), len(hungry))
    shares = {run: share + (place < odd) for place, run in enumerate(hungry)}
    return {run: rows for run, rows in shares.items() if rows}


def _counted(plan: ChunkPlan, files: Sequence[FileStatistics], order: KeyOrder, keys: KeyIndex) -> ChunkPlan:
    """Return a plan with the exact number of its rows."""
    rows = sum(
        _rows_within(file, covered, order, keys)
        for covered in plan.ranges
        for file in files
        if may_hold_some_of(file, covered, order)
    )
    return replace(plan, rows=rows)


def _nothing(unread: Sequence[KeyRange]) -> ChunkPlan:
    return ChunkPlan((), 0, not unread, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class _Cut:
    """Where a range is cut, if it is, and how many rows lie before."""

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
    """Cut a range after ``rate_limit`` rows, or not at all if it has no more than that."""
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
    Return the files that begin before all keys of the first ones end, the first ones among them.

    Of a hundred thousand files these are a few, and no other matters where the first ones have keys enough.

    :param files: by their lower bounds.
    """
    if not all(is_full(file.upper, order) for file in first):
        return files
    return _begun_by(files, max((file.upper for file in first), key=order.sort_key), order)


def _begun_by(files: Sequence[FileStatistics], position: Position | None, order: KeyOrder) -> Sequence[FileStatistics]:
    """
    Return the files that may have a key at a position or before it; all, if there is none.

    :param files: by their lower bounds.
    """
    if position is None:
        return files
    return files[: bisect_right(files, 0, key=lambda file: order.compare(file.lower, position))]


@dataclass(frozen=True, slots=True, kw_only=True)
class _FileBound:
    """
    A place where a file ends, as a place for the cut.

    :param at: the file's upper bound.
    :param begun: how many files begin there or before.
    :param ended: how many files end there or before.
    :param ended_rows: their rows, all of which lie before the cut.
    """

    at: Position
    begun: int
    ended: int
    ended_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _CountedBound:
    """
    A place where a file ends, and what a cut there reads.

    :param ended_rows: rows of the files that end there or before.
    :param rows: those, and the rows before the cut in files that end after it.
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
    Return the last place where a file ends with no more rows before it than the rate limit, if there is one.

    Where files are in key order, hardly one begins before such a place and ends after it, but for the small ones that
    changes leave: a few rows with keys from everywhere. Their keys are counted, lest for want of these few the keys
    of the large files have to be read.
    """
    ending = sorted((file for file in rest if is_full(file.upper, order)), key=lambda file: order.sort_key(file.upper))
    places = {file.path: place for place, file in enumerate(ending)}

    def rows_before(bound: _FileBound) -> int:
        """Count the rows before a bound; once they are too many, no further."""
        rows = bound.ended_rows
        for file in rest[: bound.begun]:
            if rows > rate_limit:
                break
            if places.get(file.path, len(ending)) >= bound.ended:
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
    """Return the places in a range where files end, in key order, as far as those files' rows fit."""
    bounds: list[_FileBound] = []
    begun, rows = 0, 0
    for place, file in enumerate(ending):
        rows += counts[file.path]
        if rows > rate_limit:
            break
        while begun < len(rest) and order.compare(rest[begun].lower, file.upper) <= 0:
            begun += 1
        if not within.contains(file.upper, order):
            continue
        if bounds and order.compare(bounds[-1].at, file.upper) == 0:
            bounds.pop()
        bounds.append(_FileBound(at=file.upper, begun=begun, ended=place + 1, ended_rows=rows))
    return bounds


def _nth_key(
    files: Sequence[FileStatistics],
    counts: dict[str, int],
    within: KeyRange,
    wanted: int,
    order: KeyOrder,
    keys: KeyIndex,
) -> Position | None:
    """Return the ``wanted``-th smallest key of the files, reading no file that begins after it."""
    loaded, rows = 0, 0
    while loaded < len(files) and rows < wanted:
        rows += counts[files[loaded].path]
        loaded += 1
    while True:
        key = keys.nth(files[:loaded], within, wanted)
        if key is None:
            # The files may hold fewer keys than are counted.
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
    files: Sequence[FileStatistics],
    scanned: Sequence[FileStatistics],
    chunk: tuple[KeyRange, ...],
    planned_rows: int,
    rate_limit: int | None,
    *,
    completes: bool,
) -> ChunkPlan:
    rows = sum(file.stored_rows for file in scanned)
    warnings = []
    largest = max((file.stored_rows for file in files), default=0)
    if rate_limit is not None and not completes and rows > SCAN_FACTOR * rate_limit + 2 * largest:
        warnings.append(
            f"the epoch must scan {len(scanned)} of {len(files)} files ({rows} rows) to read {rate_limit} rows: the "
            "upstream's files are not laid out in the key's order, so statistics cannot bound a chunk. Raise the rate "
            "limit, rewrite the upstream ordered by its key, or rebuild the job with strategy arrangement"
        )
    return ChunkPlan(
        ranges=chunk,
        rows=planned_rows,
        completes=completes,
        scanned_files=len(scanned),
        scanned_rows=rows,
        scanned_bytes=sum(file.size for file in scanned),
        warnings=tuple(warnings),
    )


def _by_lower_bound(files: Sequence[FileStatistics], order: KeyOrder) -> list[FileStatistics]:
    # A shorter bound covers more keys than a longer one with the same beginning, so it comes first.
    return sorted(files, key=lambda file: (order.sort_key(file.lower), file.path))


def _rows_within(file: FileStatistics, covered: KeyRange, order: KeyOrder, keys: KeyIndex) -> int:
    """Return the rows of a file in a range, by its statistics if they tell."""
    return file.row_count if file.is_exact and lies_within(file, covered, order) else keys.count(file, covered)
