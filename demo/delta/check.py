"""Compare a view with its query as of a version of a Delta table: ``python -m demo.delta.check``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from demo.check import run_check


def main() -> None:
    """Read the arguments and compare."""
    parser = argparse.ArgumentParser(description="Compare a view with its query over a Delta table.")
    parser.add_argument("table")
    parser.add_argument("version", type=int)
    parser.add_argument("view")
    parser.add_argument("query", type=Path, help="file with the query over the relation upstream")
    arguments = parser.parse_args()

    def read(spark: SparkSession) -> Mapping[str, DataFrame]:
        return {"upstream": spark.read.format("delta").option("versionAsOf", arguments.version).load(arguments.table)}

    run_check(read, arguments.view, arguments.query)


if __name__ == "__main__":
    main()
