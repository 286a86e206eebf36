"""Columns by their exact names, and rows by their keys, on Spark."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.core.scan.columns import own_columns


def column(name: str) -> Column:
    """Return a top-level column by its exact name, dots and all."""
    return F.col(quote(name))


def without_keys(rows: DataFrame, keys: DataFrame, names: Sequence[str]) -> DataFrame:
    """
    Return the rows whose keys are not among others; null is a value like any other.

    :param rows: rows with the key columns.
    :param keys: the key columns, in the key's order; the same key may come several times.
    :param names: the names of the key columns in ``rows``.
    """
    return _joined(rows, keys, names, "left_anti")


def with_keys(rows: DataFrame, keys: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return the rows whose keys are among others; see :func:`without_keys`."""
    return _joined(rows, keys, names, "left_semi")


def _joined(rows: DataFrame, keys: DataFrame, names: Sequence[str], how: str) -> DataFrame:
    others = keys.toDF(*own_columns(rows.columns).numbered("other", len(names)))
    same = [column(name).eqNullSafe(F.col(other)) for name, other in zip(names, others.columns, strict=True)]
    return rows.join(others, same, how)
