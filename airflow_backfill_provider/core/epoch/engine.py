"""The interface between the epoch protocol and Spark."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.settings import JobSettings, ResolvedUpstream, ViewColumn
from airflow_backfill_provider.core.epoch.spark_load import SparkLoad
from airflow_backfill_provider.core.epoch.unit_work import UnitWork
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.scan.table_version import TableVersions


@dataclass(frozen=True, slots=True)
class EpochWrites:
    """
    What an epoch wrote; the same for every attempt of the epoch, except ``seconds`` and ``load``.

    :param snapshot_rows: upstream rows in the chunk by vnode, before the query's filter; under ``no_shuffle`` all
        are counted for vnode 0.
    :param change_rows: net changes that passed the position filter, before the query's filter; and of several
        upstreams, the changed rows of those that do not lead.
    :param seconds: wall-clock seconds of this attempt by stage.
    :param rows_added: rows that the changes add to what was read before; negative if they remove more.
    :param load: Spark's load during this attempt, if it is known.
    :param work: what it did with the view's units; ``None`` if units are rows, or no change touched one.
    """

    snapshot_rows: Mapping[int, int]
    change_rows: int
    seconds: dict[str, float] = field(default_factory=dict)
    rows_added: int = 0
    load: SparkLoad | None = None
    work: UnitWork | None = None


@dataclass(frozen=True, slots=True)
class PartWrites:
    """
    What one of several task runs wrote for the epoch that they share.

    :param rows: rows by vnode, as in :class:`~airflow_backfill_provider.core.epoch.epoch_record.EpochReport`.
    :param seconds: wall-clock seconds of this attempt by stage.
    :param rows_added: as in the report.
    :param load: Spark's load during this attempt, if it is known.
    """

    rows: Mapping[int, int]
    seconds: dict[str, float] = field(default_factory=dict)
    rows_added: int = 0
    load: SparkLoad | None = None


class Exclusive(Protocol):
    """A driver that holds a lock while it commits."""

    def exclusive(self, state: str) -> AbstractContextManager[None]:
        """
        Keep other drivers on this machine from committing to a local table at the same time.

        :param state: the folder of the job's control tables.
        """
        ...


class Engine(Exclusive, Protocol):
    """What the protocol asks of Spark; implemented in :mod:`airflow_backfill_provider.engine`."""

    def reading_ahead(self, settings: JobSettings) -> AbstractContextManager[None]:
        """Begin to read what every epoch of a job reads first, while the protocol finds out which epoch it is."""
        ...

    def check(
        self,
        job: BackfillJob,
        upstream: ResolvedUpstream,
        offset: Offset,
        strategy: str,
        incarnations: frozenset[str],
    ) -> None:
        """Refuse a job with a wrong query, key or view path, before anything is written."""
        ...

    def view_columns(self, job: BackfillJob, upstream: ResolvedUpstream) -> tuple[ViewColumn, ...]:
        """Return the view's columns; the protocol asks if the query's shape pins them (``Shape.pins_columns``)."""
        ...

    def ensure_tables(self, settings: JobSettings, earlier_incarnations: Mapping[str, int]) -> None:
        """
        Create the view's empty table and the strategy's own tables; a no-op if they exist.

        :param earlier_incarnations: the job's earlier incarnations, each with its highest parallelism.
        """
        ...

    def run_epoch(self, settings: JobSettings, barrier: Barrier, *, since: TableVersions | None) -> EpochWrites:
        """Write the barrier's changes and all parts of its chunk, each exactly once."""
        ...

    def apply_changes(self, settings: JobSettings, barrier: Barrier, *, since: TableVersions | None) -> PartWrites:
        """Write the barrier's changes, exactly once."""
        ...

    def read_chunk_part(
        self, settings: JobSettings, barrier: Barrier, part: int, *, since: TableVersions | None
    ) -> PartWrites:
        """Write one part of the barrier's chunk, exactly once; the changes must have been applied."""
        ...

    def table_versions(self, settings: JobSettings, barrier: Barrier, *, since: TableVersions | None) -> TableVersions:
        """
        Return the newest versions of the view and the strategy's tables, and check that only the job wrote to them.

        :param since: the versions after the previous epoch; ``None`` if there was none.
        :raises MaterializedViewError: if something else wrote to the view, or restored it from a copy.
        :raises StateError: if something else wrote to a table of the strategy, or restored it.
        """
        ...

    def account(self, settings: JobSettings, barrier: Barrier, rows_present: int | None) -> int | None:
        """
        Compare the number of rows read by the end of an epoch with the upstream, as far as it can be known.

        :param rows_present: the read rows that the upstream still has, as the epochs counted them; ``None`` if unknown.
        :returns: the number that the next epoch continues with.
        :raises MissingRowsError: if the upstream has another number of rows.
        """
        ...

    def fence_chunk(self, settings: JobSettings, barrier: Barrier) -> frozenset[int]:
        """
        Make every later write of the barrier's unwritten parts fail.

        :returns: the parts that are written.
        """
        ...

    def fence_changes(self, settings: JobSettings, barrier: Barrier) -> bool:
        """
        Make every later write of the barrier's changes fail, unless some of them are written.

        :returns: whether no change is written.
        """
        ...

    def mark_finished(self, settings: JobSettings, barrier: Barrier) -> None:
        """Mark the view's table as finished; a no-op if it is."""
        ...

    def unmark_finished(self, settings: JobSettings, barrier: Barrier) -> None:
        """Mark the view's table as not finished; a no-op if it is not marked as finished."""
        ...
