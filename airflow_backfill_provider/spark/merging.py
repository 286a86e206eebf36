"""Merges rows into a stamped table, once per epoch."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.sql import DataFrame

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.job.sql import quote
from airflow_backfill_provider.lake.tables.view_identity import ViewIdentity
from airflow_backfill_provider.spark.partitions import storable
from airflow_backfill_provider.spark.spark_errors import DUPLICATE_KEY
from airflow_backfill_provider.spark.stamped_table import StampedTable

REMOVE = "WHEN MATCHED THEN DELETE"
"""The clause of a merge that removes the rows that match."""


def insert_of(columns: Sequence[str]) -> str:
    """Return the action of a merge that inserts a change's row."""
    names, values = (", ".join(f"{prefix}{quote(name)}" for name in columns) for prefix in ("", "change."))
    return f"INSERT ({names}) VALUES ({values})"


def merge_into(
    table: StampedTable,
    changes: DataFrame,
    conditions: Sequence[str],
    clauses: str,
    part: str,
    identity: ViewIdentity,
    barrier: Barrier,
) -> None:
    """
    Merge rows into a table with a given statement, once per epoch and part.

    :param changes: the rows; the statement's alias for them is ``change``, and for the table's rows ``view``.
    :param conditions: the conditions on which the rows match.
    :param clauses: the statement's ``WHEN`` clauses.
    :param part: the part of the epoch; see :mod:`~airflow_backfill_provider.spark.stamps`.
    """
    on = " AND ".join(conditions)
    name = re.sub(r"\W", "_", part)
    relation = f"backfill_{name}_{identity.incarnation}_{barrier.epoch}"
    storable(changes, table.partition_by).createOrReplaceTempView(relation)
    try:
        table.run(
            f"MERGE INTO {table.sql_name} AS view USING {relation} AS change ON {on} {clauses}",
            part,
            identity,
            barrier,
        )
    finally:
        table.spark.catalog.dropTempView(relation)


def same_keys(keys: Sequence[str], has_nulls: Sequence[bool]) -> list[str]:
    """
    Return the conditions for a row of the table to have the key of a change.

    :param has_nulls: for each key column, whether it is null in some change. If it is not, plain equality finds the
        same rows faster: for null-safe equality, Spark joins on two expressions per column.
    """
    return [
        f"view.{quote(key)} {'<=>' if nulls else '='} change.{quote(key)}"
        for key, nulls in zip(keys, has_nulls, strict=True)
    ]


def refuse_match(keys: Sequence[str], appeared: str) -> str:
    """
    Return the clause that fails with the error for a repeated key, if the table has a key that appeared.

    :param appeared: the name of the changes' flag.
    """
    return f"WHEN MATCHED AND change.{appeared} THEN UPDATE SET view.{quote(keys[0])} = raise_error('{DUPLICATE_KEY}') "
