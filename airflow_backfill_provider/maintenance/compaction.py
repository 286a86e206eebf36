"""
Keeping the files of a job's tables good: deciding without a JVM whether that is due, and having Spark do it.

A compaction changes no row, neither of the view nor of its change feed, and epochs may run before, after and beside
it. It leaves no trace in the control tables, which compact themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from airflow_backfill_provider.core.compaction import CompactionPlan, CompactionPolicy, half_of, plan_compaction
from airflow_backfill_provider.core.engine import Exclusive
from airflow_backfill_provider.core.errors import MaterializedViewError
from airflow_backfill_provider.core.settings import JobSettings
from airflow_backfill_provider.lake.arrangement import ArrangementFiles
from airflow_backfill_provider.lake.table_files import table_files
from airflow_backfill_provider.lake.view_identity import ViewIdentity, view_identity
from airflow_backfill_provider.protocol.backfill import Backfill


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCompaction:
    """
    What a compaction would do to a job's tables.

    :param view: to the materialized view.
    :param arrangement: to the changes in the arrangement; ``None`` if there is none that epochs still read.
    """

    view: CompactionPlan
    arrangement: CompactionPlan | None

    @property
    def due(self) -> bool:
        """Whether anything is worth doing."""
        return self.view.step is not None or (self.arrangement is not None and self.arrangement.step is not None)


class Compactor(Exclusive, Protocol):
    """What a compaction needs of Spark; see :mod:`airflow_backfill_provider.execution`."""

    def compact_view(self, settings: JobSettings, plan: CompactionPlan) -> None:
        """Do to the view what is planned, in one commit that changes no row."""
        ...

    def compact_arrangement(self, settings: JobSettings, plan: CompactionPlan) -> None:
        """Do to the arrangement what is planned, in one commit that changes no row."""
        ...


def look(backfill: Backfill, policy: CompactionPolicy) -> JobCompaction:
    """
    Tell what a compaction would do, by the tables' logs.

    :raises MaterializedViewError: if the job's view is not at its place.
    """
    settings = backfill.settings()
    identity = ViewIdentity.of(settings)
    path = settings.definition.materialized_view
    if view_identity(path, backfill.storage_options) != identity:
        raise MaterializedViewError(
            f"materialized_view: {path} does not hold the view of job {identity.job} (it was dropped or replaced, or "
            "never made); run the job, or rebuild it"
        )
    stored = table_files(path, backfill.storage_options)
    return JobCompaction(
        view=plan_compaction(stored.files, policy, target=policy.target_file_size or stored.target_file_size),
        arrangement=_look_at_arrangement(backfill, settings, policy),
    )


def compact_job(backfill: Backfill, *, engine: Callable[[], Compactor], policy: CompactionPolicy) -> JobCompaction:
    """
    Do what is due, if anything is; no engine is made otherwise.

    :returns: what was done.
    :raises CompactionFailedError: if others wrote to a table again and again meanwhile, or Spark failed.
    :raises BackfillError: as :func:`look`.
    """
    planned = look(backfill, policy)
    if not planned.due:
        return planned
    compactor, settings = engine(), backfill.settings()
    with compactor.exclusive(settings):
        # Somebody else may have compacted, or rebuilt the job, while this one waited for its turn.
        settings, planned = backfill.settings(), look(backfill, policy)
        if planned.view.step is not None:
            compactor.compact_view(settings, planned.view)
        if planned.arrangement is not None and planned.arrangement.step is not None:
            compactor.compact_arrangement(settings, planned.arrangement)
    return planned


def _look_at_arrangement(backfill: Backfill, settings: JobSettings, policy: CompactionPolicy) -> CompactionPlan | None:
    if settings.arranged_version is None or backfill.store.state().completed:
        return None
    arrangement = ArrangementFiles(settings.arrangement, backfill.storage_options)
    if not arrangement.exists():
        return None
    stored = table_files(arrangement.path, backfill.storage_options)
    target = policy.target_file_size or stored.target_file_size
    # A file of the base is never small, so that base and changes stay in files of their own, each laid out by key.
    smaller_than = min(arrangement.smallest_of_base(settings.base_epoch, settings.own_columns), half_of(target))
    return plan_compaction(stored.files, policy, target=target, smaller_than=smaller_than)
