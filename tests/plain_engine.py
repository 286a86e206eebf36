"""An engine in plain Python that counts rows instead of writing them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

import pyarrow as pa
from deltalake import DeltaTable

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.epoch.engine import EpochWrites, PartWrites
from airflow_backfill_provider.core.epoch.settings import JobSettings, ResolvedUpstream, ViewColumn
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.core.scan.scan import VnodeRange
from airflow_backfill_provider.core.scan.table_version import TableVersion, TableVersions
from airflow_backfill_provider.core.status.compaction import CompactionPlan
from airflow_backfill_provider.core.status.verification import ComparedVnodes, PinnedVerification
from airflow_backfill_provider.jobs import creation
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.lake.tables.view_identity import (
    INCARNATION_PROPERTY,
    JOB_PROPERTY,
    ViewIdentity,
    view_identity,
)
from tests.builders import compared_of
from tests.cut_overs import KnownComparer
from tests.plain_source import source_of


class CountingEngine:
    """
    Knows how many rows a chunk has, and writes nothing but the arrangement and the view's identity.

    :param missing: keys that comparisons find missing, one after another.
    :param catalog: the locations of tables by their names.
    """

    def __init__(self, missing: list[Sequence[str]] | None = None, catalog: Mapping[str, str] | None = None) -> None:
        self.missing = [] if missing is None else missing
        self.catalog = catalog or {}

    def place(self, job: BackfillJob) -> BackfillJob:
        """Return a job with the locations of the tables that it names."""
        return job.placed(
            upstream=self.catalog.get(job.upstream.catalog_table, ""), view=self.catalog.get(job.view_name, "")
        )

    def check(
        self,
        job: BackfillJob,
        upstream: ResolvedUpstream,
        offset: Offset,
        strategy: str,
        incarnations: frozenset[str],
    ) -> None:
        """Refuse nothing."""

    def view_columns(self, job: BackfillJob, upstream: ResolvedUpstream) -> tuple[ViewColumn, ...]:
        """Return the columns of every view's table."""
        return (ViewColumn(name="rows_are_only_counted", type="long"),)

    def ensure_tables(self, settings: JobSettings, earlier_incarnations: Mapping[str, int]) -> None:
        """Make the view's empty table and the arrangement exist."""
        wanted = ViewIdentity(settings.job["name"], settings.incarnation)
        view = settings.definition.view_location
        if view_identity(view) != wanted:
            DeltaTable.create(
                view,
                schema=pa.schema([("rows_are_only_counted", pa.int64())]),
                mode="overwrite",
                configuration={JOB_PROPERTY: wanted.job, INCARNATION_PROPERTY: wanted.incarnation},
                raise_if_key_not_exists=False,
            )
        if settings.first_rows is None:
            source_of(settings).ensure_arrangement()

    def run_epoch(self, settings: JobSettings, barrier: Barrier, *, since: TableVersions | None) -> EpochWrites:
        """Count everything."""
        changes = self.apply_changes(settings, barrier, since=since)
        rows: Counter[int] = Counter()
        for part in range(len(barrier.parts)):
            rows.update(self.read_chunk_part(settings, barrier, part, since=since).rows)
        return EpochWrites(dict(rows), sum(changes.rows.values()), rows_added=changes.rows_added)

    def apply_changes(self, settings: JobSettings, barrier: Barrier, *, since: TableVersions | None) -> PartWrites:
        """Count the changes."""
        source = source_of(settings)
        source.hold_back(barrier)
        changes = source.let_through(barrier).values()
        return PartWrites({0: len(changes)}, rows_added=sum(change.added for change in changes))

    def read_chunk_part(
        self, settings: JobSettings, barrier: Barrier, part: int, *, since: TableVersions | None
    ) -> PartWrites:
        """Count one part of the chunk."""
        source = source_of(settings)
        return PartWrites(source.counted(source.chunk(barrier, part)))

    def table_versions(self, settings: JobSettings, barrier: Barrier, *, since: TableVersions | None) -> TableVersions:
        """Return the version of the view's table, which holds no rows."""
        return TableVersions(view=TableVersion(version=DeltaTable(settings.definition.view_location).version()))

    def account(self, settings: JobSettings, barrier: Barrier, rows_present: int | None) -> int | None:
        """Believe what was counted."""
        return rows_present

    def fence_chunk(self, settings: JobSettings, barrier: Barrier) -> frozenset[int]:
        """Find nothing written."""
        return frozenset()

    def fence_changes(self, settings: JobSettings, barrier: Barrier) -> bool:
        """Find nothing written but what the arrangement has."""
        source = source_of(settings)
        return not source.by_vnode or source.arrangement.fence(barrier.epoch)

    def mark_finished(self, settings: JobSettings, barrier: Barrier) -> None:
        """Do nothing."""

    def unmark_finished(self, settings: JobSettings, barrier: Barrier) -> None:
        """Do nothing."""

    def compare(
        self, settings: JobSettings, pinned: PinnedVerification, barrier: Barrier, vnodes: VnodeRange
    ) -> ComparedVnodes:
        """Report the keys as missing that the test names, and no other difference."""
        keys = self.missing.pop(0) if self.missing else ()
        return compared_of(*vnodes, *((vnodes[0], key) for key in keys))

    def compare_adopted(self, settings: JobSettings, pinned: PinnedVerification) -> Sequence[ComparedVnodes]:
        """Report the keys as missing that the test names."""
        return [
            compared_of(*vnodes, *((vnodes[0], key) for key in (self.missing.pop(0) if self.missing else ())))
            for vnodes in pinned.steps
        ]

    def view_comparer(self) -> KnownComparer:
        """Return what reports a known difference."""
        return KnownComparer()

    def compact_view(self, settings: JobSettings, plan: CompactionPlan) -> None:
        """Compact with deltalake."""
        DeltaTable(settings.job["materialized_view"]).optimize.compact(target_size=plan.target_file_size)

    def compact_own_table(self, settings: JobSettings, name: str, plan: CompactionPlan) -> None:
        """Do nothing; deltalake would write the base together with the changes."""

    def reading_ahead(self, settings: JobSettings) -> AbstractContextManager[None]:
        """Read nothing ahead."""
        return nullcontext()

    def exclusive(self, state: str) -> AbstractContextManager[None]:
        """Take no turns."""
        return nullcontext()


def make(
    backfill: Backfill,
    action: Callable[..., JobSettings] = creation.create_job,
    *,
    requested_by: str = "tester",
) -> JobSettings:
    """Create or rebuild a job that a counting engine runs."""
    return action(
        backfill.job,
        store=backfill.store,
        upstream=backfill.upstream,
        engine=CountingEngine,
        requested_by=requested_by,
    )
