"""
The two sides of an epoch: the snapshot chunk, and the net changes.

Ports the executors' snapshot stream and their buffered upstream chunks with ``mark_chunk``. A Delta change data feed
gives the changes of whole commits instead of a stream, so they are netted per key before they are applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.core.errors import DuplicateKeyError
from airflow_backfill_provider.core.keys import KeyOrder, Position
from airflow_backfill_provider.core.progress import SnapshotRange
from airflow_backfill_provider.core.query import quote
from airflow_backfill_provider.engine.predicates import at_or_before, behind

IS_UPSERT = "__is_upsert"
APPEARED = "__appeared"

_UPSERTS = ("insert", "update_postimage")


@dataclass(frozen=True, slots=True)
class Upstream:
    """
    The upstream as the engine reads it: the columns that the job uses, and nothing else.

    :param path: canonical location.
    :param columns: names of the used columns.
    :param order: the key's order.
    """

    path: str
    columns: Sequence[str]
    order: KeyOrder

    def at(self, spark: SparkSession, version: int) -> DataFrame:
        """Return the table as of a version."""
        table = spark.read.format("delta").option("versionAsOf", version).load(self.path)
        return table.select(*map(column, self.columns))

    def chunk(self, spark: SparkSession, version: int, bounds: SnapshotRange) -> DataFrame:
        """Return the rows with keys in ``(after, up_to]`` as of a version."""
        rows = self.at(spark, version)
        if bounds.after is not None:
            rows = rows.filter(behind(self.order, bounds.after))
        if bounds.up_to is not None:
            rows = rows.filter(at_or_before(self.order, bounds.up_to))
        return rows

    def net_changes(
        self, spark: SparkSession, versions: Sequence[tuple[int, int]], up_to: Position | None
    ) -> DataFrame:
        """
        Return the net change of every key that changed in some versions.

        The latest version wins, and inside one version an insert or a postimage beats a delete or a preimage: an
        update that changes the key is a delete of the old key and an insert of the new one, unless the same version
        also writes the old key (a swap).

        :param versions: runs of consecutive versions, first and last, each with one schema.
        :param up_to: only keys at or before this position; ``None`` for all.
        :returns: the used columns, ``__is_upsert`` (else the key is deleted; only the key columns count then), and
            ``__appeared``: the key was written without having been removed, so it did not exist before.
        """
        feed = reduce(DataFrame.unionAll, (self._feed(spark, first, last) for first, last in versions))
        if up_to is not None:
            feed = feed.filter(at_or_before(self.order, up_to))
        keys = [column(name) for name in self.order.names]
        upsert = F.col("_change_type").isin(*_UPSERTS)
        by_version = (
            # Once by key alone, so that neither grouping below needs another shuffle.
            feed.repartition(*keys)
            .groupBy(*keys, F.col("_commit_version"))
            .agg(
                F.max_by(F.struct(*map(column, self.columns)), upsert).alias("__row"),
                F.count_if(upsert).alias("__upserts"),
                F.count_if(~upsert).alias("__removals"),
            )
        )
        version = F.col("_commit_version")
        net = by_version.groupBy(*keys).agg(
            F.max_by(F.struct("__row", "__upserts"), version).alias("__last"),
            F.min_by(F.struct("__removals", "__upserts"), version).alias("__first"),
            F.max("__upserts").alias("__most_upserts"),
        )
        return net.select(
            F.col("__last.__row.*"),
            (F.col("__last.__upserts") > 0).alias(IS_UPSERT),
            ((F.col("__first.__removals") == 0) & (F.col("__first.__upserts") > 0)).alias(APPEARED),
            F.col("__most_upserts"),
        )

    def _feed(self, spark: SparkSession, first_version: int, last_version: int) -> DataFrame:
        return (
            spark.read.format("delta")
            .option("readChangeFeed", "true")
            .option("startingVersion", first_version)
            .option("endingVersion", last_version)
            .load(self.path)
            .select(*map(column, self.columns), "_change_type", "_commit_version")
        )

    def measure_chunk(self, chunk: DataFrame) -> int:
        """
        Count the chunk's rows, and refuse a key that several of them have.

        Reads the key columns only. It is the same number for every attempt of an epoch, also for one that finds the
        chunk written already, which the write's own metrics could not say.

        :raises DuplicateKeyError: if the key does not identify the rows.
        """
        keys = [column(name) for name in self.order.names]
        counted = chunk.groupBy(*keys).agg(F.count("*").alias("__rows"))
        total = counted.agg(F.sum("__rows").alias("rows"), F.max("__rows").alias("most")).first()
        if total is None or total["rows"] is None:
            return 0
        if total["most"] > 1:
            raise self._duplicates()
        return int(total["rows"])

    def measure_changes(self, net: DataFrame) -> int:
        """
        Count net changes, and refuse a key that one version wrote twice.

        :raises DuplicateKeyError: if the key does not identify the rows.
        """
        total = net.agg(F.count("*").alias("rows"), F.max("__most_upserts").alias("most")).first()
        if total is None or not total["rows"]:
            return 0
        if total["most"] > 1:
            raise self._duplicates()
        return int(total["rows"])

    def _duplicates(self) -> DuplicateKeyError:
        return DuplicateKeyError(
            f"{self.path} has several rows with the same key ({', '.join(self.order.names)}); give upstream.key the "
            "columns that identify a row, or remove the duplicates"
        )


def column(name: str) -> Column:
    """Return a top-level column by its exact name, dots and all."""
    return F.col(quote(name))
