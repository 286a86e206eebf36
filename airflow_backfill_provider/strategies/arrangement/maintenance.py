"""Plans the compaction of the arrangement's files of changes."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.status.compaction import CompactionPlan, CompactionPolicy, half_of, plan_compaction
from airflow_backfill_provider.lake.tables.table_files import table_files
from airflow_backfill_provider.strategies.arrangement.files import ArrangementFiles


def compaction_of(
    settings: JobSettings, location: str, policy: CompactionPolicy, storage_options: Mapping[str, str] | None
) -> CompactionPlan | None:
    """Return the planned compaction; ``None`` if there is no arrangement."""
    arrangement = ArrangementFiles(location, storage_options)
    if not arrangement.exists():
        return None
    stored = table_files(arrangement.path, storage_options)
    target = policy.target_file_size or stored.target_file_size
    # Files of the base never count as small, so that base and changes stay in separate files, each laid out by key.
    smaller_than = min(arrangement.smallest_of_base(settings.base_epoch, settings.own_columns), half_of(target))
    return plan_compaction(stored.files, policy, target=target, smaller_than=smaller_than)
