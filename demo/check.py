"""
The independent check: ``python -m demo.check TABLE VERSION VIEW QUERY_FILE``.

The check shares only the jars with the engine. It runs the job's query over the upstream as of one version, as a user
would write it, and compares the result with the view, row by row in both directions and by count. It prints the result
as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from airflow_backfill_provider.runtime.spark_settings import spark_conf

_SIDE = "__side"


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


def check(spark: SparkSession, table: str, version: int, view: str, query: str) -> Finding:
    """
    Compare a view with its query.

    The comparison groups equal rows of both sides and counts them. That finds what ``EXCEPT ALL`` in both directions
    finds, in one pass. (A plain count does not help, because Delta answers it from its log, without the files.)
    """
    upstream = spark.read.format("delta").option("versionAsOf", version).load(table)
    upstream.createOrReplaceTempView("upstream")
    expected = spark.sql(query)
    found = spark.read.format("delta").load(view)
    if expected.dtypes != found.dtypes:
        raise SystemExit(f"the view has the columns {found.dtypes}, its query {expected.dtypes}")
    sides = expected.withColumn(_SIDE, F.lit(1)).unionAll(found.withColumn(_SIDE, F.lit(-1)))
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


def main() -> None:
    """Read the arguments, compare, print JSON, and set the exit code."""
    parser = argparse.ArgumentParser(description="Compare a view with its query over the upstream.")
    parser.add_argument("table")
    parser.add_argument("version", type=int)
    parser.add_argument("view")
    parser.add_argument("query", type=Path, help="file with the query over the relation upstream")
    arguments = parser.parse_args()
    builder = SparkSession.builder.appName("demo check").master("local[*]")
    for name, value in spark_conf("local[*]").items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    query = arguments.query.read_text(encoding="utf-8")
    finding = check(spark, arguments.table, arguments.version, arguments.view, query)
    print(json.dumps(asdict(finding)))
    spark.stop()
    sys.exit(0 if finding.equal else 1)


if __name__ == "__main__":
    main()
