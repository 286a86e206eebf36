"""
Values and rows of an upstream that cannot be read, as errors that Spark raises while it reads them.

Each error has a name, by which it is found in Spark's message, and then what it is about. It never quotes a value.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

UNCHANGED_VALUE = "AIRFLOW_BACKFILL_UNCHANGED_VALUE"
"""The error for a value that the database did not log, because it did not change. The column's name follows."""

UNSUPPORTED_VALUE = "AIRFLOW_BACKFILL_UNSUPPORTED_VALUE"
"""The error for a value that the column's type cannot hold. The column's name follows."""

UNUSABLE_ROW = "AIRFLOW_BACKFILL_UNUSABLE_ROW"
"""The error for a row of the upstream that means nothing. What is wrong with it follows."""


UNUSABLE_KEY = "AIRFLOW_BACKFILL_UNUSABLE_KEY"
"""The error for a key that is not ordered alike everywhere. The column's name follows."""

UNREADABLE_RECORD = "AIRFLOW_BACKFILL_UNREADABLE_RECORD"
"""The error for a record that its format cannot read. Where it is and what is wrong follow."""

UNREADABLE_LINE = "AIRFLOW_BACKFILL_UNREADABLE_LINE"
"""The error for a line of a file that does not fit the columns. Where it is and what is wrong follow."""


def unchanged_value(name: str) -> Column:
    """Return a column that fails with :data:`UNCHANGED_VALUE`."""
    return F.raise_error(F.lit(f"{UNCHANGED_VALUE} {_on_one_line(name)}"))


def unsupported_value(name: str) -> Column:
    """Return a column that fails with :data:`UNSUPPORTED_VALUE`."""
    return F.raise_error(F.lit(f"{UNSUPPORTED_VALUE} {_on_one_line(name)}"))


def unusable_key(name: str) -> Column:
    """Return a column that fails with :data:`UNUSABLE_KEY`."""
    return F.raise_error(F.lit(f"{UNUSABLE_KEY} {_on_one_line(name)}"))


def unusable_row(problem: str | Column) -> Column:
    """Return a column that fails with :data:`UNUSABLE_ROW`."""
    return F.raise_error(F.concat(F.lit(f"{UNUSABLE_ROW} "), F.lit(problem)))


def unreadable_record(where: Column, problem: Column) -> Column:
    """Return a column that fails with :data:`UNREADABLE_RECORD`."""
    return F.raise_error(F.concat(F.lit(f"{UNREADABLE_RECORD} "), where, F.lit(" "), problem))


def _on_one_line(name: str) -> str:
    """Return a column's name as it is found again in Spark's message, line by line."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in name)
