"""
``no_shuffle``: reads the upstream in place, in key order, with one position for all vnodes.

Ports the streaming executor of the same name. Suits an upstream with file statistics that bound each chunk.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.row_estimate import rows_of
from airflow_backfill_provider.core.scan.next_chunk import SCAN_FACTOR, choose_parts
from airflow_backfill_provider.strategies.base import ChunkInputs, NextChunk, Offer, Strategy
from airflow_backfill_provider.strategies.cost import CostEstimate
from airflow_backfill_provider.strategies.no_shuffle_scan import NoShuffleScan

if TYPE_CHECKING:
    from airflow_backfill_provider.core.epoch.settings import JobSettings
    from airflow_backfill_provider.core.job.definition import BackfillJob
    from airflow_backfill_provider.core.scan.scan import Scan
    from airflow_backfill_provider.strategies.inputs import StrategyInputs
    from airflow_backfill_provider.strategies.reader import HistoryReader, ReaderContext


class NoShuffle(Strategy):
    """Reads in place, by key."""

    name: ClassVar[str] = "no_shuffle"
    reads_older_offsets: ClassVar[bool] = True

    def require_job(self, job: BackfillJob) -> None:
        """Refuse parallel task runs."""
        if job.parallelism > 1:
            raise InvalidJobError(
                f"parallelism: {job.parallelism} task runs cannot share the one position that no_shuffle keeps for all "
                "vnodes; use strategy arrangement, or auto"
            )

    def require_parallelism(self, parallelism: int, settings: JobSettings) -> None:
        """Refuse parallel task runs."""
        if parallelism > 1:
            raise InvalidJobError(
                f"job {settings.job['name']} cannot be rescaled to {parallelism}: under {self.name} all vnodes "
                "share one position, so one task run reads them all; rebuild the job with strategy arrangement to "
                "divide them"
            )

    def scan(self, settings: JobSettings) -> Scan:
        """Return the scan by key."""
        return NoShuffleScan(settings.key_order, settings.definition.vnode_count, settings.keys)

    def offer(self, inputs: StrategyInputs) -> Offer:
        """Accept a job if the files' statistics bound its chunks."""
        job = inputs.job
        if job.parallelism > 1:
            return Offer(fits=False, reason=f"{job.parallelism} parallel task runs must divide the vnodes")
        if inputs.epochs == 1:
            return Offer(fits=True, reason="one epoch reads everything in place")
        stored = sum(file.row_count for file in inputs.files)
        overlapping = round(inputs.overlap * stored)
        column = job.upstream.key[0].column
        found = f"{overlapping:,} of {stored:,} rows lie in files that overlap others in {column}"
        if overlapping > SCAN_FACTOR * math.ceil(stored / inputs.epochs):
            return Offer(fits=False, reason=f"statistics cannot bound a chunk: {found}")
        return Offer(fits=True, reason=f"the files' statistics bound each chunk: {found}")

    def cost(self, inputs: StrategyInputs) -> CostEstimate:
        """Estimate from the files that each epoch opens: those with its rows, and those that only overlap them."""
        size, epochs = inputs.bytes, inputs.epochs
        return inputs.cost(round(min(size + epochs * inputs.overlap * size, epochs * size)), parallelism=1)

    def next_chunk(self, inputs: ChunkInputs) -> NextChunk:
        """Plan with the upstream's files."""
        settings, scan = inputs.settings, inputs.settings.scan
        upstream, offset = inputs.upstream, inputs.offset
        row_count = rows_of(upstream.blocks(offset, scan.order), settings.definition, settings.key_order)
        if not settings.reads_snapshot:
            return NextChunk(row_count)
        files, keys = upstream.blocks_of_job(offset, settings)
        unread = [scan.unread(inputs.state)]
        parts = choose_parts(files, unread=unread, rate_limit=inputs.rate_limit, order=scan.order, keys=keys)
        return NextChunk(row_count, parts)

    def reader(self, context: ReaderContext) -> HistoryReader:
        """Return the reader of chunks from the upstream itself."""
        from airflow_backfill_provider.strategies.in_place_reader import InPlaceReader

        return InPlaceReader(context)
