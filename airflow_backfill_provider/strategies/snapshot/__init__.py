"""
``snapshot``: reads one version of the upstream file by file, in no key order, and replays the log afterwards.

Ports what RisingWave made its default for views that nobody reads before they are finished. The version is pinned when
the job is created, and all chunks are read at it. Changes since then wait in the upstream's log: a window ends at the
pinned version until all files are read, and then moves on by bounded steps, in at most ten epochs
(:mod:`~airflow_backfill_provider.core.epoch.replay`). One difference: here the log that waits is the upstream's own, so
it is kept only as long as the upstream keeps it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from airflow_backfill_provider.core.durations import duration
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.visibility import Visibility
from airflow_backfill_provider.core.kinds import further_leads
from airflow_backfill_provider.strategies.base import ChunkInputs, NextChunk, Offer, Strategy
from airflow_backfill_provider.strategies.cost import CostEstimate
from airflow_backfill_provider.strategies.snapshot.scan import SnapshotScan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_backfill_provider.core.epoch.barrier import Barrier
    from airflow_backfill_provider.core.epoch.replay import ReplayEpoch
    from airflow_backfill_provider.core.epoch.settings import JobSettings
    from airflow_backfill_provider.core.job.definition import BackfillJob
    from airflow_backfill_provider.core.scan.columns import OwnColumns
    from airflow_backfill_provider.core.scan.keys import KeyOrder
    from airflow_backfill_provider.core.scan.offset import HistoryPoint, Offset
    from airflow_backfill_provider.core.scan.progress import BackfillState
    from airflow_backfill_provider.sources.base import Source
    from airflow_backfill_provider.sources.description import UpstreamDescription
    from airflow_backfill_provider.spark.job_rows import PlacedRows
    from airflow_backfill_provider.strategies.inputs import StrategyInputs
    from airflow_backfill_provider.strategies.reader import HistoryReader, ReaderContext

FILES = "snapshot_files"
"""The name of the strategy's table, which lists the files of the pinned version."""


class Snapshot(Strategy):
    """Reads files, then replays the log."""

    name: ClassVar[str] = "snapshot"
    ends_windows: ClassVar[bool] = True
    only_visibility: ClassVar[Visibility | None] = Visibility.ON_FINISH

    def require_job(self, job: BackfillJob) -> None:
        """Refuse a view that shows changes before it is finished."""
        if job.visibility is not Visibility.ON_FINISH:
            raise InvalidJobError(
                "visibility: strategy snapshot reads rows in no order of keys, so changes wait until all are read; use "
                "on_finish, or another strategy"
            )

    def scan(self, settings: JobSettings) -> SnapshotScan:
        """Return the scan by file and row."""
        return SnapshotScan(settings.definition.vnode_count, settings.own_columns)

    def can_read(self, upstream: Source) -> bool:
        """Return whether rows lie in files that are kept."""
        return upstream.numbered_files is not None

    def offer(self, inputs: StrategyInputs) -> Offer:
        """Accept any job whose changes may wait, if the files last long enough."""
        if too_long := self._too_long(inputs):
            return Offer(fits=False, reason=too_long)
        return Offer(
            fits=True,
            reason="changes may wait until the view is finished, so history is read as it lies in the files, without "
            "sorting or copying it",
        )

    def require_possible(self, inputs: StrategyInputs) -> None:
        """Refuse a job that takes longer than the upstream keeps its files."""
        if too_long := self._too_long(inputs):
            raise InvalidJobError(
                f"strategy: snapshot cannot end in time: {too_long}; keep them longer, raise the rate limit, or use "
                "another strategy"
            )

    def _too_long(self, inputs: StrategyInputs) -> str:
        """Return why the upstream does not keep the files long enough; an empty text if it does."""
        kept, needed = inputs.files_kept_for, dt.timedelta(hours=self.cost(inputs).hours)
        if kept is None or needed <= kept:
            return ""
        takes, keeps = duration(needed.total_seconds()), duration(kept.total_seconds())
        return f"the backfill takes about {takes}, and the upstream keeps files and changes for {keeps}"

    def cost(self, inputs: StrategyInputs) -> CostEstimate:
        """Estimate from reading each file once."""
        return inputs.cost(inputs.bytes, parallelism=inputs.job.parallelism)

    def start(self, job: str, upstream: Source, described: UpstreamDescription) -> HistoryPoint:
        """Return the point of the upstream's history at which all files are read."""
        del job
        return upstream.point(described.offset)

    def clean_up(self, settings: JobSettings, storage_options: Mapping[str, str] | None) -> None:
        """Delete the lists of files."""
        from airflow_backfill_provider.lake.log.dropping import drop_table

        drop_table(settings.own_table(FILES), storage_options)
        for name in further_leads(settings.definition):
            drop_table(settings.own_table(f"{FILES}_{name}"), storage_options)

    def next_chunk(self, inputs: ChunkInputs) -> NextChunk:
        """Plan with the files of the pinned version."""
        from airflow_backfill_provider.strategies.snapshot.next_chunk import next_files

        return next_files(inputs)

    def files_needed(self, settings: JobSettings, state: BackfillState) -> Offset | None:
        """Return the pinned version until all files are read."""
        from airflow_backfill_provider.strategies.snapshot.next_chunk import are_files_read

        return None if state.completed or are_files_read(state) else settings.first_offset

    def replay(self, state: BackfillState, previous: Barrier | None, backlog: int) -> ReplayEpoch | None:
        """Return the next epoch of the replay once all files are read."""
        from airflow_backfill_provider.core.epoch.replay import ReplayEpoch
        from airflow_backfill_provider.strategies.snapshot.next_chunk import are_files_read

        return ReplayEpoch.following(previous, backlog=backlog) if are_files_read(state) else None

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
        """Return the pinned version until all files are read, and then the end of the next step."""
        from airflow_backfill_provider.strategies.snapshot.next_chunk import replay_end

        del settings, state
        return replay_end(replay, upstream, from_offset, newest, rate_limit=rate_limit)

    def last_epochs(self, replay: ReplayEpoch | None) -> str:
        """Describe the replay, or what is left of it."""
        from airflow_backfill_provider.core.epoch.replay import described

        if replay is None:
            return f"once all files are read, {described(1)}"
        return f"all files are read; {described(replay.number)}"

    def placed(
        self, spark: SparkSession, settings: JobSettings, upstream: Source, storage_options: Mapping[str, str] | None
    ) -> PlacedRows:
        """Return how to read the rows of the pinned version with the files that they lie in."""
        del storage_options
        from airflow_backfill_provider.strategies.snapshot.lead_files import files_of

        return partial(
            files_of(upstream).rows,
            spark,
            settings.first_offset,
            settings.own_table(FILES),
            self.scan(settings).columns,
        )

    def placed_lead(
        self,
        spark: SparkSession,
        settings: JobSettings,
        name: str,
        own: OwnColumns,
        upstream: Source,
        further: Mapping[str, Source],
    ) -> tuple[KeyOrder, PlacedRows]:
        """Return the same of an upstream that leads a further branch: its files come after those before it."""
        from airflow_backfill_provider.strategies.snapshot.lead_files import lead_files

        scan, folder = SnapshotScan(settings.definition.vnode_count, own), settings.own_table(f"{FILES}_{name}")

        def placed() -> DataFrame:
            found = next(lead for lead in lead_files(settings, upstream, further) if lead.name == name)
            return found.listing.rows(spark, found.offset, folder, scan.columns, found.first)

        return scan.order, placed

    def reader(self, context: ReaderContext) -> HistoryReader:
        """Return the reader of chunks."""
        from airflow_backfill_provider.strategies.snapshot.reader import SnapshotReader

        return SnapshotReader(context)
