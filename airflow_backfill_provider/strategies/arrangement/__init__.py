"""
``arrangement``: replicates the upstream once into a layout by (vnode, key), and reads each vnode from it separately.

For a view of groups, the layout is by (vnode, unit, key), and a chunk ends between units. So a group is read whole.

Ports the streaming executor of the same name. Suits keys in random order, and divides the vnodes among parallel task
runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.kinds import query_of, row_units
from airflow_backfill_provider.strategies.arrangement.location import TABLE, location_of
from airflow_backfill_provider.strategies.base import (
    ChunkInputs,
    NextChunk,
    Offer,
    Strategy,
    require_rows_to_stay,
)
from airflow_backfill_provider.strategies.cost import CostEstimate
from airflow_backfill_provider.strategies.vnode_scan import VnodeScan

if TYPE_CHECKING:
    from airflow_backfill_provider.core.epoch.settings import JobSettings
    from airflow_backfill_provider.core.job.definition import BackfillJob
    from airflow_backfill_provider.core.scan.offset import HistoryPoint
    from airflow_backfill_provider.core.scan.scan import Scan
    from airflow_backfill_provider.core.status.compaction import CompactionPlan, CompactionPolicy
    from airflow_backfill_provider.sources.base import Source
    from airflow_backfill_provider.sources.description import UpstreamDescription
    from airflow_backfill_provider.strategies.inputs import StrategyInputs
    from airflow_backfill_provider.strategies.reader import HistoryReader, ReaderContext

SORT_PASSES = 3
"""The passes over the table that create an arrangement: one for the bounds, one that shuffles, one that writes."""


class Arrangement(Strategy):
    """Reads a replica, by vnode and key."""

    name: ClassVar[str] = "arrangement"
    table_names: ClassVar[tuple[str, ...]] = (TABLE,)
    takes_all_changes: ClassVar[bool] = True
    reads_older_offsets: ClassVar[bool] = True
    checks_all_keys: ClassVar[bool] = True
    reads_units: ClassVar[bool] = True

    def require_job(self, job: BackfillJob) -> None:
        """Refuse rows that move between vnodes while their changes wait, if the view has them one by one."""
        if not query_of(job).has_row_units:
            require_rows_to_stay(job)

    def scan(self, settings: JobSettings) -> Scan:
        """Return the scan by vnode and key, or by vnode and unit."""
        return self.vnode_scan(settings)

    def vnode_scan(self, settings: JobSettings) -> VnodeScan:
        """Return the scan by vnode and key; if the view has groups of rows, by vnode and unit."""
        job, units = settings.definition, row_units(settings)
        order = settings.key_order if units is None else units.order
        return VnodeScan(order, job.vnode_count, job.vnodes, settings.own_columns)

    def offer(self, inputs: StrategyInputs) -> Offer:
        """Accept any job whose rows stay in their vnodes while their changes wait, and any whose units it reads."""
        try:
            self.require_job(inputs.job)
        except InvalidJobError as refusal:
            return Offer(fits=False, reason=str(refusal))
        return Offer(fits=True)

    def cost(self, inputs: StrategyInputs) -> CostEstimate:
        """Estimate from the passes over the used columns that create the arrangement, and one that reads it."""
        arrangement = inputs.bytes * inputs.used_share
        return inputs.cost(round((SORT_PASSES + 1) * arrangement), parallelism=inputs.job.parallelism)

    def start(self, job: str, upstream: Source, described: UpstreamDescription) -> HistoryPoint:
        """Return the point of the upstream's history that the arrangement replicates."""
        del job
        return upstream.point(described.offset)

    def is_prepared(self, settings: JobSettings, storage_options: Mapping[str, str] | None) -> bool:
        """Return whether the arrangement exists."""
        from airflow_backfill_provider.strategies.arrangement.files import ArrangementFiles

        return ArrangementFiles(location_of(settings), storage_options).exists()

    def clean_up(self, settings: JobSettings, storage_options: Mapping[str, str] | None) -> None:
        """Delete the arrangement."""
        from airflow_backfill_provider.strategies.arrangement.files import ArrangementFiles

        ArrangementFiles(location_of(settings), storage_options).drop()

    def keeps_tables(self, settings: JobSettings) -> bool:
        """Return whether the job keeps the arrangement after the view is finished."""
        return settings.definition.keep_arrangement

    def next_chunk(self, inputs: ChunkInputs) -> NextChunk:
        """Plan with the arrangement's files."""
        from airflow_backfill_provider.strategies.arrangement.next_chunk import next_arranged_chunk

        return next_arranged_chunk(inputs, location_of(inputs.settings))

    def reader(self, context: ReaderContext) -> HistoryReader:
        """Return the reader of chunks from the arrangement, which also keeps it current."""
        from airflow_backfill_provider.strategies.arrangement.reader import ArrangementReader

        return ArrangementReader(context, location_of(context.settings), self.vnode_scan(context.settings))

    def compactions(
        self, settings: JobSettings, policy: CompactionPolicy, storage_options: Mapping[str, str] | None
    ) -> dict[str, CompactionPlan]:
        """Plan the compaction of the files of changes."""
        from airflow_backfill_provider.strategies.arrangement.maintenance import compaction_of

        planned = compaction_of(settings, location_of(settings), policy, storage_options)
        return {} if planned is None else {TABLE: planned}

    def files_read(self, files: int, of: int) -> str:
        """Return a text for the dry run: how many files of the arrangement the next epoch opens."""
        del of
        return f"{files:,} {'file' if files == 1 else 'files'} of the arrangement"

    def first_chunk(self) -> str:
        """Return a text for the dry run: the arrangement's files don't exist yet."""
        return "reads only its own rows from the arrangement, into which creating the job sorts the upstream once"
