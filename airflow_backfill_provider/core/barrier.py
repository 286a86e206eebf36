"""
The barrier: everything that one epoch depends on, pinned before the first write (I2).

A barrier is a value. It is written to the barrier log as JSON, read back by whoever runs the epoch, and its digest
is stamped on every commit that the epoch makes. Ports ``Barrier`` with its ``EpochPair`` and mutation, and
adds what a streaming engine keeps in its stream: the upstream's version range and the new positions.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from airflow_backfill_provider.core.keys import EncodedPosition


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Mutation(StrEnum):
    """What a barrier changes about the job from this epoch on."""

    PAUSE = "pause"
    RESUME = "resume"
    THROTTLE = "throttle"


class Requester(_Frozen):
    """
    Who asked for something: a task run of Airflow, or a command line.

    Two requests of one task run (a retry, a cleared task) are equal, so that the second one finds the barrier that
    the first one pinned.
    """

    dag_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    map_index: int = -1
    user: str | None = None

    @property
    def is_task_run(self) -> bool:
        """Whether this names one task run, and not just somebody at a terminal."""
        return self.dag_id is not None

    def __str__(self) -> str:
        if self.dag_id is None:
            return self.user or "unknown"
        mapped = f"[{self.map_index}]" if self.map_index >= 0 else ""
        return f"{self.dag_id}.{self.task_id}{mapped} of run {self.run_id}"


class PinnedMutation(_Frozen):
    """A change of the settings that this barrier is the first to carry."""

    mutation: Mutation
    value: int | None = None
    requested_by: str
    requested_at: dt.datetime


class UpstreamWindow(_Frozen):
    """
    The upstream's versions of one epoch, half-open: ``(from_version, to_version]``.

    :param table_id: the Delta table's id; another table at the same path is refused.
    :param from_version: last version of the previous epoch; -1 before the first.
    :param to_version: the version that the snapshot chunk is read at and the changes run up to.
    :param watermark: commit timestamp of ``to_version``.
    :param row_count: rows at ``to_version`` by the log's statistics; an estimate for progress only.
    """

    table_id: str
    from_version: int
    to_version: int
    watermark: dt.datetime
    row_count: int


class PinnedChunk(_Frozen):
    """A :class:`~airflow_backfill_provider.core.progress.SnapshotRange`, positions encoded as text."""

    after: EncodedPosition | None
    up_to: EncodedPosition | None


class ChangeFilter(_Frozen):
    """
    Which of the window's changes the epoch lets through, judged by the progress before the epoch.

    The chunk is read at ``to_version``, so rows behind the old position get their changes and rows of the
    chunk don't need them. (The executor reads the chunk at the previous epoch and filters by the new
    position; both orders give the same rows, mixing them loses some.)

    :param let_through: ``none`` while nothing was read, ``up_to`` a position while in progress, ``all`` once
        completed.
    :param position: the old position with ``up_to``.
    """

    let_through: Literal["none", "up_to", "all"]
    position: EncodedPosition | None = None


class Barrier(_Frozen):
    """
    One epoch of one job, pinned.

    :param job: the job's name.
    :param incarnation: changes with every rebuild; part of every transaction id.
    :param epoch: consecutive, from 1.
    :param prev_epoch: the epoch whose committed state this one starts from.
    :param upstream: the upstream's version window.
    :param definition: digest of the job's definition and of the upstream's schema as used.
    :param chunk: the snapshot range to read, or ``None`` (paused, or completed already).
    :param changes: which changes to apply.
    :param rate_limit: the rate limit in force, snapshot rows.
    :param paused: whether the job was paused.
    :param mutations: changes of the settings that took effect with this barrier.
    :param settings_sequence: the settings' version that was in force.
    :param warnings: what the planner had to say.
    :param injected_by: who asked for it.
    :param injected_at: when.
    """

    job: str
    incarnation: str
    epoch: int
    prev_epoch: int
    upstream: UpstreamWindow
    definition: str
    chunk: PinnedChunk | None
    changes: ChangeFilter
    rate_limit: int | None
    paused: bool
    mutations: tuple[PinnedMutation, ...] = ()
    settings_sequence: int
    warnings: tuple[str, ...] = ()
    injected_by: Requester
    injected_at: dt.datetime

    @property
    def digest(self) -> str:
        """Digest of all that decides which rows the epoch writes; not of who asked, or when."""
        deciding = self.model_dump(
            mode="json",
            include={
                "job",
                "incarnation",
                "epoch",
                "prev_epoch",
                "upstream",
                "definition",
                "chunk",
                "changes",
            },
        )
        return digest(deciding)

    @property
    def applies_changes(self) -> bool:
        """Whether the change feed has to be read at all."""
        return self.changes.let_through != "none" and self.upstream.to_version > self.upstream.from_version

    @property
    def shows_all_rows(self) -> bool:
        """Whether the view has every row of the query once the epoch is committed."""
        completes = self.chunk is not None and self.chunk.up_to is None
        return completes or self.changes.let_through == "all"


class EpochCommit(_Frozen):
    """
    What a committed epoch did; the barrier log's second record of it.

    :param snapshot_read_row_count: upstream rows read by the snapshot chunk, before the query's filter.
    :param upstream_output_row_count: net changes let through to the view.
    :param rows_read: snapshot rows read by all epochs so far.
    :param completed: whether every vnode is Completed as of this epoch.
    :param view_version: version of the view's table after the epoch's writes; ``None`` if no epoch wrote to it yet.
    :param seconds: wall-clock seconds by phase.
    """

    epoch: int
    incarnation: str
    digest: str
    snapshot_read_row_count: int
    upstream_output_row_count: int
    rows_read: int
    completed: bool
    view_version: int | None
    watermark: dt.datetime
    seconds: dict[str, float]
    committed_at: dt.datetime


def digest(value: Any) -> str:
    """Return a short digest of a JSON value, independent of the order of its fields."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:32]
