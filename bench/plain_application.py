"""A plain application: ``spark-submit plain_application.py UPSTREAM VIEW QUERY`` appends the query's result."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

if __name__ == "__main__":
    upstream, view, query = sys.argv[1:]
    spark = SparkSession.builder.getOrCreate()
    spark.read.format("delta").load(upstream).createOrReplaceTempView("upstream")
    spark.sql(query).write.format("delta").mode("append").save(view)
    spark.stop()
