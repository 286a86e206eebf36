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
from airflow_backfill_provider.shapes.group.grouped_rows import GroupInput, Images
from airflow_backfill_provider.sources.shared.by_key import with_keys
from airflow_backfill_provider.sources.shared.kept_rows import KEPT
from airflow_backfill_provider.spark.row_hash import row_hashes

_FLOATING = re.compile(r"\b(float|double)\b")


class Slices:
    """
    Runs one job's query by units.

    :param rows: gives the rows that the query groups.
    """

    def __init__(self, rows: GroupInput) -> None:
        self._rows = rows
        self.outputs = rows.units.outputs
        """The view's columns that identify a unit, as the query's text names them."""

    def outputs_in(self, schema: StructType) -> tuple[str, ...]:
        """Return the view's columns that identify a unit, as Spark names them."""
        names = {name.lower(): name for name in schema.names}
        return tuple(names[output.lower()] for output in self.outputs)

    def touched(self, images: Images) -> DataFrame:
        """Return the units of the old and of the new images of the changes, each once."""
        return images.new.units().unionAll(images.old.units()).distinct()

    def of_units(self, touched: DataFrame, barrier: Barrier) -> DataFrame:
        """Return the view's rows of some units, over all rows that were read before the epoch."""
        return self._rows.read_set(barrier).groups_of(touched)

    def require_same(self, rows: DataFrame) -> None:
        """
        Compare the query by units with the whole query, over some rows and half of their units.

        :param rows: the newest rows of the upstream, or of the one that leads.
        :raises InvalidJobError: if they give different rows.
        """
        if self._rows.query.is_global:
            return
        with self._rows.sample(rows) as sample:
            half = F.pmod(F.hash(*self._rows.names), F.lit(2)) == 0
            # Spark cannot join rows of USING with rows made of the same tables; an epoch reads them anew.
            touched = sample.units().distinct().filter(half).localCheckpoint(storageLevel=KEPT)
            whole, sliced = sample.groups(), sample.groups_of(touched)
            outputs = self.outputs_in(whole.schema)
            expected = with_keys(whole, touched, outputs)
            if whole.schema.names != sliced.schema.names or _differ(_hashed(expected), _hashed(sliced)):
                raise InvalidJobError(
                    "query: over some groups it gives other rows than over all rows; write each expression that it "
                    "groups by in GROUP BY or PARTITION BY, and no column that depends on other groups"
                )


def _hashed(rows: DataFrame) -> DataFrame:
    """Return hashes of rows without floating-point numbers, whose last digits may differ from run to run."""
    exact = [field for field in rows.schema.fields if not _FLOATING.search(field.dataType.simpleString())]
    return rows.select(*row_hashes(exact))


def _differ(one: DataFrame, other: DataFrame) -> bool:
    counted = one.toDF("a", "b").withColumn("n", F.lit(1)).unionAll(other.toDF("a", "b").withColumn("n", F.lit(-1)))
    return not counted.groupBy("a", "b").agg(F.sum("n").alias("n")).filter("n <> 0").isEmpty()
