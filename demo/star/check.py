"""Compare a view with its query over several tables, each as of its own version: ``python -m demo.star.check``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from demo.check import run_check


def main() -> None:
    """Read the arguments and compare."""
    parser = argparse.ArgumentParser(description="Compare a view with its query over several Delta tables.")
    parser.add_argument(
        "--table",
        nargs=3,
        action="append",
        required=True,
        metavar=("NAME", "LOCATION", "VERSION"),
        help="a relation of the query; repeat it for each",
    )
    parser.add_argument("view")
    parser.add_argument("query", type=Path, help="file with the query over these relations")
    arguments = parser.parse_args()

    def read(spark: SparkSession) -> Mapping[str, DataFrame]:
        return {
            name: spark.read.format("delta").option("versionAsOf", version).load(location)
            for name, location, version in arguments.table
        }

    run_check(read, arguments.view, arguments.query)


if __name__ == "__main__":
    main()
