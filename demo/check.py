"""
The independent check: it compares a view with its query, and shares only the jars with the engine.

It runs the job's query over the upstream, as a user would write it, and compares the result with the view, row by row
in both directions and by count. It runs in a process of its own, which prints the result as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.applications.spark_settings import spark_conf, storage_options_from_environment
from airflow_backfill_provider.lake.store.object_store import hadoop_settings

_SIDE = "__side"
_HIDDEN = "__"
"""How the names of columns begin that a view keeps for its own epochs, and that its readers leave out."""


@dataclass(frozen=True)
class Finding:
    """
    The result of the comparison.

    :param expected: rows of the query's result.
    :param found: rows of the view.
    :param missing: rows of the result that the view lacks.
    :param unexpected: rows of the view that the result lacks.
    """

    expected: int
    found: int
    missing: int
    unexpected: int

    @property
    def equal(self) -> bool:
        """Whether view and query have the same rows, each as often."""
        return self.expected == self.found and not self.missing and not self.unexpected


def check(upstreams: Mapping[str, DataFrame], view: DataFrame, query: str) -> Finding:
    """
    Compare a view with its query.

    The comparison groups equal rows of both sides and counts them. That finds what ``EXCEPT ALL`` in both directions
    finds, in one pass. (A plain count does not help, because Delta answers it from its log, without the files.)

    :param upstreams: the relations that the query reads, by their names.
    """
    for name, rows in upstreams.items():
        rows.createOrReplaceTempView(name)
    expected = view.sparkSession.sql(query)
    view = view.select(*(name for name in view.columns if not name.startswith(_HIDDEN)))
    if expected.dtypes != view.dtypes:
        raise SystemExit(f"the view has the columns {view.dtypes}, its query {expected.dtypes}")
    sides = expected.withColumn(_SIDE, F.lit(1)).unionAll(view.withColumn(_SIDE, F.lit(-1)))
    times = sides.groupBy(*expected.columns).agg(
        F.count_if(F.col(_SIDE) > 0).alias("in_query"), F.count_if(F.col(_SIDE) < 0).alias("in_view")
    )
    more_in_query, more_in_view = F.col("in_query") - F.col("in_view"), F.col("in_view") - F.col("in_query")
    counts = times.agg(
        *(
            F.coalesce(F.sum(F.greatest(count, F.lit(0))), F.lit(0))
            for count in (F.col("in_query"), F.col("in_view"), more_in_query, more_in_view)
        )
    ).collect()[0]
    return Finding(*counts)


def run_check(read: Callable[[SparkSession], Mapping[str, DataFrame]], view: str, query_file: Path) -> None:
    """
    Compare in a Spark of this process, and print the result as JSON.

    :param read: reads the relations of the query, each at the point of its history that the view is at.
    :param view: the view's location.
    :param query_file: the file with the query.
    """
    builder = SparkSession.builder.appName("demo check").master("local[*]")
    for name, value in spark_conf("local[*]").items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for name, value in hadoop_settings(storage_options_from_environment()).items():
        # Spark's configuration is part of the JVM's command line.
        spark.conf.set(name, value)
    finding = check(read(spark), spark.read.format("delta").load(view), query_file.read_text(encoding="utf-8"))
    print(json.dumps(asdict(finding)))
    spark.stop()
