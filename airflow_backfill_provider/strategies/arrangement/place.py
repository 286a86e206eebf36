"""What the arrangement is called, and where it lies."""

from __future__ import annotations

from airflow_backfill_provider.core.settings import JobSettings

TABLE = "arrangement"
"""What its table is called, in its location, in messages and in what an epoch leaves."""


def location_of(settings: JobSettings) -> str:
    """Return where the arrangement of a job's incarnation lies."""
    return settings.own_table(TABLE)
