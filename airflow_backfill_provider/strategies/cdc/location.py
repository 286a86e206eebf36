"""The names and the locations of the strategy's tables."""

from __future__ import annotations

from airflow_backfill_provider.core.epoch.settings import JobSettings

TABLE = "read_ahead"
"""The name of the table of rows that were read ahead."""

SAMPLE = "key_sample"
"""The name of the table with a sample of the upstream's keys."""


def table_of(settings: JobSettings) -> str:
    """Return the location of the table of rows that were read ahead."""
    return settings.own_table(TABLE)


def sample_of(settings: JobSettings) -> str:
    """Return the location of the sample of keys."""
    return settings.own_table(SAMPLE)
