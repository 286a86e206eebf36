"""What a strategy's half on Spark does for the epochs of a job: make its tables, take changes, and give chunks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from airflow_backfill_provider.core.barrier import Barrier
    from airflow_backfill_provider.core.compaction import CompactionPlan
    from airflow_backfill_provider.core.keys import KeyRange
    from airflow_backfill_provider.core.offset import Offset
    from airflow_backfill_provider.core.settings import JobSettings
    from airflow_backfill_provider.core.table_version import TableVersion, TableVersions
    from airflow_backfill_provider.engine.job_rows import JobRows
    from airflow_backfill_provider.engine.row_account import RowAccount
    from airflow_backfill_provider.sources.base import Source


class Chunk(Protocol):
    """Some ranges of the upstream's rows as of one epoch; every attempt of the epoch finds the same."""

    def rows(self) -> DataFrame:
        """Return the rows, with the used columns among theirs."""
        ...

    def count(self) -> Mapping[int, int]:
        """
        Count the rows by vnode, or all under 0 if vnodes don't advance on their own; none that is zero.

        :raises DuplicateKeyError: if the key does not identify the rows.
        """
        ...

    def require_sound(self) -> None:
        """Fail as evaluating the rows would, for an attempt that finds them written already."""
        ...


class UpstreamRows(Protocol):
    """The upstream's rows as of an offset; the same frame for the offset that was asked for last."""

    def __call__(self, offset: Offset) -> DataFrame:
        """Return the used columns and the vnode."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderContext:
    """
    What a reader works with.

    :param spark: the session.
    :param settings: those in force.
    :param job_rows: the rows that the job is about.
    :param upstream: what they are read from.
    :param rows_at: the rows as of an offset.
    :param account: knows how many rows there are.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    spark: SparkSession
    settings: JobSettings
    job_rows: JobRows
    upstream: Source
    rows_at: UpstreamRows
    account: RowAccount
    storage_options: Mapping[str, str] | None


class SnapshotReader(ABC):
    """Reads a job's snapshot, chunk by chunk."""

    counts_before_changes: ClassVar[bool] = True
    """Whether a chunk is known before the epoch's changes are written, so that it is checked before anything is."""

    @abstractmethod
    def chunk(self, barrier: Barrier, ranges: Sequence[KeyRange]) -> AbstractContextManager[Chunk]:
        """Return the rows in some ranges as of the barrier's chunk offset, to be used inside the block."""

    def chunk_after(self, error: Exception, barrier: Barrier, ranges: Sequence[KeyRange]) -> Chunk | None:
        """
        Return another chunk of the same rows, if the one at hand failed with an error that this one may not meet.

        :returns: by default ``None``.
        """
        del error, barrier, ranges
        return None

    # --------------------------------------------------------------------------------------------- its own tables

    @property
    def tables(self) -> Mapping[str, str]:
        """The names of its tables, each with its location; by default none."""
        return {}

    def prepare(self) -> None:  # noqa: B027 - most have no tables
        """Make its tables exist; a no-op if they do."""

    def wanted(self, visible: Column, barrier: Barrier) -> Column | None:
        """
        Return the condition: a change is none of those that go to the view, and is handed to :meth:`keep`.

        :param visible: the condition: the row was read before the epoch.
        :returns: by default ``None``, for it keeps none.
        """
        del visible, barrier
        return None

    def keep(self, changes: DataFrame, barrier: Barrier, rows: int) -> None:  # noqa: B027
        """
        Write an epoch's net changes of rows that are not read yet, once.

        :param rows: their number.
        """

    def fence(self, barrier: Barrier) -> bool:
        """Keep what :meth:`keep` writes from being written, unless it is; return whether it is not."""
        del barrier
        return True

    def require_untouched(self, barrier: Barrier, since: TableVersions | None) -> dict[str, TableVersion]:
        """
        Refuse tables of its own that anything but the job's epochs wrote to.

        :param since: the versions that the previous epoch left.
        :returns: the newest versions of those that chunks are still read of, by name.
        :raises StateError: saying how that was seen.
        """
        del barrier, since
        return {}

    def compact(self, name: str, plan: CompactionPlan) -> None:
        """Do to the files of one of its tables what is planned."""
        raise NotImplementedError(f"{type(self).__name__} has no table {name}, and so no {plan}")
