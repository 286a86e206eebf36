"""Orchestrated backfills: materialized views over changing tables, conducted by Airflow."""

# Whoever imports any part of the package knows all kinds of its seams.
from airflow_backfill_provider import shapes, sources, strategies

__version__ = "0.1.0"

__all__ = ["shapes", "sources", "strategies"]
