"""
``source``: reads the splits of a source whose rows are only appended, such as the partitions of a topic.

Ports the streaming executor of the same name. Each split is read from its first row on, all side by side under one rate
limit. What is appended meanwhile is read like the rest, until a chunk ends where the split does. From then on the
split's vnode is Completed, and what is appended is a change. So no reader of live rows has to be met: the change is the
live row, and the position of the split decides which of the two a row is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.visibility import Visibility
from airflow_backfill_provider.strategies.base import ChunkInputs, NextChunk, Offer, Strategy
from airflow_backfill_provider.strategies.cost import CostEstimate
from airflow_backfill_provider.strategies.source.location import dead_letters_of
from airflow_backfill_provider.strategies.vnode_scan import VnodeScan

if TYPE_CHECKING:
    from airflow_backfill_provider.core.epoch.settings import JobSettings
    from airflow_backfill_provider.core.job.definition import BackfillJob
    from airflow_backfill_provider.core.scan.offset import HistoryPoint, Offset
    from airflow_backfill_provider.core.scan.progress import BackfillState
    from airflow_backfill_provider.core.scan.scan import Scan
    from airflow_backfill_provider.sources.base import Source
    from airflow_backfill_provider.sources.description import UpstreamDescription
    from airflow_backfill_provider.strategies.inputs import StrategyInputs
    from airflow_backfill_provider.strategies.reader import HistoryReader, ReaderContext


class SourceBackfill(Strategy):
    """Reads splits, from their first row on."""

    name: ClassVar[str] = "source"
    reads_splits: ClassVar[bool] = True

    def require_job(self, job: BackfillJob) -> None:
        """Refuse changes that wait."""
        if job.visibility is not Visibility.EVERY_EPOCH:
            raise InvalidJobError(
                "visibility: rows that are only appended have no changes that could wait; leave it out"
            )

    def scan(self, settings: JobSettings) -> Scan:
        """Return the scan by vnode and place."""
        return self.vnode_scan(settings)

    def vnode_scan(self, settings: JobSettings) -> VnodeScan:
        """Return the scan by vnode and place."""
        job = settings.definition
        return VnodeScan(settings.key_order, job.vnode_count, job.vnodes, settings.own_columns)

    def offer(self, inputs: StrategyInputs) -> Offer:
        """Accept a job whose upstream has splits."""
        del inputs
        return Offer(fits=True, reason="rows are only appended, so each split is read from its first row on")

    def cost(self, inputs: StrategyInputs) -> CostEstimate:
        """Estimate from reading each row once."""
        return inputs.cost(inputs.bytes, parallelism=inputs.job.parallelism)

    def start(self, job: str, upstream: Source, described: UpstreamDescription) -> HistoryPoint:
        """Return the point of the history at which the oldest rows lie, so that none is lost unnoticed later."""
        from airflow_backfill_provider.strategies.source.next_chunk import splits_of

        del job, described
        return upstream.point(splits_of(upstream).beginnings())

    def is_prepared(self, settings: JobSettings, storage_options: Mapping[str, str] | None) -> bool:
        """Return whether the table of records that cannot be read exists, if the job needs one."""
        from airflow_backfill_provider.lake.tables.existing import is_table

        return not settings.definition.upstream.lists_unreadable or is_table(dead_letters_of(settings), storage_options)

    def clean_up(self, settings: JobSettings, storage_options: Mapping[str, str] | None) -> None:
        """Delete the table of records that cannot be read."""
        from airflow_backfill_provider.lake.log.dropping import drop_table

        drop_table(dead_letters_of(settings), storage_options)

    def keeps_tables(self, settings: JobSettings) -> bool:
        """Return whether the table of records that cannot be read stays when the view is finished: yes."""
        del settings
        return True

    def read_of_splits(self, settings: JobSettings, state: BackfillState, up_to: Offset) -> Mapping[int, int]:
        """Return for each split the place after the last row that was read."""
        from airflow_backfill_provider.strategies.source.chunks import SplitBounds, places_of

        ends = settings.definition.upstream.split_ends(up_to) or {}
        scan = self.vnode_scan(settings)
        read = places_of(scan, scan.read(state), SplitBounds(begins={}, ends=ends))
        return {**dict.fromkeys(ends, 0), **{places.split: places.end for places in read}}

    def next_chunk(self, inputs: ChunkInputs) -> NextChunk:
        """Plan with the splits' ends."""
        from airflow_backfill_provider.strategies.source.next_chunk import next_splits

        return next_splits(inputs, self.vnode_scan(inputs.settings))

    def reader(self, context: ReaderContext) -> HistoryReader:
        """Return the reader of chunks."""
        from airflow_backfill_provider.strategies.source.reader import SplitReader

        return SplitReader(context, self.vnode_scan(context.settings))
