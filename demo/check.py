"""
The independent check: ``python -m demo.check TABLE VERSION VIEW QUERY_FILE``.

Shares nothing with the engine but the jars: runs the job's query over the upstream as of one version, as anybody would
write it, and compares the result with the view, row by row in both directions and by count.
Prints what it found as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from airflow_backfill_provider.spark_settings import spark_conf


@dataclass(frozen=True)
class Finding:
    """
    What the comparison found.

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
        """Whether view and query are the same bag of rows."""
        return self.expected == self.found and not self.missing and not self.unexpected


def check(spark: SparkSession, table: str, version: int, view: str, query: str) -> Finding:
    """Compare a view with its query."""
    upstream = spark.read.format("delta").option("versionAsOf", version).load(table)
    upstream.createOrReplaceTempView("upstream")
    expected = spark.sql(query)
    found = spark.read.format("delta").load(view)
    if expected.dtypes != found.dtypes:
        raise SystemExit(f"the view has the columns {found.dtypes}, its query {expected.dtypes}")
    return Finding(
        expected=_count(expected),
        found=_count(found),
        missing=expected.exceptAll(found).count(),
        unexpected=found.exceptAll(expected).count(),
    )


def _count(rows: DataFrame) -> int:
    """Count rows by reading them; Delta answers a plain count from its log, whatever the files hold."""
    return sum(row["count"] for row in rows.groupBy(rows.columns[0]).count().collect())


def main() -> None:
    """Read the arguments, compare, and tell by JSON and exit code."""
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
