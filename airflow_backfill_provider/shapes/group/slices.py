"""
The units that changes touch, and the query over the rows of some units, on Spark.

Both run the user's text; see :mod:`~airflow_backfill_provider.shapes.group.texts`.
"""

from __future__ import annotations

import re

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from airflow_backfill_provider.core.epoch.barrier import Barrier
from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.shapes.base import Changes, WriterContext
from airflow_backfill_provider.shapes.group.query import GroupQuery
from airflow_backfill_provider.shapes.group.row_units import GroupRowUnits
from airflow_backfill_provider.sources.shared.by_key import column, with_keys
from airflow_backfill_provider.sources.shared.kept_rows import KEPT
from airflow_backfill_provider.spark.named_relations import sql_over
from airflow_backfill_provider.spark.query import require_checked, run_query
from airflow_backfill_provider.spark.row_hash import row_hashes
from airflow_backfill_provider.spark.spark_errors import query_errors

_SAMPLE = 1_000
"""The rows of the newest version with which the split query is compared with the whole one at creation."""


_FLOATING = re.compile(r"\b(float|double)\b")


class Slices:
    """
    Runs one job's query by units.

    :param context: the objects that the writer works with.
    """

    def __init__(self, context: WriterContext, query: GroupQuery) -> None:
        self._context = context
        self._rows = context.job_rows
        self._query = query
        units = query.units_with(self._rows.names)
        self.outputs = units.outputs
        """The view's columns that identify a unit, as the query's text names them."""
        self.names = self._rows.own.numbered("touched", len(units.terms))
        """The names of the unit columns in relations of units."""

    def outputs_in(self, schema: StructType) -> tuple[str, ...]:
        """Return the view's columns that identify a unit, as Spark names them."""
        names = {name.lower(): name for name in schema.names}
        return tuple(names[output.lower()] for output in self.outputs)

    def touched(self, changes: Changes) -> DataFrame:
        """Return the units of the old and of the new images of the changes, each once."""
        new, old = self._context.new(changes), self._context.old(changes)
        return self.units_of(new).unionAll(self.units_of(old)).distinct()

    def units_of(self, rows: DataFrame) -> DataFrame:
        """Return the unit of each row that is grouped; a query with one unit has none here."""
        if self._query.is_global:
            return self._context.spark.createDataFrame([], StructType())
        # An old image has the columns of the query, and not the key.
        used = rows.select(*map(column, self._query.columns_of(self._rows.columns)))
        units = GroupRowUnits(self._query, self._query.text, tuple(self.names), self._rows.names)
        return run_query(self._context.spark, units, used)

    def of_units(self, touched: DataFrame, barrier: Barrier) -> DataFrame:
        """Return the view's rows of some units, over all rows that were read before the epoch."""
        return self.over(self._context.read_set(barrier, with_chunk=False), touched)

    def over(self, rows: DataFrame, touched: DataFrame) -> DataFrame:
        """Return the view's rows of some units over some rows."""
        if self._query.is_global:
            return self._context.run(rows)
        spark, used = self._context.spark, rows.select(*map(column, self._rows.columns))
        require_checked(spark, self._context.query, used)
        text = self._query.render_slice("backfill_rows__", "backfill_units__", self.names, self._rows.names)
        with query_errors():
            return sql_over(spark, text, {"`backfill_rows__`": used, "`backfill_units__`": touched})

    def require_same(self, rows: DataFrame) -> None:
        """
        Compare the query by units with the whole query, over some rows and half of their units.

        :param rows: the upstream's newest rows.
        :raises InvalidJobError: if they give different rows.
        """
        if self._query.is_global:
            return
        sample = rows.limit(_SAMPLE).persist(KEPT)
        try:
            half = F.pmod(F.hash(*self.names), F.lit(2)) == 0
            touched = self.units_of(sample).distinct().filter(half)
            whole, sliced = self._context.run(sample), self.over(sample, touched)
            outputs = self.outputs_in(whole.schema)
            expected = with_keys(whole, touched, outputs)
            if whole.schema.names != sliced.schema.names or _differ(_hashed(expected), _hashed(sliced)):
                raise InvalidJobError(
                    "query: over some groups it gives other rows than over all rows; write each expression that it "
                    "groups by in GROUP BY or PARTITION BY, and no column that depends on other groups"
                )
        finally:
            sample.unpersist()


def _hashed(rows: DataFrame) -> DataFrame:
    """Return hashes of rows without floating-point numbers, whose last digits may differ from run to run."""
    exact = [field for field in rows.schema.fields if not _FLOATING.search(field.dataType.simpleString())]
    return rows.select(*row_hashes(exact))


def _differ(one: DataFrame, other: DataFrame) -> bool:
    counted = one.toDF("a", "b").withColumn("n", F.lit(1)).unionAll(other.toDF("a", "b").withColumn("n", F.lit(-1)))
    return bool(counted.groupBy("a", "b").agg(F.sum("n").alias("n")).filter("n <> 0").head(1))
