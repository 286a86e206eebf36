"""
The seam of strategies: how history is read.

A strategy says what a position means (its scan), what the next chunk is, what it makes at creation, and what it costs.
Its half on Spark is a :class:`~airflow_backfill_provider.strategies.reader.SnapshotReader`. Everything else about an
epoch is the same for all. A strategy's own module imports deltalake and Spark inside of its methods: whoever defines a
job loads it, and a scheduler does so for every DAG.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.keys import KeyRange
from airflow_backfill_provider.strategies.cost import CostEstimate

if TYPE_CHECKING:
    from airflow_backfill_provider.core.barrier import Barrier
    from airflow_backfill_provider.core.compaction import CompactionPlan, CompactionPolicy
    from airflow_backfill_provider.core.job import BackfillJob
    from airflow_backfill_provider.core.offset import HistoryPoint, Offset
    from airflow_backfill_provider.core.planner import ChunkPlan
    from airflow_backfill_provider.core.progress import BackfillState
    from airflow_backfill_provider.core.scan import Scan, VnodeRange
    from airflow_backfill_provider.core.settings import JobSettings
    from airflow_backfill_provider.sources.base import Source, UpstreamDescription
    from airflow_backfill_provider.strategies.evidence import Evidence
    from airflow_backfill_provider.strategies.reader import ReaderContext, SnapshotReader


@dataclass(frozen=True, slots=True)
class Offer:
    """
    What a strategy says of a job for which ``auto`` has to choose one.

    :param fits: whether it suits the job.
    :param reason: why, or why not.
    """

    fits: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SnapshotPlan:
    """
    The snapshot side of one epoch.

    :param row_count: rows that the job is about, as of the epoch; an estimate for progress only.
    :param parts: the chunk of each parallel run that has one.
    :param vnode_ranges: the vnodes that each run owns; empty if runs don't divide them.
    :param prepares: whether the epoch has to make the strategy's tables first, which is why it reads nothing.
    """

    row_count: int
    parts: tuple[ChunkPlan, ...] = ()
    vnode_ranges: tuple[VnodeRange, ...] = ()
    prepares: bool = False

    @property
    def ranges(self) -> tuple[KeyRange, ...]:
        """What all parts read together."""
        return tuple(covered for part in self.parts for covered in part.ranges)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the planner has to say."""
        return tuple(dict.fromkeys(warning for part in self.parts for warning in part.warnings))


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """
    What the next chunk follows from.

    :param settings: those in force.
    :param state: the committed state, in which not every vnode is Completed.
    :param upstream: the upstream.
    :param from_offset: the upstream's offset that the previous epoch ended with.
    :param offset: the upstream's offset that the chunk will be read at.
    :param previous: the barrier before, if there is one in this incarnation.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    settings: JobSettings
    state: BackfillState
    upstream: Source
    from_offset: Offset
    offset: Offset
    previous: Barrier | None
    storage_options: Mapping[str, str] | None


class Strategy(ABC):
    """One way of reading history."""

    name: ClassVar[str]
    """What it is called in job definitions."""

    table_names: ClassVar[tuple[str, ...]] = ()
    """The names of the tables that it makes of its own."""

    takes_all_changes: ClassVar[bool] = False
    """Whether every epoch hands it the changes of rows that were not read yet, too."""

    reads_older_offsets: ClassVar[bool] = False
    """Whether its chunks may stay at an older offset of the upstream, while changes wait for the view's end."""

    checks_all_keys: ClassVar[bool] = False
    """Whether keys are checked at creation, however many there are, because all rows are taken over at once."""

    # --------------------------------------------------------------------------------------------- definition

    def require_job(self, job: BackfillJob) -> None:  # noqa: B027 - most refuse nothing
        """
        Refuse a definition that names the strategy, and asks for something that it cannot do.

        :raises InvalidJobError: naming the field.
        """

    def require_auto(self, job: BackfillJob) -> None:  # noqa: B027
        """
        Refuse a definition that leaves the choice open, if the upstream's statistics may ask for this strategy.

        :raises InvalidJobError: naming the field.
        """

    def require_parallelism(self, parallelism: int, settings: JobSettings) -> None:  # noqa: B027
        """
        Refuse a number of parallel runs that cannot share a job's vnodes.

        :raises InvalidJobError: saying what to do.
        """

    @abstractmethod
    def scan(self, settings: JobSettings) -> Scan:
        """Return the order in which it scans a job's upstream, and what its ranges mean for vnodes."""

    # ------------------------------------------------------------------------------------------------ choosing

    @abstractmethod
    def offer(self, evidence: Evidence) -> Offer:
        """Tell whether it suits a job, for ``auto``."""

    @abstractmethod
    def cost(self, evidence: Evidence) -> CostEstimate:
        """Estimate what a whole backfill would take."""

    # ------------------------------------------------------------------------------------------------ creation

    def start(self, upstream: Source, described: UpstreamDescription) -> HistoryPoint | None:
        """
        Return the point of the upstream's history that the job begins after, pinned when it is created.

        :returns: by default ``None``: with all of the upstream's history.
        """
        del upstream, described
        return None

    def is_prepared(self, settings: JobSettings, storage_options: Mapping[str, str] | None) -> bool:
        """Tell whether the tables are there that it makes at creation; by default there are none."""
        del settings, storage_options
        return True

    def clean_up(self, settings: JobSettings, storage_options: Mapping[str, str] | None) -> None:  # noqa: B027
        """Delete the tables that it made for an incarnation, if there are any; a reader of them fails from then on."""

    def keeps_tables(self, settings: JobSettings) -> bool:
        """Tell whether the job asks for its tables to stay once the view is finished."""
        del settings
        return False

    # --------------------------------------------------------------------------------------------- each epoch

    @abstractmethod
    def plan(self, situation: Situation) -> SnapshotPlan:
        """
        Plan what an epoch reads, without a JVM.

        :raises StateError: if its tables are gone although epochs began to read them.
        """

    @abstractmethod
    def reader(self, context: ReaderContext) -> SnapshotReader:
        """Return its half on Spark, for a job's epochs."""

    # -------------------------------------------------------------------------------------------- maintenance

    def compactions(
        self, settings: JobSettings, policy: CompactionPolicy, storage_options: Mapping[str, str] | None
    ) -> dict[str, CompactionPlan]:
        """Return what would be done to its tables that epochs still read, by their names."""
        del settings, policy, storage_options
        return {}

    # ------------------------------------------------------------------------------------------------- in words

    def files_read(self, files: int, of: int) -> str:
        """Say which files the next epoch looks into, for a plan."""
        return f"{files:,} of {of:,} {'file' if of == 1 else 'files'}"

    def first_chunk(self) -> str:
        """Say what the first epoch reads, where it has no files yet to name; empty if it has."""
        return ""


def require_rows_to_stay(job: BackfillJob) -> None:
    """
    Refuse a job whose rows could move between vnodes of which one was read and the other was not, and be read twice.

    :raises InvalidJobError: naming a column by which they move.
    """
    from airflow_backfill_provider.core.visibility import Visibility

    others = sorted(set(job.upstream.distribution_key) - {column.column for column in job.upstream.key})
    if others and job.visibility is Visibility.ON_FINISH:
        raise InvalidJobError(
            f"visibility: on_finish needs a distribution_key of key columns, for a row whose {others[0]} "
            "changes moves between vnodes and would be read twice; use every_epoch, or strategy no_shuffle"
        )
