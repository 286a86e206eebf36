"""What is read of files: for each column an expression of its value, and one of why it cannot be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame

from airflow_backfill_provider.core.job.sql import text_literal


@dataclass(frozen=True, slots=True)
class ReadValue:
    """
    A column, as expressions of Spark SQL.

    :param error: null if the value can be read.
    """

    value: str
    error: str


@dataclass(frozen=True, slots=True)
class ReadRows:
    """
    Rows of files.

    :param rows: the rows, with all that the others need.
    :param path: the name of the column with the location of a row's file.
    :param index: the name of the column with the number of a row in its file, from 0.
    :param line: an expression of a row as a text.
    :param values: the columns of the files by their names.
    """

    rows: DataFrame
    path: str
    index: str
    line: str
    values: Mapping[str, ReadValue]


def misfit(wrong: str, error: str) -> str:
    """
    Return an error if a condition holds, and null otherwise.

    :param error: the error's text.
    """
    return f"CASE WHEN {wrong} THEN {text_literal(error)} END"
