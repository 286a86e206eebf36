"""Compares a view with its query, between two epochs."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console

from airflow_backfill_provider.backfill import Backfill
from airflow_backfill_provider.cli import text
from airflow_backfill_provider.core.errors import StateError
from airflow_backfill_provider.engine.spark_engine import SparkEngine
