"""Why a view has a row, or why it does not: the answer to a question about one key."""

from __future__ import annotations

import datetime as dt
import json
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from airflow_backfill_provider.core.frozen import Frozen
from airflow_backfill_provider.core.scan.keys import EncodedPosition
from airflow_backfill_provider.core.scan.offset import Offset


class Reason(StrEnum):
    """Why a view has a row, or why it does not."""

    CHUNK = "chunk"
    """An epoch read it with history."""
    CHANGE = "change"
    """An epoch applied a change of it."""
    REPAIR = "repair"
    """An epoch repaired it."""
    COPIED = "copied"
    """It came with the table, which began with the rows of another one."""
    UNKNOWN = "unknown"
    """The view has it, and its log no longer says since when."""
    FILTERED = "filtered"
    """The upstream has it, and the query leaves it out."""
    NOT_READ = "not_read"
    """The upstream has it, and history was not read so far."""
    NOT_YET = "not_yet"
    """The upstream has it since a version that no epoch has looked at."""
    WAITING = "waiting"
    """The upstream has it, and its change waits until the view is finished."""
    DELETED = "deleted"
    """The upstream had it, and removed it."""
    NOT_THERE = "not_there"
    """The upstream does not have it."""
    MISSING = "missing"
    """The view should have it: verify the job."""


class WrittenRow(Frozen):
    """
    The commit of a table that wrote or removed a row.

    :param by: who committed it, as far as the commit says; otherwise the program.
    :param is_certain: whether it wrote the row. Otherwise the row is as old or older: earlier files are gone.
    :param stamp: the commit's stamp, if it is one of this package's.
    """

    version: int
    written_at: dt.datetime | None
    operation: str
    by: str
    is_certain: bool
    stamp: Annotated[str, Field(exclude=True, repr=False)] = ""

    @property
    def stamped(self) -> dict[str, Any]:
        """The fields of the stamp."""
        return dict(json.loads(self.stamp)) if self.stamp else {}


class RowAnswer(Frozen):
    """
    Why a view has a row, or why not.

    :param key: the key, as it was asked for.
    :param present: whether the view has it, as of its newest version.
    :param epoch: the epoch that wrote it, or the last one that looked.
    :param epoch_by: who requested that epoch.
    :param view: the commit of the view that wrote it.
    :param upstream_offset: the upstream's offset that it is as of.
    :param upstream: the commit of the upstream that wrote or removed it.
    :param conditions: the conditions of the query that it does not meet.
    :param undecided: conditions that only Spark can check.
    :param vnode: its vnode, if that is why.
    :param verified_epoch: the epoch at which its vnode was last found equal to the query; ``None`` if not since then.
    :param notes: what else is known.
    :param left_to_spark: the cost of finding the upstream's commit with Spark, if it was not found without; else empty.
    """

    job: str
    key: EncodedPosition
    reason: Reason
    present: bool
    epoch: int | None = None
    epoch_by: str = ""
    view: WrittenRow | None = None
    upstream_offset: Offset | None = None
    upstream: WrittenRow | None = None
    conditions: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()
    vnode: int | None = None
    rows_read_of_vnode: int | None = None
    verified_epoch: int | None = None
    verified_at: dt.datetime | None = None
    notes: tuple[str, ...] = ()
    left_to_spark: str = ""
