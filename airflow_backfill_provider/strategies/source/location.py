"""The names and the locations of the strategy's tables."""

from __future__ import annotations

from airflow_backfill_provider.core.epoch.settings import JobSettings

DEAD_LETTERS = "dead_letters"
"""The name of the table of records that cannot be read."""


def dead_letters_of(settings: JobSettings) -> str:
    """Return the location of the table of records that cannot be read."""
    return settings.own_table(DEAD_LETTERS)
