"""
The stages of an epoch, in order: what is done, what its time is recorded under, and where it may die.

Whoever runs an epoch goes through this list, whole or a part of it; the crash points, the timings, the log lines and
the table in the documentation come from it. A stage is a value; what runs it has a method for each kind.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from enum import StrEnum

from airflow_backfill_provider.core.barrier import Barrier
from airflow_backfill_provider.core.crash_points import CrashPoint, reached

logger = logging.getLogger(__name__)


class StageKind(StrEnum):
    """What is done in a stage."""

    PIN = "pin"
    CHECK_TABLES = "check_tables"
    FIND_CHANGES = "find_changes"
    COUNT_CHUNK = "count_chunk"
    WRITE_CHANGES = "write_changes"
    REPAIR = "repair"
    KEEP_CHANGES = "keep_changes"
    COUNT_PART = "count_part"
    WRITE_PART = "write_part"
    ACCOUNT = "account"
    COMMIT_STATE = "commit_state"
    PUBLISH = "publish"
    COMMIT_LOG = "commit_log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """
    One step of an epoch.

    :param kind: what is done.
    :param does: the same in words, for the documentation.
    :param timed_as: what its seconds are recorded under; empty if they are part of another stage's.
    :param before: where it may die before it commits anything.
    :param after: where it may die once it has.
    """

    kind: StageKind
    does: str
    timed_as: str = ""
    before: CrashPoint | None = None
    after: CrashPoint | None = None

    @contextmanager
    def taken(self, seconds: dict[str, float]) -> Iterator[None]:
        """
        Announce the stage's crash points around a block, and record its time.

        :param seconds: where the time is added.
        """
        if self.before is not None:
            reached(self.before)
        logger.debug("stage %s begins", self.kind)
        with timed(seconds, self.timed_as) if self.timed_as else nullcontext():
            yield
        logger.debug("stage %s is done", self.kind)
        if self.after is not None:
            reached(self.after)


@contextmanager
def timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    """Record how long a block takes; if it fails, that is not recorded."""
    started = time.monotonic()
    yield
    seconds[name] = seconds.get(name, 0.0) + time.monotonic() - started


STAGES = (
    Stage(
        kind=StageKind.PIN,
        does="The injector decides what the epoch does, and writes the barrier down.",
        after=CrashPoint.AFTER_PIN,
    ),
    Stage(
        kind=StageKind.CHECK_TABLES,
        does="The upstream and the job's tables must be the ones that the barrier was pinned on.",
        timed_as="check",
    ),
    Stage(
        kind=StageKind.FIND_CHANGES,
        does="The changes of the window are read, netted per key and counted.",
        timed_as="check",
    ),
    Stage(
        kind=StageKind.COUNT_CHUNK,
        does="The chunk is counted and its keys are checked, where that is possible before the changes are written.",
        timed_as="check",
    ),
    Stage(
        kind=StageKind.WRITE_CHANGES,
        does="The changes of rows that were read before are written to the view.",
        timed_as="changes",
        before=CrashPoint.BEFORE_CHANGES_COMMIT,
        after=CrashPoint.AFTER_CHANGES_COMMIT,
    ),
    Stage(
        kind=StageKind.REPAIR,
        does="Rows that a repair asks for are written anew.",
        timed_as="repair",
    ),
    Stage(
        kind=StageKind.KEEP_CHANGES,
        does="The strategy keeps the changes of rows that are not read yet, if it has a table for them.",
    ),
    Stage(
        kind=StageKind.COUNT_PART,
        does="A part of the chunk is counted.",
        timed_as="count",
    ),
    Stage(
        kind=StageKind.WRITE_PART,
        does="A part of the chunk is written to the view. The parts are written side by side.",
        timed_as="snapshot",
        before=CrashPoint.BEFORE_SNAPSHOT_COMMIT,
        after=CrashPoint.AFTER_SNAPSHOT_COMMIT,
    ),
    Stage(
        kind=StageKind.ACCOUNT,
        does="The number of rows that were read is compared with the number that there are.",
        timed_as="commit",
    ),
    Stage(
        kind=StageKind.COMMIT_STATE,
        does="The state of each vnode is committed.",
        timed_as="commit",
        before=CrashPoint.BEFORE_STATE_COMMIT,
        after=CrashPoint.AFTER_STATE_COMMIT,
    ),
    Stage(
        kind=StageKind.PUBLISH,
        does="The view says whether it is finished.",
        timed_as="commit",
    ),
    Stage(
        kind=StageKind.COMMIT_LOG,
        does="The barrier log gets the epoch's counts and timings.",
        before=CrashPoint.BEFORE_LOG_COMMIT,
    ),
)
"""All stages of an epoch, in order."""

_BY_KIND = {stage.kind: stage for stage in STAGES}


def stage_of(kind: StageKind) -> Stage:
    """Return a stage by its kind."""
    return _BY_KIND[kind]


def changes_stages(barrier: Barrier, *, counts_chunk: bool) -> tuple[Stage, ...]:
    """
    Return the stages of an epoch on Spark up to its chunk.

    :param counts_chunk: whether the chunk is known before the changes are written, so that it is checked first.
    """
    first, last = StageKind.CHECK_TABLES, StageKind.KEEP_CHANGES
    kinds = [stage.kind for stage in STAGES]
    stages = STAGES[kinds.index(first) : kinds.index(last) + 1]
    skipped = set()
    if not counts_chunk:
        skipped.add(StageKind.COUNT_CHUNK)
    if not barrier.repair:
        skipped.add(StageKind.REPAIR)
    return tuple(stage for stage in stages if stage.kind not in skipped)


def part_stages() -> tuple[Stage, Stage]:
    """Return the stages of one part of the chunk: counting it, and writing it."""
    return _BY_KIND[StageKind.COUNT_PART], _BY_KIND[StageKind.WRITE_PART]
