"""
``cdc``: reads the present rows of a database in key order, and makes them consistent with its log.

Ports the streaming executor of the same name. A database cannot be read as of an earlier moment. So each epoch reads a
range of keys ahead into a table of the strategy's own. The next epoch makes these rows consistent with the changes
since, up to the end of its window, and appends them to the view. Everything that it reads then lies in the lake, so it
can be attempted again, however often, with the same result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.visibility import Visibility
from airflow_backfill_provider.core.scan.offset import HistoryPoint
from airflow_backfill_provider.strategies.base import ChunkInputs, NextChunk, Offer, Strategy
from airflow_backfill_provider.strategies.cdc.location import sample_of, table_of
from airflow_backfill_provider.strategies.cost import CostEstimate
from airflow_backfill_provider.strategies.no_shuffle_scan import NoShuffleScan

if TYPE_CHECKING:
    from airflow_backfill_provider.core.epoch.settings import JobSettings
    from airflow_backfill_provider.core.job.definition import BackfillJob
    from airflow_backfill_provider.core.scan.scan import Scan
    from airflow_backfill_provider.sources.base import Source
    from airflow_backfill_provider.sources.description import UpstreamDescription
    from airflow_backfill_provider.strategies.inputs import StrategyInputs
    from airflow_backfill_provider.strategies.reader import HistoryReader, ReaderContext


class Cdc(Strategy):
    """Reads present rows, by key."""

    name: ClassVar[str] = "cdc"

    def require_job(self, job: BackfillJob) -> None:
        """Refuse parallel task runs, and changes that wait."""
        if problem := _problem(job):
            raise InvalidJobError(problem)

    def require_parallelism(self, parallelism: int, settings: JobSettings) -> None:
        """Refuse parallel task runs."""
        if parallelism > 1:
            raise InvalidJobError(
                f"job {settings.job['name']} cannot be rescaled to {parallelism}: under {self.name} all vnodes share "
                "one position, so one task run reads them all"
            )

    def scan(self, settings: JobSettings) -> Scan:
        """Return the scan by key."""
        return NoShuffleScan(settings.key_order, settings.definition.vnode_count, settings.keys)

    def can_read(self, upstream: Source) -> bool:
        """Return whether rows can only be read as they are now."""
        return upstream.present is not None

    def offer(self, inputs: StrategyInputs) -> Offer:
        """Accept a job whose upstream only has present rows."""
        if problem := _problem(inputs.job):
            return Offer(fits=False, reason=problem)
        return Offer(fits=True, reason="the upstream's rows can only be read as they are now")

    def cost(self, inputs: StrategyInputs) -> CostEstimate:
        """Estimate from reading each row once from the database, and once from the lake."""
        return inputs.cost(round(2 * inputs.bytes * inputs.used_share), parallelism=1)

    def start(self, job: str, upstream: Source, described: UpstreamDescription) -> HistoryPoint | None:
        """
        Return the point of the upstream's history after which its changes are complete.

        Keys that no position can hold are refused before anything is made in the database.
        """
        del described
        from airflow_backfill_provider.strategies.cdc.sample import MOST_KEYS

        if (present := upstream.present) is not None:
            present.sample_keys(MOST_KEYS)
        return upstream.begin(job)

    def planned_start(self, job: str, upstream: Source, described: UpstreamDescription) -> HistoryPoint:
        """Return the newest known point, after the same checks; the database gets neither slot nor publication."""
        upstream.require_can_begin(job)
        return HistoryPoint(offset=described.offset)

    def is_prepared(self, settings: JobSettings, storage_options: Mapping[str, str] | None) -> bool:
        """Return whether the table of rows that are read ahead exists."""
        from airflow_backfill_provider.strategies.cdc.files import ReadAheadFiles

        return ReadAheadFiles(table_of(settings), storage_options).exists()

    def clean_up(self, settings: JobSettings, storage_options: Mapping[str, str] | None) -> None:
        """Delete the strategy's tables."""
        from airflow_backfill_provider.strategies.cdc.files import ReadAheadFiles

        for location in (table_of(settings), sample_of(settings)):
            ReadAheadFiles(location, storage_options).drop()

    def next_chunk(self, inputs: ChunkInputs) -> NextChunk:
        """Plan with the rows that were read ahead."""
        from airflow_backfill_provider.strategies.cdc.next_chunk import next_read_ahead

        return next_read_ahead(inputs, table_of(inputs.settings))

    def reader(self, context: ReaderContext) -> HistoryReader:
        """Return the reader that reads ahead, and reads chunks from what was read."""
        from airflow_backfill_provider.strategies.cdc.reader import CdcReader

        return CdcReader(context)


def _problem(job: BackfillJob) -> str:
    """Return what a job asks for that the strategy cannot do; an empty text if it can do all."""
    if job.parallelism > 1:
        return (
            f"parallelism: {job.parallelism} task runs cannot share the one position that cdc keeps for all vnodes; "
            "leave it out"
        )
    if job.visibility is not Visibility.EVERY_EPOCH:
        return "visibility: a view over present rows shows changes with every epoch; leave it out"
    return ""
