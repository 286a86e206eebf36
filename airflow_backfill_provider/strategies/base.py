"""
The seam of strategies: how history is read.

A strategy defines what a position means (its scan), what the next chunk is, which tables it creates, and what it costs.
Its Spark side is a :class:`~airflow_backfill_provider.strategies.reader.HistoryReader`. The rest of an epoch is the
same for all strategies. A strategy's module imports deltalake and Spark inside its methods, because a scheduler loads
it for every DAG.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.scan.keys import KeyRange
from airflow_backfill_provider.strategies.cost import CostEstimate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_backfill_provider.core.epoch.barrier import Barrier
    from airflow_backfill_provider.core.epoch.replay import ReplayEpoch
    from airflow_backfill_provider.core.epoch.settings import JobSettings
    from airflow_backfill_provider.core.job.definition import BackfillJob
    from airflow_backfill_provider.core.job.visibility import Visibility
    from airflow_backfill_provider.core.scan.columns import OwnColumns
    from airflow_backfill_provider.core.scan.keys import KeyOrder
    from airflow_backfill_provider.core.scan.next_chunk import ChunkPart
    from airflow_backfill_provider.core.scan.offset import HistoryPoint, Offset
    from airflow_backfill_provider.core.scan.progress import BackfillState
    from airflow_backfill_provider.core.scan.scan import Scan, VnodeRange
    from airflow_backfill_provider.core.status.compaction import CompactionPlan, CompactionPolicy
    from airflow_backfill_provider.sources.base import Source
    from airflow_backfill_provider.sources.description import UpstreamDescription
    from airflow_backfill_provider.spark.job_rows import PlacedRows
    from airflow_backfill_provider.strategies.inputs import StrategyInputs
    from airflow_backfill_provider.strategies.reader import HistoryReader, ReaderContext


@dataclass(frozen=True, slots=True)
class Offer:
    """
    A strategy's answer for a job with strategy ``auto``.

    :param fits: whether the strategy suits the job.
    :param reason: why, or why not.
    """

    fits: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class NextChunk:
    """
    The snapshot side of one epoch.

    :param row_count: the job's upstream rows as of the epoch; an estimate for progress only.
    :param parts: the parts of the chunk, one for each parallel task run that has rows to read.
    :param vnode_ranges: the vnodes of each parallel task run; empty if they don't divide the vnodes.
    :param prepares: whether the epoch reads nothing because it must create the strategy's tables first.
    :param unread: how many rows are left, if the strategy knows that better than from ``row_count`` and the view.
    """

    row_count: int
    parts: tuple[ChunkPart, ...] = ()
    vnode_ranges: tuple[VnodeRange, ...] = ()
    prepares: bool = False
    unread: int | None = None

    @property
    def ranges(self) -> tuple[KeyRange, ...]:
        """The ranges of all parts."""
        return tuple(covered for part in self.parts for covered in part.ranges)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of all parts, each once."""
        return tuple(dict.fromkeys(warning for part in self.parts for warning in part.warnings))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkInputs:
    """
    The facts that the next chunk is chosen from.

    :param settings: the settings in force.
    :param rate_limit: the most snapshot rows of the epoch; ``None`` is unlimited, 0 reads none. With ``auto`` it
        follows from the epochs before, so it is not in the settings.
    :param state: the committed state; at least one vnode is not Completed.
    :param upstream: the upstream.
    :param kept_up_to: the upstream's offset that the strategy's own tables are as of, if it has any.
    :param offset: the upstream's offset that the chunk will be read at.
    :param newest: the newest offset that the epoch's window may end at.
    :param previous: the previous barrier, if this incarnation has one.
    :param storage_options: options of the object store, as deltalake takes them.
    """

    settings: JobSettings
    rate_limit: int | None
    state: BackfillState
    upstream: Source
    kept_up_to: Offset
    offset: Offset
    newest: Offset
    previous: Barrier | None
    storage_options: Mapping[str, str] | None


class Strategy(ABC):
    """One way of reading history."""

    name: ClassVar[str]
    """The strategy's name in job definitions."""

    table_names: ClassVar[tuple[str, ...]] = ()
    """The names of the strategy's own tables that may need a compaction."""

    takes_all_changes: ClassVar[bool] = False
    """Whether each epoch that publishes also gives the strategy the changes of rows that are not read yet."""

    reads_older_offsets: ClassVar[bool] = False
    """Whether chunks may be read at an older offset as long as changes wait until the view is finished."""

    ends_windows: ClassVar[bool] = False
    """Whether the strategy decides where a window ends while the view is unfinished; see :meth:`window_end`."""

    only_visibility: ClassVar[Visibility | None] = None
    """
    The only visibility that the strategy supports; ``None`` if it supports all.

    It is the default for jobs that name the strategy, and ``auto`` does not choose the strategy for other jobs.
    """

    checks_all_keys: ClassVar[bool] = False
    """Whether all keys are checked at creation, because the strategy copies all rows at once."""

    reads_splits: ClassVar[bool] = False
    """Whether the strategy reads the upstreams to whose splits rows are only appended, and no others."""

    reads_units: ClassVar[bool] = False
    """
    Whether the strategy lays rows out by the units of the view, if these are groups of rows, and a chunk has whole
    units. Then its scan is by the columns of units; see ``ShapedQuery.has_row_units``.
    """

    # --------------------------------------------------------------------------------------------- definition

    def require_job(self, job: BackfillJob) -> None:  # noqa: B027 - most refuse nothing
        """
        Refuse a definition that names the strategy and asks for something that it cannot do.

        :raises InvalidJobError: with the field.
        """

    def require_parallelism(self, parallelism: int, settings: JobSettings) -> None:  # noqa: B027
        """
        Refuse a number of parallel task runs that cannot share a job's vnodes.

        :raises InvalidJobError: with what to do.
        """

    @abstractmethod
    def scan(self, settings: JobSettings) -> Scan:
        """Return the scan of a job's upstream: its order, and what its ranges mean for vnodes."""

    # ------------------------------------------------------------------------------------------------ choosing

    def can_read(self, upstream: Source) -> bool:
        """Return whether the strategy is for such a source; by default, for one whose rows it has as of any offset."""
        return upstream.present is None and (upstream.splits is not None) is self.reads_splits

    @abstractmethod
    def offer(self, inputs: StrategyInputs) -> Offer:
        """Return whether the strategy suits a job, for ``auto``."""

    def require_possible(self, inputs: StrategyInputs) -> None:  # noqa: B027 - most depend on nothing that ends
        """
        Refuse a job that names the strategy and cannot be finished with it.

        :raises InvalidJobError: with what to do.
        """

    @abstractmethod
    def cost(self, inputs: StrategyInputs) -> CostEstimate:
        """Estimate the cost of a whole backfill."""

    # ------------------------------------------------------------------------------------------------ creation

    def start(self, job: str, upstream: Source, described: UpstreamDescription) -> HistoryPoint | None:
        """
        Return the point of the upstream's history that the job starts after; creating the job pins it.

        :param job: the job's name.
        :returns: by default ``None``: the job starts at the beginning of the history.
        """
        del job, upstream, described
        return None

    def planned_start(self, job: str, upstream: Source, described: UpstreamDescription) -> HistoryPoint | None:
        """
        Return about what :meth:`start` would, for a dry run: write nothing, and refuse what creating the job would.

        By default the same; a strategy whose start makes something has to override it.
        """
        return self.start(job, upstream, described)

    def is_prepared(self, settings: JobSettings, storage_options: Mapping[str, str] | None) -> bool:
        """Return whether the strategy's tables exist; by default it has none."""
        del settings, storage_options
        return True

    def clean_up(self, settings: JobSettings, storage_options: Mapping[str, str] | None) -> None:  # noqa: B027
        """Delete the strategy's tables of an incarnation, if they exist; readers of them fail from then on."""

    def keeps_tables(self, settings: JobSettings) -> bool:
        """Return whether the job keeps the strategy's tables after the view is finished."""
        del settings
        return False

    # --------------------------------------------------------------------------------------------- each epoch

    @abstractmethod
    def next_chunk(self, inputs: ChunkInputs) -> NextChunk:
        """
        Plan what an epoch reads, without a JVM.

        :raises StateError: if the strategy's tables are gone although epochs read them before.
        """

    def replay(self, state: BackfillState, previous: Barrier | None, backlog: int) -> ReplayEpoch | None:
        """
        Return the next epoch's place in the replay of changes that waited; by default ``None``: nothing is replayed.

        :param state: the committed state of an unfinished job.
        :param previous: the previous barrier, if this incarnation has one.
        :param backlog: how many steps of the upstream's history are left.
        """
        del state, previous, backlog
        return None

    def window_end(
        self,
        settings: JobSettings,
        state: BackfillState,
        upstream: Source,
        from_offset: Offset,
        newest: Offset,
        *,
        rate_limit: int | None,
        replay: ReplayEpoch | None = None,
    ) -> Offset:
        """
        Return the offset that the next window of an unfinished job ends at; by default the newest.

        A strategy that ends them earlier has :attr:`ends_windows`. Changes after the end wait.

        :param from_offset: the offset that the window begins after.
        :param newest: the newest offset that it may end at.
        :param rate_limit: the rate limit in force, for a strategy that reads changes by it.
        :param replay: what :meth:`replay` returned.
        """
        del settings, state, upstream, from_offset, rate_limit, replay
        return newest

    def read_of_splits(self, settings: JobSettings, state: BackfillState, up_to: Offset) -> Mapping[int, int]:
        """
        Return for each split of the upstream the place after the last row that a job has read.

        :param up_to: the offset up to which it has looked at the upstream.
        :returns: nothing, by default: the strategy reads no splits.
        """
        del settings, state, up_to
        return {}

    def files_needed(self, settings: JobSettings, state: BackfillState) -> Offset | None:
        """Return the offset whose files an unfinished job still has to read; by default ``None``."""
        del settings, state
        return None

    def placed(
        self, spark: SparkSession, settings: JobSettings, upstream: Source, storage_options: Mapping[str, str] | None
    ) -> PlacedRows | None:
        """
        Return how to read the rows as of the job's start with the columns of positions.

        :returns: ``None``, the default, if the upstream itself has these columns.
        """
        del spark, settings, upstream, storage_options
        return None

    def placed_lead(
        self,
        spark: SparkSession,
        settings: JobSettings,
        name: str,
        own: OwnColumns,
        upstream: Source,
        further: Mapping[str, Source],
    ) -> tuple[KeyOrder, PlacedRows]:
        """
        Return the order of positions of an upstream that leads a further branch, and how to read its rows with them.

        :param name: its name in the job.
        :param own: the names of the package's own columns beside its columns.
        :param upstream: the upstream that leads the job.
        :param further: those that lead further branches, by their names.
        :raises InvalidJobError: by default: the strategy reads the history of one upstream.
        """
        del spark, settings, own, upstream, further
        raise InvalidJobError(f"strategy: {self.name} reads the history of one upstream, and {name} leads, too")

    @abstractmethod
    def reader(self, context: ReaderContext) -> HistoryReader:
        """Return the reader on Spark, for a job's epochs."""

    # -------------------------------------------------------------------------------------------- maintenance

    def compactions(
        self, settings: JobSettings, policy: CompactionPolicy, storage_options: Mapping[str, str] | None
    ) -> dict[str, CompactionPlan]:
        """Return the planned compactions of the strategy's tables, by table name."""
        del settings, policy, storage_options
        return {}

    # -------------------------------------------------------------------------------------------------- texts

    def files_read(self, files: int, of: int) -> str:
        """Return a text for the dry run: which files the next epoch opens."""
        return f"{files:,} of {of:,} {'file' if of == 1 else 'files'}"

    def first_chunk(self) -> str:
        """Return a text for the dry run: what the first epoch reads, if its files don't exist yet; otherwise empty."""
        return ""

    def last_epochs(self, replay: ReplayEpoch | None) -> str:
        """
        Return a text for the dry run: what epochs do after all rows are read, before the view is finished.

        :param replay: what :meth:`replay` returned.
        :returns: by default an empty text: nothing.
        """
        del replay
        return ""


def require_rows_to_stay(job: BackfillJob) -> None:
    """
    Refuse a job with rows that could move from a read vnode to an unread one, and be read twice.

    :raises InvalidJobError: with a column that can move them.
    """
    from airflow_backfill_provider.core.job.visibility import Visibility

    others = sorted(set(job.upstream.distribution_key) - {column.column for column in job.upstream.key})
    if others and job.visibility is Visibility.ON_FINISH:
        raise InvalidJobError(
            f"visibility: on_finish needs a distribution_key of key columns: a change of {others[0]} can move a row to "
            "another vnode, where it would be read again; use every_epoch, or strategy no_shuffle"
        )
