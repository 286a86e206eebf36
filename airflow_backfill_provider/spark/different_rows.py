"""Finds the rows of a small upstream that changed in a window without its change feed: compares both ends."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.spark.job_rows import JobRows
from airflow_backfill_provider.spark.row_hash import row_hashes

_FIRST, _SECOND, _ADDED, _ROW = "first_hash", "second_hash", "added", "row"


def different_rows(rows: JobRows, after: Offset, up_to: Offset) -> DataFrame:
    """
    Return the rows that are there more often at one end of ``(after, up_to]`` than at the other.

    Of a changed row, these are both images. A row that is there twice from now on is among them, so that a key that has
    become ambiguous is found.

    :returns: the used columns.
    """
    first, second, added, row = map(rows.own.named, (_FIRST, _SECOND, _ADDED, _ROW))
    used = [column(name) for name in rows.columns]
    both = _counted(rows, after, -1).unionAll(_counted(rows, up_to, 1))
    hashes = row_hashes([both.schema[name] for name in rows.columns])
    compared = (
        both.withColumns({first: hashes[0], second: hashes[1]})
        .groupBy(first, second)
        .agg(F.sum(rows.own.named(_ADDED)).alias(added), F.first(F.struct(*used)).alias(row))
    )
    return compared.filter(F.col(added) != 0).select(*(F.col(row).getField(name).alias(name) for name in rows.columns))


def _counted(rows: JobRows, offset: Offset, times: int) -> DataFrame:
    """Return the used columns as of an offset, and how often each row counts."""
    return rows.at(offset).select(*map(column, rows.columns), F.lit(times).alias(rows.own.named(_ADDED)))
