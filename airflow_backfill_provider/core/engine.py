"""What the protocol needs of Spark, and what it gets from it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from airflow_backfill_provider.core.barrier import Barrier
from airflow_backfill_provider.core.job import BackfillJob
from airflow_backfill_provider.core.offset import Offset
from airflow_backfill_provider.core.settings import JobSettings, ResolvedUpstream
from airflow_backfill_provider.core.table_version import TableVersions


@dataclass(frozen=True, slots=True)
class EpochWrites:
    """
    What executing a barrier did to the view; the same again for every attempt of the epoch.

    :param snapshot_rows: upstream rows in the chunk by vnode, before the query's filter; under ``no_shuffle`` all
        under 0.
    :param change_rows: net changes let through, before the query's filter.
    :param seconds: wall-clock seconds by phase, of this attempt.
    :param rows_added: rows that the changes add to what was read before; negative if they remove more.
    """

    snapshot_rows: Mapping[int, int]
    change_rows: int
    seconds: dict[str, float] = field(default_factory=dict)
    rows_added: int = 0


@dataclass(frozen=True, slots=True)
class PartWrites:
    """
    What one run did for an epoch that several share.

    :param rows: rows by vnode, as in :class:`~airflow_backfill_provider.core.barrier.EpochReport`.
    :param seconds: wall-clock seconds by phase, of this attempt.
    :param rows_added: as there.
    """

    rows: Mapping[int, int]
    seconds: dict[str, float] = field(default_factory=dict)
    rows_added: int = 0


class Exclusive(Protocol):
    """A driver that takes turns with others."""

    def exclusive(self, settings: JobSettings) -> AbstractContextManager[None]:
        """Keep a second driver of this machine from committing to a local table at the same instant."""
        ...


class Engine(Exclusive, Protocol):
    """What the protocol needs of Spark; :mod:`airflow_backfill_provider.execution` implements it."""

    def check(
        self,
        job: BackfillJob,
        upstream: ResolvedUpstream,
        offset: Offset,
        strategy: str,
        incarnations: frozenset[str],
    ) -> None:
        """Refuse a job whose query, key or view's path is wrong, before anything is written."""
        ...

    def ensure_tables(self, settings: JobSettings, earlier_incarnations: Mapping[str, int]) -> None:
        """
        Make the view's empty table, and the strategy's own tables, exist; a no-op if they do.

        :param earlier_incarnations: the job's earlier incarnations, each with the most parallel runs that it ever had.
        """
        ...

    def execute(self, settings: JobSettings, barrier: Barrier, *, since: TableVersions | None) -> EpochWrites:
        """Write the barrier's changes and every part of its chunk, each exactly once."""
        ...

    def apply_changes(self, settings: JobSettings, barrier: Barrier, *, since: TableVersions | None) -> PartWrites:
        """Write the barrier's changes, exactly once."""
        ...

    def read_part(
        self, settings: JobSettings, barrier: Barrier, part: int, *, since: TableVersions | None
    ) -> PartWrites:
        """Write one part of the barrier's chunk, exactly once; the changes must have been applied."""
        ...

    def table_versions(self, settings: JobSettings, barrier: Barrier, *, since: TableVersions | None) -> TableVersions:
        """
        Return the newest versions of the view and the strategy's tables, which only the job has written to since.

        :param since: the versions that the previous epoch left, ``None`` if there was none.
        :raises MaterializedViewError: if something else wrote to the view, or put it back from a copy.
        :raises StateError: if something else did so to a table of the strategy.
        """
        ...

    def account(self, settings: JobSettings, barrier: Barrier, rows_present: int | None) -> int | None:
        """
        Compare how many rows were read by the end of an epoch with how many there are, as far as that can be known.

        :param rows_present: rows that were read and are there, as the epochs counted them; ``None`` if they did not.
        :returns: how many there are, as later epochs go on from.
        :raises MissingRowsError: if these are others.
        """
        ...

    def fence_chunk(self, settings: JobSettings, barrier: Barrier) -> frozenset[int]:
        """
        Keep every part of the barrier's chunk that is not written from being written, by anybody and for good.

        :returns: the parts that are written.
        """
        ...

    def fence_changes(self, settings: JobSettings, barrier: Barrier) -> bool:
        """
        Keep the barrier's changes from being written, by anybody and for good, unless some of them are written.

        :returns: whether none is.
        """
        ...

    def mark_finished(self, settings: JobSettings, barrier: Barrier) -> None:
        """Publish on the view's table that it is finished; a no-op if it says so already."""
        ...

    def take_back_finished(self, settings: JobSettings, barrier: Barrier) -> None:
        """Publish on the view's table that it is not finished; a no-op if it does not say that it is."""
        ...
