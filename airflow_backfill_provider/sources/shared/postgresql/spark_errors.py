"""What errors of Spark mean that come from a PostgreSQL database, or from what its log left out."""

from __future__ import annotations

import re

from airflow_backfill_provider.core.errors import (
    BackfillError,
    DatabaseUnavailableError,
    UnsupportedValueError,
    UpstreamError,
)
from airflow_backfill_provider.sources.spark_failures import Refusal, SparkFailure

UNCHANGED_VALUE = Refusal(
    "AIRFLOW_BACKFILL_UNCHANGED_VALUE",
    UpstreamError,
    "an update did not change column {about}, and the database's log left its value out because it is long (TOAST); "
    "run: ALTER TABLE … REPLICA IDENTITY FULL, and rebuild the job",
)
"""A value that the database did not log, because it did not change. The column's name follows."""

_CONNECTION_LOST = re.compile(
    r"org\.postgresql\.util\.PSQLException: (?:An I/O error|FATAL|The connection|Connection |This connection)"
)
"""The error of a task whose connection to a database ended, or could not be made."""

_NO_TEXT = re.compile(
    r"org\.postgresql\.util\.PSQLException: ERROR: (?:character with byte sequence|invalid byte sequence for encoding)"
)
"""The error of a database that cannot convert a text to Unicode."""


def database_error(failure: SparkFailure, what: str) -> BackfillError | None:
    """
    Return the error of a database over whose connection rows are read.

    :returns: ``None`` if the error is another one; also if it is of a row, which may quote any text.
    """
    if failure.is_of_a_row:
        return None
    if _NO_TEXT.search(failure.text):
        return UnsupportedValueError(
            f"{what}: a text in the table has bytes without a counterpart in Unicode; correct the row and run the next "
            "epoch, or leave its column out of the query and rebuild the job"
        )
    if _CONNECTION_LOST.search(failure.text):
        return DatabaseUnavailableError(
            f"{what}: the database ended a connection over which rows were read; nothing is lost, try again"
        )
    return None
