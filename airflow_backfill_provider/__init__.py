"""Orchestrated backfills: materialized views over changing Delta tables, conducted by Airflow."""

__version__ = "0.1.0"
