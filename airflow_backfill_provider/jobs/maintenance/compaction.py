"""
Compacts the files of a job's tables: decides without a JVM whether that is due, and lets Spark do it.

A compaction changes no row of the view or of its change feed, and epochs may run before, after and during it. It writes
nothing to the control tables, which are compacted elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from airflow_backfill_provider.core.epoch.engine import Exclusive
from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.status.compaction import CompactionPlan, CompactionPolicy, plan_compaction
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.lake.tables.table_files import table_files
from airflow_backfill_provider.lake.tables.view_identity import require_view
from airflow_backfill_provider.strategies import KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCompaction:
    """
    The plan of a compaction of a job's tables.

    :param view: the plan of the materialized view.
    :param own_tables: the plans of the strategy's tables that epochs still read, by name.
    """

    view: CompactionPlan
    own_tables: Mapping[str, CompactionPlan]

    @property
    def due(self) -> bool:
        """Whether a compaction of any table is due."""
        return any(plan.step is not None for plan in (self.view, *self.own_tables.values()))


class Compactor(Exclusive, Protocol):
    """The interface that a compaction needs from Spark; see :mod:`airflow_backfill_provider.engine`."""

    def compact_view(self, settings: JobSettings, plan: CompactionPlan) -> None:
        """Compact the view as planned, in one commit that changes no row."""
        ...

    def compact_own_table(self, settings: JobSettings, name: str, plan: CompactionPlan) -> None:
        """Compact one of the strategy's tables as planned, in one commit that changes no row."""
        ...


def look(backfill: Backfill, policy: CompactionPolicy) -> JobCompaction:
    """
    Plan a compaction from the tables' logs.

    :raises MaterializedViewError: if the job's view is missing or replaced.
    """
    settings = backfill.settings()
    require_view(settings, backfill.storage_options)
    stored = table_files(settings.definition.view_location, backfill.storage_options)
    return JobCompaction(
        view=plan_compaction(stored.files, policy, target=policy.target_file_size or stored.target_file_size),
        own_tables=_look_at_own_tables(backfill, settings, policy),
    )


def compact_job(backfill: Backfill, *, engine: Callable[[], Compactor], policy: CompactionPolicy) -> JobCompaction:
    """
    Compact the tables for which this is due. If it is due for none, no engine is created.

    :returns: the plan that was carried out.
    :raises CompactionFailedError: if every attempt lost to another write, or Spark failed.
    :raises BackfillError: as :func:`look`.
    """
    planned = look(backfill, policy)
    if not planned.due:
        return planned
    compactor = engine()
    with compactor.exclusive(backfill.job.state):
        # Another writer may have compacted or rebuilt the job while this one waited for its turn.
        settings, planned = backfill.settings(), look(backfill, policy)
        if planned.view.step is not None:
            compactor.compact_view(settings, planned.view)
        for name, plan in planned.own_tables.items():
            if plan.step is not None:
                compactor.compact_own_table(settings, name, plan)
    return planned


def _look_at_own_tables(
    backfill: Backfill, settings: JobSettings, policy: CompactionPolicy
) -> dict[str, CompactionPlan]:
    if backfill.store.state().completed:
        return {}
    return KINDS.named(settings.strategy).compactions(settings, policy, backfill.storage_options)
