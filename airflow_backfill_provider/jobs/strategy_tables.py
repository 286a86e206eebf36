"""The tables that a strategy makes for itself: deleted when the job needs them no more."""

from __future__ import annotations

from airflow_backfill_provider.core.epoch.settings import JobSettings
from airflow_backfill_provider.sources import open_source
from airflow_backfill_provider.state.store import BackfillStore
from airflow_backfill_provider.strategies import KINDS


def clean_up_after_cancelling(store: BackfillStore) -> None:
    """
    Delete the strategy's tables of a cancelled job, unless the job keeps them or an unfinished epoch needs them.

    If a process died before this, the next one that reads the cancelled job does it.
    """
    settings = store.settings()
    if not settings.cancelled or settings.start is None:
        return
    newest = store.newest_barrier(settings)
    if newest is None or store.commit_of(newest.epoch) is not None:
        delete_strategy_tables(settings, store)
        open_source(settings.definition.upstream, store.storage_options).end(settings.job["name"])


def delete_strategy_tables(settings: JobSettings, store: BackfillStore) -> None:
    """Delete the strategy's tables, unless the job keeps them."""
    strategy = KINDS.named(settings.strategy)
    if not strategy.keeps_tables(settings):
        strategy.clean_up(settings, store.storage_options)
