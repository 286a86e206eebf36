"""What a job that keeps former rows refuses, because its upstream may no longer tell them."""

from __future__ import annotations

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.core.errors import MaterializedViewError
from airflow_backfill_provider.state.store import BackfillStore


def require_nothing_lost(settings: JobSettings, store: BackfillStore, *, discard_history: bool) -> None:
    """
    Refuse to replace a view that keeps former rows, unless they may be lost.

    :param settings: the settings in force.
    :param discard_history: whether the user said so.
    :raises MaterializedViewError: with what would be lost.
    """
    keep = settings.definition.keep
    has_rows = settings.first_rows is not None or store.last_epoch() > settings.base_epoch
    if discard_history or not keep.keeps_former_rows or not has_rows:
        return
    raise MaterializedViewError(
        f"materialized_view: the view of job {settings.job['name']} keeps former rows (keep: {keep}), which a rebuild "
        "or its revert would lose for good; say --discard-history on the command line if that is meant, or create "
        "another job with another materialized_view"
    )
