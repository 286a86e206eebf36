"""
The stages of an epoch, in order: what each does, the name of its timing, and its crash points.

Every run of an epoch follows this list, or a part of it. Crash points, timings, log lines and a table in the
documentation come from it. A stage is a value; the code that runs stages has a method for each kind.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from enum import StrEnum

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.crash_points import CrashPoint, reached

logger = logging.getLogger(__name__)


class StageKind(StrEnum):
    """The kinds of stages."""

    PIN = "pin"
    CHECK_TABLES = "check_tables"
    FIND_CHANGES = "find_changes"
    COUNT_CHUNK = "count_chunk"
    WRITE_CHANGES = "write_changes"
    REPAIR = "repair"
    KEEP_CHANGES = "keep_changes"
    COUNT_PART = "count_part"
    WRITE_PART = "write_part"
    READ_AHEAD = "read_ahead"
    ACCOUNT = "account"
    COMMIT_STATE = "commit_state"
    PUBLISH = "publish"
    COMMIT_LOG = "commit_log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """
    One step of an epoch.

    :param kind: the kind.
    :param description: what the stage does, for the documentation.
    :param timed_as: the name of the timing; empty if the stage's time is part of another stage's timing.
    :param before: the crash point before the stage's commit.
    :param after: the crash point after the stage's commit.
    """

    kind: StageKind
    description: str
    timed_as: str = ""
    before: CrashPoint | None = None
    after: CrashPoint | None = None

    @contextmanager
    def entered(self, seconds: dict[str, float]) -> Iterator[None]:
        """
        Announce the stage's crash points around a block, and record the block's time.

        :param seconds: the mapping that the time is added to.
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
    """Record how long a block takes, unless it fails."""
    started = time.monotonic()
    yield
    seconds[name] = seconds.get(name, 0.0) + time.monotonic() - started


STAGES = (
    Stage(
        kind=StageKind.PIN,
        description="The injector decides what the epoch does, and writes the barrier to the log.",
        after=CrashPoint.AFTER_PIN,
    ),
    Stage(
        kind=StageKind.CHECK_TABLES,
        description="Checks that the upstream and the job's tables are the ones that the barrier was pinned for.",
        timed_as="check",
    ),
    Stage(
        kind=StageKind.FIND_CHANGES,
        description="The changes of the window are read, netted per key and counted.",
        timed_as="check",
    ),
    Stage(
        kind=StageKind.COUNT_CHUNK,
        description="The chunk's rows are counted and its keys checked, if possible before the changes are written.",
        timed_as="check",
    ),
    Stage(
        kind=StageKind.WRITE_CHANGES,
        description="The changes of rows that were read before are written to the view.",
        timed_as="changes",
        before=CrashPoint.BEFORE_CHANGES_COMMIT,
        after=CrashPoint.AFTER_CHANGES_COMMIT,
    ),
    Stage(
        kind=StageKind.REPAIR,
        description="If a repair is requested or the query was changed, the changes and the rows that this concerns "
        "are written to the view in one commit instead.",
        timed_as="repair",
    ),
    Stage(
        kind=StageKind.KEEP_CHANGES,
        description="The strategy stores changes of unread rows and unreadable records, if it has tables for them.",
    ),
    Stage(
        kind=StageKind.COUNT_PART,
        description="The rows of a part of the chunk are counted.",
        timed_as="count",
    ),
    Stage(
        kind=StageKind.WRITE_PART,
        description="A part of the chunk is written to the view. Parts are written in parallel.",
        timed_as="chunk",
        before=CrashPoint.BEFORE_SNAPSHOT_COMMIT,
        after=CrashPoint.AFTER_SNAPSHOT_COMMIT,
    ),
    Stage(
        kind=StageKind.READ_AHEAD,
        description="The strategy reads the rows of a later chunk, if it has to read them ahead.",
        timed_as="read_ahead",
    ),
    Stage(
        kind=StageKind.ACCOUNT,
        description="The number of rows read is compared with the upstream.",
        timed_as="commit",
    ),
    Stage(
        kind=StageKind.COMMIT_STATE,
        description="The state of each vnode is committed.",
        timed_as="commit",
        before=CrashPoint.BEFORE_STATE_COMMIT,
        after=CrashPoint.AFTER_STATE_COMMIT,
    ),
    Stage(
        kind=StageKind.PUBLISH,
        description="The view's table is marked as finished or not.",
        timed_as="commit",
    ),
    Stage(
        kind=StageKind.COMMIT_LOG,
        description="The epoch's counts and timings are written to the barrier log.",
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
    Return the stages of an epoch on Spark before its chunk is written.

    :param counts_chunk: whether the chunk can be counted and checked before the changes are written.
    """
    first, last = StageKind.CHECK_TABLES, StageKind.KEEP_CHANGES
    kinds = [stage.kind for stage in STAGES]
    stages = STAGES[kinds.index(first) : kinds.index(last) + 1]
    # Readers of a finished view see each of its commits, so an epoch has one for its changes and its repair (I7).
    skipped = {StageKind.WRITE_CHANGES if barrier.rewrites_rows else StageKind.REPAIR}
    if not counts_chunk:
        skipped.add(StageKind.COUNT_CHUNK)
    return tuple(stage for stage in stages if stage.kind not in skipped)


def part_stages() -> tuple[Stage, Stage]:
    """Return the stages of one part of the chunk: count it, and write it."""
    return _BY_KIND[StageKind.COUNT_PART], _BY_KIND[StageKind.WRITE_PART]
