"""The name and the location of the arrangement."""

from __future__ import annotations

from airflow_backfill_provider.core.epoch.settings import JobSettings

TABLE = "arrangement"
"""The table's name in its path, in messages and in an epoch's record."""


def location_of(settings: JobSettings) -> str:
    """Return the location of the arrangement of a job's incarnation."""
    return settings.own_table(TABLE)
