"""Plans what an epoch reads of the files, and how far it replays the log."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from airflow_backfill_provider.core.epoch.replay import ReplayEpoch
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.scan.keys import KeyRange, Position
from airflow_backfill_provider.core.scan.next_chunk import CLOSE_ENOUGH, SCAN_FACTOR, ChunkPart
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.scan.progress import BackfillState, InProgress, position_of
from airflow_backfill_provider.sources.base import Source
from airflow_backfill_provider.sources.numbered_files import NumberedFile
from airflow_backfill_provider.strategies.base import ChunkInputs, NextChunk
from airflow_backfill_provider.strategies.shared_position import shared
from airflow_backfill_provider.strategies.snapshot.lead_files import files_of, lead_files, opened_leads
from airflow_backfill_provider.strategies.snapshot.scan import BEFORE_ROWS, FILES_END, before_file, place_of


def are_files_read(state: BackfillState) -> bool:
    """Return whether all files are read, so that the log is replayed."""
    progress = shared(state)
    return isinstance(progress, InProgress) and progress.position == FILES_END


def replay_end(
    replay: ReplayEpoch | None, upstream: Source, after: Offset, newest: Offset, *, rate_limit: int | None
) -> Offset:
    """
    Return where the next window ends.

    :param replay: the epoch of the replay; ``None`` while files are read: then the window ends nowhere new.
    :param rate_limit: about how many changes fit into it. Counts come from the upstream's writers and may be wrong, so
        it covers a number of versions at least.
    """
    if replay is None:
        return after
    if rate_limit is None or replay.takes_all:
        return newest
    return files_of(upstream).few_changes(after, newest, rows=rate_limit, steps=replay.least_steps)


def next_files(inputs: ChunkInputs) -> NextChunk:
    """Plan the next run of files, or the end of the backfill if only changes are left and the window reaches them."""
    settings, state = inputs.settings, inputs.state
    is_present = inputs.offset == inputs.newest
    if are_files_read(state):
        # The rows of the pinned version are known, and to list its files again could take long.
        row_count = inputs.previous.upstream.row_count if inputs.previous else 0
        ends = is_present and settings.reads_snapshot
        return NextChunk(row_count, (_plan([], (), KeyRange(FILES_END, None)),) if ends else ())
    share = _share(settings)
    leads = lead_files(settings, inputs.upstream, opened_leads(settings, inputs.storage_options))
    files = [file for lead in leads for file in lead.files]
    row_count = round(sum(file.live for file in files) * share)
    if not settings.reads_snapshot:
        return NextChunk(row_count)
    runs = [*_runs(files, position_of(shared(state)), inputs.rate_limit, share)]
    parts = [
        _plan(part, files, _covered(part, files, is_present=is_present))
        for part in _divided(runs, settings.parallelism)
    ]
    parts[0] = replace(parts[0], warnings=_warnings(files, inputs.rate_limit))
    return NextChunk(row_count, tuple(parts))


def next_range(
    files: Sequence[NumberedFile], position: Position | None, rate_limit: int | None, *, is_present: bool
) -> KeyRange:
    """
    Return the range that one task run reads next.

    :param is_present: whether nothing is left once all files are read, because nothing has changed since.
    """
    return _covered([*_runs(files, position, rate_limit, 1.0)], files, is_present=is_present)


@dataclass(frozen=True, slots=True)
class _Run:
    """
    Some rows of one file, or all that are left of it.

    :param after: the position before them.
    :param up_to: the position of the last one.
    :param rows: how many a reader finds, as far as known.
    """

    number: int
    after: Position | None
    up_to: Position
    rows: int


def _runs(
    files: Sequence[NumberedFile], position: Position | None, rate_limit: int | None, share: float
) -> Iterator[_Run]:
    """Yield the rows to read next, file by file, as many as the rate limit allows."""
    number, row = (0, BEFORE_ROWS) if position is None else place_of(position)
    budget = None if rate_limit is None else rate_limit / share
    left = budget
    for index in range(number, len(files)):
        file = files[index]
        begin = row + 1 if index == number else 0
        after = position if index == number else before_file(index)
        # Of a file that is begun, it is unknown where the deleted rows are.
        live = max(min(file.live, file.stored - begin), 0)
        if left is not None and budget is not None and live > left:
            # A file that is cut is opened twice, so only cut it if the chunk would be much too small otherwise.
            cut = int(left)
            if cut and left > (1 - CLOSE_ENOUGH) * budget:
                yield _Run(index, after, (index, begin + cut - 1), round(cut * share))
            return
        yield _Run(index, after, before_file(index + 1), round(live * share))
        left = None if left is None else left - live


def _divided(runs: Sequence[_Run], parallelism: int) -> list[list[_Run]]:
    """Divide a chunk among task runs, at the bounds of files, into parts of about the same number of rows."""
    if len(runs) <= 1:
        return [list(runs)]
    total = max(sum(run.rows for run in runs), 1)
    parts: list[list[_Run]] = [[] for _ in range(parallelism)]
    before = itertools.accumulate((run.rows for run in runs), initial=0)
    for run, read in zip(runs, before, strict=False):
        parts[min((2 * read + run.rows) * parallelism // (2 * total), parallelism - 1)].append(run)
    return [part for part in parts if part]


def _covered(part: Sequence[_Run], files: Sequence[NumberedFile], *, is_present: bool) -> KeyRange:
    """
    Return the range of a part of the chunk.

    :param is_present: whether nothing is left once all files are read, because nothing has changed since.
    """
    after, up_to = (part[0].after, part[-1].up_to) if part else (None, before_file(0))
    if up_to != before_file(len(files)):
        return KeyRange(after, up_to)
    return KeyRange(after, None if is_present else FILES_END)


def _plan(part: Sequence[_Run], files: Sequence[NumberedFile], covered: KeyRange) -> ChunkPart:
    scanned = [files[run.number] for run in part]
    return ChunkPart(
        ranges=(covered,),
        rows=sum(run.rows for run in part),
        completes=covered.up_to in {None, FILES_END},
        scanned_files=len(scanned),
        scanned_rows=sum(file.stored for file in scanned),
        scanned_bytes=sum(file.size for file in scanned),
    )


def _share(settings: JobSettings) -> float:
    """Return the estimated share of the rows that the job reads."""
    job = settings.definition
    return len(job.vnodes) / job.vnode_count


def _warnings(files: Sequence[NumberedFile], rate_limit: int | None) -> tuple[str, ...]:
    largest = max((file.stored for file in files), default=0)
    if rate_limit is None or largest <= SCAN_FACTOR * rate_limit:
        return ()
    warning = (
        f"the largest file has {largest} rows, and each epoch that reads {rate_limit} of them opens it again; raise "
        "the rate limit, or rewrite the upstream in smaller files"
    )
    return (warning,)
