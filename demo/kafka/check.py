"""Compare a view with its query over a topic up to some offsets: ``python -m demo.kafka.check``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from demo.check import run_check
from demo.kafka.records import SCHEMA, TOPIC


def main() -> None:
    """Read the arguments and compare."""
    parser = argparse.ArgumentParser(description="Compare a view with its query over a topic.")
    parser.add_argument("servers", help="where the broker is: HOST:PORT")
    parser.add_argument("ends", help="the offset after the last record of each partition, from partition 0 on")
    parser.add_argument("view")
    parser.add_argument("query", type=Path, help="file with the query over the relation upstream")
    arguments = parser.parse_args()
    ends = dict(enumerate(map(int, arguments.ends.split())))

    def read(spark: SparkSession) -> Mapping[str, DataFrame]:
        options = {
            "kafka.bootstrap.servers": arguments.servers,
            "kafka.isolation.level": "read_committed",
            "subscribe": TOPIC,
            "startingOffsets": "earliest",
            "endingOffsets": json.dumps({TOPIC: ends}),
        }
        records = spark.read.format("kafka").options(**options).load()
        return {"upstream": records.withColumn("value", F.from_json(F.col("value").cast("string"), SCHEMA))}

    run_check(read, arguments.view, arguments.query)


if __name__ == "__main__":
    main()
