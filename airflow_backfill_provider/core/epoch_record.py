"""What became of a barrier: what the runs of an epoch report, and its commit."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from pydantic import Field

from airflow_backfill_provider.core.barrier import Barrier
from airflow_backfill_provider.core.frozen import Frozen
from airflow_backfill_provider.core.table_version import TableVersion, TableVersions


class EpochReport(Frozen):
    """
    What one run did for an epoch that several share; the epoch is committed once all of them reported.

    :param part: the part of the chunk that it read, or ``None`` for the run that applied the changes.
    :param rows: snapshot rows by vnode; of the changes' run, net changes under 0.
    :param rows_added: of the changes' run, the rows that they add to what was read before, less those that they remove.
    :param seconds: wall-clock seconds by phase.
    """

    epoch: int
    incarnation: str
    digest: str
    part: int | None
    rows: dict[int, int]
    rows_added: int = 0
    seconds: dict[str, float]
    reported_at: dt.datetime


class EpochCommit(Frozen):
    """
    What a committed epoch did; the barrier log's second record of it.

    :param snapshot_read_row_count: upstream rows read by the snapshot chunk, before the query's filter.
    :param upstream_output_row_count: net changes let through to the view.
    :param rows_read: snapshot rows read by all epochs so far.
    :param rows_present: rows that were read and that the upstream still has; ``None`` if nobody counted them.
    :param state_epoch: the epoch of the state that it left; an earlier one, if the epoch moved nothing.
    :param completed: whether every vnode is Completed as of this epoch.
    :param view_version: version of the view's table after the epoch's writes; ``None`` if no epoch wrote to it yet.
    :param view_written_at: when that version's commit says that it was written.
    :param strategy_tables: versions of the strategy's own tables after the epoch's writes, by their names.
    :param seconds: wall-clock seconds by phase.
    :param given_up: whether nothing, or not all, of what was pinned was done; the barrier says why.
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
    view_version: int | None
    view_written_at: dt.datetime | None = None
    strategy_tables: Mapping[str, TableVersion] = Field(default_factory=dict)
    watermark: dt.datetime
    seconds: dict[str, float]
    committed_at: dt.datetime
    given_up: bool = False

    @property
    def tables(self) -> TableVersions | None:
        """The versions that the epoch left; ``None`` if no epoch wrote to the view yet."""
        if self.view_version is None:
            return None
        view = TableVersion(version=self.view_version, written_at=self.view_written_at)
        return TableVersions(view=view, strategy=self.strategy_tables, rows_present=self.rows_present)


class GivenUpEpoch(Frozen):
    """
    The barrier log's last record of an epoch that was given up.

    :param barrier: what is left of it, in the place of what was pinned.
    :param commit: what was done.
    """

    barrier: Barrier
    commit: EpochCommit
