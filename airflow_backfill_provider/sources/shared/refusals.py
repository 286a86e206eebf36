"""
Values and rows of an upstream that cannot be read, as errors that Spark raises while it reads them.

Each error has a name, by which it is found in Spark's message, and then what it is about. It never quotes a value.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.sources.spark_failures import (
    UNREADABLE_RECORD,
    UNSUPPORTED_VALUE,
    UNUSABLE_KEY,
    UNUSABLE_ROW,
    Refusal,
)


def refused_column(refusal: Refusal, name: str) -> Column:
    """Return a column that fails with a refusal about the column of a name."""
    return F.raise_error(F.lit(f"{refusal.name} {_on_one_line(name)}"))


def unsupported_value(name: str) -> Column:
    """Return a column that fails with :data:`UNSUPPORTED_VALUE`."""
    return refused_column(UNSUPPORTED_VALUE, name)


def unusable_key(name: str) -> Column:
    """Return a column that fails with :data:`UNUSABLE_KEY`."""
    return refused_column(UNUSABLE_KEY, name)


def unusable_row(problem: str | Column) -> Column:
    """Return a column that fails with :data:`UNUSABLE_ROW`."""
    return F.raise_error(F.concat(F.lit(f"{UNUSABLE_ROW.name} "), F.lit(problem)))


def unreadable_record(where: Column, problem: Column) -> Column:
    """Return a column that fails with :data:`UNREADABLE_RECORD`."""
    return F.raise_error(F.concat(F.lit(f"{UNREADABLE_RECORD.name} "), where, F.lit(" "), problem))


def _on_one_line(name: str) -> str:
    """Return a column's name as it is found again in Spark's message, line by line."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in name)
