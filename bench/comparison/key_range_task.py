"""The Spark application of peer 2: ``spark-submit key_range_task.py --upstream U --view V range|changes``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench.comparison.peers import changes_since, merge_changes, merge_range

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--upstream", required=True, type=Path)
    parser.add_argument("--view", required=True, type=Path)
    parser.add_argument("step", choices=["range", "changes"])
    parser.add_argument("--after")
    parser.add_argument("--up-to")
    arguments = parser.parse_args()
    spark = SparkSession.builder.getOrCreate()
    if arguments.step == "range":
        merge_range(spark, arguments.upstream, arguments.view, arguments.after, arguments.up_to)
    else:
        merge_changes(changes_since(spark, arguments.upstream, 1), arguments.view)
    spark.stop()
