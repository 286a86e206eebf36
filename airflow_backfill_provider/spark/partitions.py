"""
What a write to a partitioned view takes into account: which partitions a merge touches, and what a partition can hold.

A merge opens every file that may have one of its keys. A condition on the partition columns leaves out the files of
other partitions. It is right only if no row that the merge has to find lies in another partition, so it is made of the
partitions of the rows that are there, never of the new rows alone: a row may move.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.job.sql import quote, text_literal
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.spark.spark_errors import EMPTY_PARTITION

MOST_PARTITIONS = 1_000
"""The most values of a column in a merge's condition; of more, a merge looks into all partitions."""


def partition_columns(rows: DataFrame, partition_by: Sequence[str]) -> list[str]:
    """Return those columns of some rows by which the view is partitioned."""
    wanted = {name.lower() for name in partition_by}
    return [name for name in rows.columns if name.lower() in wanted]


def touched_partitions(rows: DataFrame, columns: Sequence[str], prefix: str = "") -> list[str]:
    """
    Return what each row of the view meets that lies in a partition of some rows, as SQL; for each column by itself.

    :param rows: rows that lie where the view's rows lie that have to be found.
    :param columns: the partition columns.
    :param prefix: what comes before the names of the view's columns.
    """
    if not columns:
        return []
    texts = [column(name).cast("string").alias(f"value_{number}") for number, name in enumerate(columns)]
    found = rows.select(*texts).distinct().limit(MOST_PARTITIONS + 1).collect()
    if not 0 < len(found) <= MOST_PARTITIONS:
        return []
    types = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
    return [
        _one_of(f"{prefix}{quote(name)}", types[name], {row[number] for row in found})
        for number, name in enumerate(columns)
    ]


def storable(rows: DataFrame, partition_by: Sequence[str]) -> DataFrame:
    """
    Return rows for a partitioned view, which fail if an empty text is in a partition column.

    Delta would store null in place of it: the view would not be what its query gives, and its key might be lost.
    """
    texts = [
        name for name in partition_columns(rows, partition_by) if rows.schema[name].dataType.typeName() == "string"
    ]
    if not texts:
        return rows
    refusal = F.raise_error(F.lit(EMPTY_PARTITION)).cast("string")
    checked = {name: F.when(column(name) == "", refusal).otherwise(column(name)).alias(name) for name in texts}
    return rows.select(*(checked.get(name, column(name)) for name in rows.columns))


def gathered(rows: DataFrame, partition_by: Sequence[str]) -> DataFrame:
    """Return rows with those of a partition together, so that not every task writes a file into every partition."""
    columns = partition_columns(rows, partition_by)
    return rows.hint("rebalance", *map(column, columns)) if columns else rows


def _one_of(name: str, kind: str, values: set[str | None]) -> str:
    texts = sorted(value for value in values if value is not None)
    listed = ", ".join(f"CAST({text_literal(text)} AS {kind})" for text in texts)
    conditions = [f"{name} IN ({listed})"] if texts else []
    if None in values:
        conditions.append(f"{name} IS NULL")
    return f"({' OR '.join(conditions)})"
