"""Planning the next epoch: which runs own which vnodes, and which ranges each of them reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import cycle
from typing import TYPE_CHECKING

from tests.model.arranged_job import Job, World
from tests.model.arranged_tables import (
    ArrangedPlan,
    Range,
    VnodeState,
)
from tests.model.truth import COMPLETED, NOT_STARTED, Phase

if TYPE_CHECKING:
    from tests.strategies import Barrier, Key


def next_plan(job: Job, world: World, state: VnodeState, settings: Barrier) -> ArrangedPlan:
    arranges = world.arrangement.base is None
    held = settings.paused or settings.rate_limit == 0 or state.completed or arranges
    owned = _owned(state, world)
    return ArrangedPlan(
        epoch=state.epoch + 1,
        after=state.version,
        up_to=world.latest,
        before=state.vnodes,
        rows_before=state.row_counts,
        parts=() if held else _plan_parts(job, world, state, owned, settings.rate_limit),
        owned=owned,
        settings=settings,
        parallelism=world.parallelism,
        arranges=arranges,
    )


def _owned(state: VnodeState, world: World) -> tuple[tuple[int, int], ...]:
    """Return each run's vnodes: as before, unless runs are rescaled or idle while others have vnodes to spare."""
    unfinished = [vnode for vnode, progress in enumerate(state.vnodes) if progress != COMPLETED]
    runs = min(world.parallelism, len(unfinished))
    before = next((plan for plan in reversed(world.log.candidates) if plan.epoch == state.epoch), None)
    if before is not None and before.parallelism == world.parallelism:
        working = sum(any(first <= vnode <= last for vnode in unfinished) for first, last in before.owned)
        if working == runs:
            return before.owned
    firsts = [unfinished[len(unfinished) * run // runs] for run in range(runs)]
    return tuple(zip(firsts, [*(first - 1 for first in firsts[1:]), len(state.vnodes) - 1], strict=False))


def _plan_parts(
    job: Job, world: World, state: VnodeState, owned: tuple[tuple[int, int], ...], rate_limit: int | None
) -> tuple[tuple[Range, ...], ...]:
    in_progress = any(progress.phase is Phase.IN_PROGRESS for progress in state.vnodes)
    begun = any(progress != NOT_STARTED for progress in state.vnodes)
    if job.protocol.goes_on_with == "in_progress" and begun and not in_progress:
        return ()
    unread = [_unread(job, state, first, last) for first, last in owned]
    known = [[(covered, job.known_keys(job, world, covered)) for covered in ranges] for ranges in unread]
    shares = _shares(rate_limit, [sum(len(keys) for _, keys in run) for run in known])
    parts = (tuple(_cut(run, share)) for run, share in zip(known, shares, strict=True))
    return tuple(part for part in parts if part)


def _unread(job: Job, state: VnodeState, first: int, last: int) -> list[Range]:
    """Return the rests of vnodes in progress, then those not started."""
    mine = [(vnode, state.vnodes[vnode]) for vnode in range(first, last + 1)]
    rests = [Range(vnode, progress.position) for vnode, progress in mine if progress.phase is Phase.IN_PROGRESS]
    untouched = [Range(vnode) for vnode, progress in mine if progress == NOT_STARTED]
    again = [Range(vnode) for vnode, progress in mine if progress == COMPLETED and job.protocol.completed_rescanned]
    return rests + untouched + again


def _shares(rate_limit: int | None, wanted: list[int]) -> list[int]:
    """Share the rate limit among runs fairly; what one does not need, the others get."""
    if rate_limit is None or rate_limit >= sum(wanted):
        return wanted
    shares = [0] * len(wanted)
    for run in cycle(range(len(wanted))):
        if sum(shares) == rate_limit:
            break
        shares[run] += shares[run] < wanted[run]
    return shares


def _cut(known: list[tuple[Range, list[Key]]], share: int) -> Iterable[Range]:
    """Yield the ranges with so many rows; a vnode without any rest is read along, and completes."""
    for covered, keys in known:
        if len(keys) <= share:
            yield covered
            share -= len(keys)
            continue
        if share:
            yield replace(covered, up_to=keys[share - 1])
        return
