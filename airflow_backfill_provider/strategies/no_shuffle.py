"""
``no_shuffle``: reads the upstream in place, in key order, with one position for all vnodes.

Ports the streaming executor of the same name. Suits an upstream with file statistics that bound each chunk.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.planner import SCAN_FACTOR, plan_parts
from airflow_backfill_provider.core.row_estimate import rows_of
from airflow_backfill_provider.strategies.base import Offer, Situation, SnapshotPlan, Strategy
from airflow_backfill_provider.strategies.cost import CostEstimate
from airflow_backfill_provider.strategies.no_shuffle_scan import NoShuffleScan

if TYPE_CHECKING:
    from airflow_backfill_provider.core.job import BackfillJob
    from airflow_backfill_provider.core.scan import Scan
    from airflow_backfill_provider.core.settings import JobSettings
    from airflow_backfill_provider.strategies.evidence import Evidence
    from airflow_backfill_provider.strategies.reader import ReaderContext, SnapshotReader


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

    def offer(self, evidence: Evidence) -> Offer:
        """Accept a job if the files' statistics bound its chunks."""
        job = evidence.job
        if job.parallelism > 1:
            return Offer(fits=False, reason=f"{job.parallelism} parallel task runs must divide the vnodes")
        if evidence.epochs == 1:
            return Offer(fits=True, reason="one epoch reads everything in place")
        stored = sum(file.row_count for file in evidence.files)
        overlapping = round(evidence.overlap * stored)
        column = job.upstream.key[0].column
        found = f"{overlapping:,} of {stored:,} rows lie in files that overlap others in {column}"
        if overlapping > SCAN_FACTOR * math.ceil(stored / evidence.epochs):
            return Offer(fits=False, reason=f"statistics cannot bound a chunk: {found}")
        return Offer(fits=True, reason=f"the files' statistics bound each chunk: {found}")

    def cost(self, evidence: Evidence) -> CostEstimate:
        """Estimate from the files that each epoch opens: those with its rows, and those that only overlap them."""
        size, epochs = evidence.bytes, evidence.epochs
        return evidence.cost(round(min(size + epochs * evidence.overlap * size, epochs * size)), parallelism=1)

    def plan(self, situation: Situation) -> SnapshotPlan:
        """Plan with the upstream's files."""
        settings, scan = situation.settings, situation.settings.scan
        upstream, offset = situation.upstream, situation.offset
        row_count = rows_of(upstream.blocks(offset, scan.order), settings.definition, settings.key_order)
        if not settings.reads_snapshot:
            return SnapshotPlan(row_count)
        files, keys = upstream.blocks_of_job(offset, settings)
        unread = [scan.unread(situation.state)]
        parts = plan_parts(files, unread=unread, rate_limit=situation.rate_limit, order=scan.order, keys=keys)
        return SnapshotPlan(row_count, parts)

    def reader(self, context: ReaderContext) -> SnapshotReader:
        """Return the reader of chunks from the upstream itself."""
        from airflow_backfill_provider.strategies.in_place_reader import InPlaceReader

        return InPlaceReader(context)
