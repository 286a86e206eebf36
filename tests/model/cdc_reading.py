"""The steps in which an attempt reads the next ranges of keys ahead."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.model.cdc_attempts import Attempt, Landing, Step, UnderWay
from tests.model.cdc_database import Range, Reading
from tests.model.cdc_landing import start_landing
from tests.model.truth import COMPLETED

if TYPE_CHECKING:
    from tests.model.cdc_job import Job, World
    from tests.model.tables import Plan
    from tests.strategies import Row


def begin_reading(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    """Take the log's end, unless the epoch has read ahead, or need not."""
    plan = attempt.pinned
    if attempt.reading is None:
        if _is_read(job, world, plan):
            return world, replace(attempt, next=Step.MARK)
        ranges = _ranges(job, world, plan)
        if not ranges:
            return world, replace(attempt, next=Step.WRITE_STATE)
        attempt = replace(attempt, reading=UnderWay(ranges))
        if job.protocol.offset_taken == "after the rows":
            return world, replace(attempt, next=Step.READ_RANGE)
    reading = replace(attempt.current_reading, newest=world.database.newest)
    return world, replace(attempt, reading=reading, next=Step.LIST_IN_PROGRESS)


def list_in_progress(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    """
    Take a snapshot. It lists transactions in progress that are older than the newest one that has ended; all later
    ones are in progress, too.
    """
    database, reading = world.database, attempt.current_reading
    ended = {entry for entry in database.log if isinstance(entry, int) and entry not in database.unseen}
    end = max(ended, default=0) + 1
    listed = frozenset(version for version in database.unseen if version < end)
    if job.protocol.in_progress == "ignored":
        listed = frozenset()
    later_than = end if job.protocol.in_progress == "all" else None
    reading = replace(reading, in_progress=listed, later_than=later_than)
    landing = Landing(for_reading=True, at_least=reading.newest)
    return world, start_landing(job, replace(attempt, reading=reading), landing)


def find_offset(_: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    """The lower offset is one before the first transaction that was in progress, or the log's end as it was."""
    reading, database = attempt.current_reading, world.database
    unseen = [
        offset
        for offset in world.changes.landed
        if offset <= reading.newest
        and isinstance(version := database.log[offset - 1], int)
        and (version in reading.in_progress or (reading.later_than is not None and version >= reading.later_than))
    ]
    reading = replace(reading, changes_after=min(unseen, default=reading.newest + 1) - 1)
    following = Step.COMMIT_READING if reading.is_read else Step.READ_RANGE
    return world, replace(attempt, reading=reading, next=following)


def read_range(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    reading = attempt.current_reading
    rows = _read(job, world, reading.ranges[len(reading.rows)])
    reading = replace(reading, rows=(*reading.rows, rows))
    if not reading.is_read:
        following = Step.READ_RANGE
    else:
        following = Step.BEGIN_READING if reading.changes_after is None else Step.COMMIT_READING
    return world, replace(attempt, reading=reading, next=following)


def commit_reading(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    plan, reading = attempt.pinned, attempt.current_reading
    assert reading.changes_after is not None
    if not job.protocol.reading_has_txn or max((known.epoch for known in world.readings), default=0) < plan.epoch:
        committed = Reading(
            epoch=plan.epoch,
            covered=Range(after=reading.ranges[0].after, up_to=reading.ranges[-1].up_to),
            changes_after=reading.changes_after,
            rows=tuple(row for rows in reading.rows for row in rows),
        )
        world = replace(world, readings=(*world.readings, committed))
    return world, replace(attempt, reading=None, next=Step.MARK)


def write_mark(_: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    database = world.database.marked(attempt.pinned.epoch)
    return replace(world, database=database), replace(attempt, next=Step.WRITE_STATE)


def _is_read(job: Job, world: World, plan: Plan) -> bool:
    return job.protocol.reading_has_txn and any(reading.epoch == plan.epoch for reading in world.readings)


def _ranges(job: Job, world: World, plan: Plan) -> tuple[Range, ...]:
    """Return the next ranges to read, in key order; none if enough was read ahead."""
    order, limit = job.upstream.order, plan.settings.rate_limit
    if plan.new == COMPLETED or plan.settings.paused or limit == 0:
        return ()
    begin = world.readings[-1].covered.up_to if world.readings else None
    if world.readings and begin is None:
        return ()
    inner = [key for key in job.sample if begin is None or not order.at_or_before(key, begin)]
    up_to = None
    if limit is not None:
        left = [row for reading in world.readings for row in reading.rows if not plan.new.covers(row.key, order)]
        limit -= len(left)
        if limit <= 0:
            return ()
        if limit < len(inner):
            inner, up_to = inner[:limit], inner[limit - 1]
    step = max(-(-len(inner) // job.connections), 1)
    cuts = [cut for cut in inner[step - 1 :: step] if cut != up_to]
    return tuple(Range(after=after, up_to=to) for after, to in pairwise([begin, *cuts, up_to]))


def _read(job: Job, world: World, wanted: Range) -> tuple[Row, ...]:
    rows = world.database.rows(job.upstream)
    return tuple(row for key, row in rows.items() if wanted.covers(key, job.upstream.order))


def read_again(job: Job, world: World, attempt: Attempt, number: int) -> Attempt:
    """Repeat the task that read one of a reading's ranges: it sees the rows of a later moment."""
    reading = attempt.current_reading
    rows = list(reading.rows)
    rows[number] = _read(job, world, reading.ranges[number])
    return replace(attempt, reading=replace(reading, rows=tuple(rows)))
