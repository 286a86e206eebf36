"""Rows of the upstream with the units of the view that each belongs to, for strategies that lay rows out by units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.scan.keys import KeyOrder
from airflow_backfill_provider.sources.shared.by_key import column
from airflow_backfill_provider.spark.query import NO_OTHERS, Query, run_query


class RowUnits(Query, Protocol):
    """
    How the unit of each row is found: a query of the user's own text.

    It reads a relation with the used columns and one more, and returns the unit and that column of each row that is
    grouped. Rows that the query leaves out before it groups belong to no unit. A join may give several rows of one.
    """

    @property
    def order(self) -> KeyOrder:
        """The columns of a unit, under names of the package's own, with the types that the settings pin."""
        ...

    @property
    def carried(self) -> str:
        """The name of the column that is passed on."""
        ...

    @property
    def repeats(self) -> bool:
        """Whether a row may belong to several units, or be there several times in one."""
        ...


def with_units(units: RowUnits, rows: DataFrame, others: Mapping[str, DataFrame] = NO_OTHERS) -> DataFrame:
    """
    Return rows with the columns of their units, without rows that belong to no unit.

    :param rows: rows with at least the used columns; of several upstreams, those of the one that leads.
    :param others: all rows of the other upstreams that the units depend on, by the names in ``units.others``.
    """
    carried = rows.withColumn(units.carried, F.struct(*map(column, rows.columns)))
    found = run_query(rows.sparkSession, units, carried, others)
    # A vnode depends on the type of what is hashed.
    values = [column(field.name).cast(field.type).alias(field.name) for field in units.order.fields]
    return found.select(F.col(f"{units.carried}.*"), *values)
