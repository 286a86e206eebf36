"""The steps in which an attempt lands the slot's changes in the change log."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.model.cdc_attempts import Attempt, Landing, Step

if TYPE_CHECKING:
    from tests.model.cdc_job import Job, World


def start_landing(job: Job, attempt: Attempt, landing: Landing) -> Attempt:
    first = Step.READ_SLOT if job.protocol.slot_read_first else Step.READ_CHANGE_LOG
    return replace(attempt, landing=landing, next=first)


def read_slot(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    landing = replace(attempt.current_landing, slot=world.database.slot)
    return world, _after_looking(job, replace(attempt, landing=landing), Step.READ_CHANGE_LOG)


def read_change_log(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    landing = replace(attempt.current_landing, after=world.changes.through)
    return world, _after_looking(job, replace(attempt, landing=landing), Step.READ_SLOT)


def _after_looking(job: Job, attempt: Attempt, other: Step) -> Attempt:
    """Look at the other one of slot and change log, or go on if both were seen."""
    is_first = (attempt.next is Step.READ_SLOT) == job.protocol.slot_read_first
    if is_first:
        return replace(attempt, next=other)
    landing = attempt.current_landing
    if job.protocol.gap_refused and landing.slot > landing.after:
        return replace(attempt, next=Step.REFUSED)
    return replace(attempt, next=Step.PEEK)


def peek(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    landing, database = attempt.current_landing, world.database
    through = max(database.newest, landing.at_least)
    if through <= landing.after:
        return world, _landed(attempt)
    peeked = frozenset(range(max(database.slot, landing.after) + 1, through + 1))
    landing = replace(landing, through=through, peeked=peeked)
    first = Step.LAND if job.protocol.landed_before_advancing else Step.ADVANCE_SLOT
    return world, replace(attempt, landing=landing, next=first)


def land(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    landing = attempt.current_landing
    if job.protocol.landing_is_exclusive and world.changes.through != landing.after:
        # Another landing was faster: start over.
        return world, start_landing(job, attempt, Landing(landing.for_reading, landing.at_least))
    world = replace(world, changes=world.changes.with_landed(landing.peeked, landing.through))
    if job.protocol.landed_before_advancing:
        return world, replace(attempt, next=Step.ADVANCE_SLOT)
    return world, _landed(attempt)


def advance_slot(job: Job, world: World, attempt: Attempt) -> tuple[World, Attempt]:
    world = replace(world, database=world.database.advanced(attempt.current_landing.through))
    if job.protocol.landed_before_advancing:
        return world, _landed(attempt)
    return world, replace(attempt, next=Step.LAND)


def _landed(attempt: Attempt) -> Attempt:
    after = Step.FIND_OFFSET if attempt.current_landing.for_reading else Step.PLAN
    return replace(attempt, landing=None, next=after)
