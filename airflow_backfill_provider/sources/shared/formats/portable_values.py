"""
Values that other readers of a Delta table cannot read: texts that are no UTF-8, and times outside the years 1 to 9999.

Avro and Parquet files hold both without a look, and Spark writes them into a table as they are.

The functions take and return expressions of Spark SQL as text; see :mod:`.spark`.
"""

from __future__ import annotations

from airflow_backfill_provider.core.job.sql import text_literal
from airflow_backfill_provider.sources.shared.formats.column_types import ColumnType
from airflow_backfill_provider.sources.shared.formats.parts import Path, has_part
from airflow_backfill_provider.sources.shared.formats.years import is_outside

INVALID_TEXT = "has a text that is no UTF-8"
NO_DATE = "has a time outside the years 1 to 9999, perhaps in another unit than its type says"


def problem_elsewhere(value: str, kind: ColumnType) -> str:
    """Return what other programs cannot read of a value, or null; see :data:`INVALID_TEXT` and :data:`NO_DATE`."""
    checks = ((has_part(value, kind, _is_invalid), INVALID_TEXT), (has_part(value, kind, _is_no_date), NO_DATE))
    found = [f"WHEN {condition} THEN {text_literal(text)}" for condition, text in checks if condition != "false"]
    return f"CASE {' '.join(found)} END" if found else "CAST(NULL AS STRING)"


def _is_invalid(value: str, kind: str, _path: Path) -> str:
    return f"NOT is_valid_utf8({value})" if kind == "string" else ""


def _is_no_date(value: str, kind: str, _path: Path) -> str:
    return is_outside(value, kind)
