"""The interface of a strategy's Spark side, which creates its tables, keeps changes, and reads chunks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from airflow_backfill_provider.core.epoch.barrier import Barrier
    from airflow_backfill_provider.core.epoch.settings import JobSettings
    from airflow_backfill_provider.core.scan.keys import KeyRange
    from airflow_backfill_provider.core.scan.offset import Offset
    from airflow_backfill_provider.core.scan.table_version import TableVersion, TableVersions
    from airflow_backfill_provider.core.status.compaction import CompactionPlan
    from airflow_backfill_provider.sources.base import Source
    from airflow_backfill_provider.spark.further_lead import FurtherLead
    from airflow_backfill_provider.spark.job_rows import JobRows
    from airflow_backfill_provider.spark.row_account import RowAccount


class Chunk(Protocol):
    """The upstream's rows in some ranges as of one epoch; every attempt of the epoch reads the same rows."""

    def rows(self) -> DataFrame:
        """Return the rows, with at least the used columns."""
        ...

    def count(self) -> Mapping[int, int]:
        """
        Count the rows by vnode, without zeros; all rows under 0 if all vnodes share one position.

        :raises DuplicateKeyError: if the key does not identify the rows.
        """
        ...

    def require_sound(self) -> None:
        """Fail if evaluating the rows would fail; called if an earlier attempt has already written the rows."""
        ...


class UpstreamRows(Protocol):
    """The upstream's rows as of an offset; a repeated call with the same offset returns the same data frame."""

    def __call__(self, offset: Offset) -> DataFrame:
        """Return the used columns and the vnode."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderContext:
    """
    The objects that a reader works with.

    :param spark: the session.
    :param settings: the settings in force.
    :param job_rows: the upstream's rows that belong to the job.
    :param upstream: the upstream.
    :param further: the upstreams that lead further branches, by their names; none for most jobs.
    :param rows_at: the rows as of an offset.
    :param account: checks the counted rows.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    spark: SparkSession
    settings: JobSettings
    job_rows: JobRows
    upstream: Source
    further: Mapping[str, FurtherLead]
    rows_at: UpstreamRows
    account: RowAccount
    storage_options: Mapping[str, str] | None


class HistoryReader(ABC):
    """Reads a job's snapshot, chunk by chunk. If several upstreams lead, chunks are of all of them."""

    counts_before_changes: ClassVar[bool] = True
    """Whether a chunk can be checked before the epoch's changes are written."""

    counts_while_writing: ClassVar[bool] = False
    """Whether a chunk is counted after it is written: its rows are read once, and counted on their way."""

    @abstractmethod
    def chunk(self, barrier: Barrier, ranges: Sequence[KeyRange]) -> AbstractContextManager[Chunk]:
        """Return the rows in some ranges as of the barrier's chunk offset, to be used inside the block."""

    def chunk_after(self, error: Exception, barrier: Barrier, ranges: Sequence[KeyRange]) -> Chunk | None:
        """
        Return another chunk of the same rows, after one failed with an error that the other may not have.

        :returns: by default ``None``.
        """
        del error, barrier, ranges
        return None

    def further(self, chunk: Chunk) -> Mapping[str, DataFrame]:
        """
        Return the rows of a chunk that are of upstreams that lead further branches, by the names of these.

        :returns: by default none.
        """
        del chunk
        return {}

    def check(self, barrier: Barrier) -> None:  # noqa: B027 - most check a chunk when they count it
        """
        Refuse what is wrong with the upstream, before the epoch's first write.

        :raises DuplicateKeyError: if the key does not identify the rows.
        """

    def read_ahead(self, barrier: Barrier) -> None:  # noqa: B027 - most read a chunk in the epoch that appends it
        """
        Read rows that a later epoch appends to the view, once per epoch.

        :raises BackfillError: if the upstream cannot be read.
        """

    # ---------------------------------------------------------------------------------------------- own tables

    @property
    def tables(self) -> Mapping[str, str]:
        """The strategy's tables: name → location; by default none."""
        return {}

    def prepare(self) -> None:  # noqa: B027 - most have no tables
        """Create the strategy's tables; a no-op if they exist."""

    def wanted(self, visible: Column, barrier: Barrier) -> Column | None:
        """
        Return the condition for the changes that :meth:`keep` gets; changes of the view are read anyway.

        :param visible: the condition that a row was read before the epoch.
        :returns: by default ``None``: no changes.
        """
        del visible, barrier
        return None

    def keep(self, changes: DataFrame, barrier: Barrier, rows: int) -> None:  # noqa: B027
        """
        Write an epoch's net changes of rows that are not read yet, once.

        :param rows: the number of changes.
        """

    def set_aside(self, barrier: Barrier) -> None:  # noqa: B027 - most fail on what cannot be read
        """List what cannot be read of an epoch's chunk and changes, once, if the job leaves it out of the view."""

    def fence(self, barrier: Barrier) -> bool:
        """Prevent the write of :meth:`keep`, unless it is done; return whether it is prevented."""
        del barrier
        return True

    def require_untouched(self, barrier: Barrier, since: TableVersions | None) -> dict[str, TableVersion]:
        """
        Refuse the strategy's tables if a foreign writer changed them.

        :param since: the versions that the previous epoch left.
        :returns: the newest versions of the tables that chunks are still read from, by name.
        :raises StateError: with what was found.
        """
        del barrier, since
        return {}

    def compact(self, name: str, plan: CompactionPlan) -> None:
        """Run a planned compaction of one of the strategy's tables."""
        raise NotImplementedError(f"{type(self).__name__} has no table {name} to compact with {plan}")
