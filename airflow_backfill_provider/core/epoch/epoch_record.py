"""Records of what was done for a barrier: the reports of the task runs that share it, and its commit."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.spark_load import SparkLoad
from airflow_backfill_provider.core.epoch.unit_work import UnitWork
from airflow_backfill_provider.core.frozen import Frozen
from airflow_backfill_provider.core.scan.table_version import TableVersion, TableVersions


class EpochReport(Frozen):
    """
    What one of several task runs did for the epoch that they share. The epoch is committed once all have reported.

    :param part: the part of the chunk that was read; ``None`` if the changes were applied.
    :param rows: snapshot rows by vnode; for the changes, the number of net changes under 0, of all upstreams.
    :param rows_added: for the changes, the rows that they add to what was read before, minus those that they remove.
    :param seconds: wall-clock seconds by stage.
    :param load: the load of the task run's Spark application, if it is known.
    """

    epoch: int
    incarnation: str
    digest: str
    part: int | None
    rows: dict[int, int]
    rows_added: int = 0
    seconds: dict[str, float]
    load: SparkLoad | None = None
    reported_at: dt.datetime


class EpochCommit(Frozen):
    """
    What a committed epoch did; the barrier log's second record of it.

    :param snapshot_read_row_count: upstream rows read by the snapshot chunk, before the query's filter.
    :param upstream_output_row_count: net changes that passed the position filter; and of several upstreams, the changed
        rows of those that do not lead.
    :param rows_read: snapshot rows read by all epochs so far.
    :param rows_present: read rows that the upstream still has; ``None`` if unknown.
    :param state_epoch: the epoch of the state after this epoch; an earlier one if the epoch moved no position.
    :param completed: whether every vnode is Completed as of this epoch.
    :param withheld: whether the view is not marked as finished all the same, because nobody has approved it.
    :param view_version: version of the view's table after the epoch's writes; ``None`` if no epoch wrote to it yet.
    :param view_written_at: the commit time of this version, as the commit records it.
    :param strategy_tables: versions of the strategy's own tables after the epoch's writes, by name.
    :param seconds: wall-clock seconds by stage.
    :param load: Spark's load during the epoch, if it is known.
    :param work: what the epoch did with the view's units; ``None`` if its changes touched none, or units are rows.
    :param given_up: whether the epoch was given up, whole or in part; the barrier has the reason.
    """

    epoch: int
    incarnation: str
    digest: str
    snapshot_read_row_count: int
    upstream_output_row_count: int
    rows_read: int
    rows_present: int | None = None
    state_epoch: int
    completed: bool
    withheld: Annotated[bool, Field(exclude_if=lambda withheld: not withheld)] = False
    view_version: int | None
    view_written_at: dt.datetime | None = None
    strategy_tables: Mapping[str, TableVersion] = Field(default_factory=dict)
    watermark: dt.datetime
    seconds: dict[str, float]
    load: SparkLoad | None = None
    work: Annotated[UnitWork | None, Field(exclude_if=lambda work: work is None)] = None
    committed_at: dt.datetime
    given_up: bool = False

    @property
    def is_finished(self) -> bool:
        """Whether the view is marked as finished."""
        return self.completed and not self.withheld

    @property
    def tables(self) -> TableVersions | None:
        """The tables' versions after the epoch; ``None`` if no epoch wrote to the view yet."""
        if self.view_version is None:
            return None
        view = TableVersion(version=self.view_version, written_at=self.view_written_at)
        return TableVersions(view=view, strategy=self.strategy_tables, rows_present=self.rows_present)


class GivenUpEpoch(Frozen):
    """
    The barrier log's last record of an epoch that was given up.

    :param barrier: the part of the barrier that was done; replaces the pinned barrier.
    :param commit: the commit of this part.
    """

    barrier: Barrier
    commit: EpochCommit
