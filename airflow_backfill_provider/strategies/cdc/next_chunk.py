"""Plans what the next epoch appends to the view of the rows that were read ahead, and what it reads ahead itself."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise, takewhile

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import JobCancelledError, StateError
from airflow_backfill_provider.core.scan.file_statistics import FileStatistics
from airflow_backfill_provider.core.scan.keys import KeyOrder, KeyRange, Position
from airflow_backfill_provider.core.scan.next_chunk import choose_parts
from airflow_backfill_provider.strategies.base import ChunkInputs, NextChunk
from airflow_backfill_provider.strategies.cdc.files import CommittedReading, ReadAheadFiles
from airflow_backfill_provider.strategies.cdc.location import sample_of
from airflow_backfill_provider.strategies.cdc.sample import last_sampled

MOST_CONNECTIONS = 8
"""The most ranges of keys that are read at the same time, each over a connection of its own."""


def next_read_ahead(inputs: ChunkInputs, location: str) -> NextChunk:
    """
    Plan the chunk of an epoch: rows that earlier epochs read ahead.

    :param location: the location of these rows.
    :raises StateError: if they are gone although epochs read them before.
    """
    settings, state = inputs.settings, inputs.state
    files = ReadAheadFiles(location, inputs.storage_options)
    row_count = inputs.upstream.row_count(inputs.offset)
    if not files.exists():
        if settings.cancelled:
            raise JobCancelledError(
                f"job {settings.job['name']} was cancelled and its tables are gone; rebuild the job to start over"
            )
        if inputs.previous is not None:
            raise StateError(
                f"the rows that job {settings.job['name']} read ahead are gone from {files.path}; restore them, or "
                "rebuild the job"
            )
        return NextChunk(row_count, prepares=True)
    if not settings.reads_snapshot:
        return NextChunk(row_count)
    order = settings.scan.order
    readings = _usable(files.readings(order), inputs)
    (unread,) = settings.scan.unread(state)
    end = readings[-1].covered.up_to if readings else unread.after
    is_all = bool(readings) and end == unread.up_to
    if not is_all and (end is None or (unread.after is not None and order.compare(end, unread.after) <= 0)):
        # Nothing is left of what was read ahead, so the epoch only reads ahead.
        return NextChunk(row_count, prepares=True)
    statistics, keys = files.statistics(order, readings)
    parts = choose_parts(
        statistics,
        unread=[(KeyRange(unread.after, end),)],
        rate_limit=inputs.rate_limit,
        order=order,
        keys=keys,
    )
    return NextChunk(row_count, parts, unread=_unread_after_sample(inputs, unread))


def _unread_after_sample(inputs: ChunkInputs, unread: KeyRange) -> int | None:
    """
    Count what is left once the view is past the sample: rows that came since, of which there may be ever more.

    :returns: ``None`` before, where to count would take as long as to read, and if the source does not count.
    """
    settings, present, order = inputs.settings, inputs.upstream.present, inputs.settings.scan.order
    if present is None or inputs.rate_limit is None:
        return None
    last = last_sampled(sample_of(settings), order, inputs.storage_options)
    if last is not None and (unread.after is None or order.compare(unread.after, last) < 0):
        return None
    return present.rows_in(unread)


def reading_name(settings: JobSettings, epoch: int) -> str:
    """Return the name of what an epoch reads ahead."""
    return f"{settings.job['name']}/{settings.incarnation}/{epoch}"


def _usable(readings: Sequence[CommittedReading], inputs: ChunkInputs) -> list[CommittedReading]:
    """
    Return the readings whose rows can be settled at the end of the window: it covers all that their readers saw.

    A window that ends earlier, at an instant in the past, must not have newer rows.

    :raises ChangeFeedGapError: if changes that the rows need are gone.
    """
    present, settings = inputs.upstream.present, inputs.settings
    if present is None:
        return []

    def is_covered(reading: CommittedReading) -> bool:
        seen = present.seen_by(reading_name(settings, reading.epoch), reading.committed_at, reading.server_run)
        return seen is not None and seen <= inputs.offset

    unread = inputs.settings.scan.unread(inputs.state)[0]
    order = settings.scan.order
    # What is in the view was usable, and need not be looked up.
    done = [reading for reading in readings if reading.ends_by(unread.after, order)]
    waiting = readings[len(done) :]
    if waiting:
        # Also if not one of them is covered: then it may be the mark of its end that is gone.
        inputs.upstream.require_changes(min(reading.changes_after for reading in waiting), inputs.offset)
    return [*done, *takewhile(is_covered, waiting)]


def ranges_to_read(
    *,
    begin: Position | None,
    within: KeyRange,
    sample: Sequence[Position],
    rows_of_sample: float,
    rows: int | None,
    order: KeyOrder,
) -> tuple[KeyRange, ...]:
    """
    Return the ranges to read ahead next, in key order.

    :param begin: the key after which they begin.
    :param within: the keys of the job.
    :param sample: keys that divide the rows into parts of about the same size.
    :param rows_of_sample: how many rows one part has.
    :param rows: about how many rows to read; ``None`` for all that are left.
    """
    first = 0 if begin is None else _count_up_to(begin, sample, order)
    last = len(sample) if within.up_to is None else _count_up_to(within.up_to, sample, order)
    inner = sample[first:last]
    up_to = within.up_to
    if rows is not None:
        wanted = max(round(rows / max(rows_of_sample, 1.0)), 1)
        if wanted < len(inner):
            inner, up_to = inner[:wanted], inner[wanted - 1]
    step = max(-(-len(inner) // MOST_CONNECTIONS), 1)
    cuts = [cut for cut in inner[step - 1 :: step] if cut != up_to]
    bounds = [begin, *cuts, up_to]
    return tuple(KeyRange(after, to) for after, to in pairwise(bounds))


def rows_left(statistics: Sequence[FileStatistics], waiting: KeyRange, order: KeyOrder) -> int:
    """
    Estimate how many rows were read ahead and are not in the view yet.

    :param waiting: from the position of the view to the end of what counts. What lies beyond is read again.
    """
    return sum(file.row_count for file in statistics if waiting.contains(file.upper, order))


def _count_up_to(bound: Position, sample: Sequence[Position], order: KeyOrder) -> int:
    """Return how many keys of a sample lie at or before a bound, or begin with it."""
    return bisect_right(sample, order.sort_key(bound), key=lambda key: order.sort_key(key[: len(bound)]))
