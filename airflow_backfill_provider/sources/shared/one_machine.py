"""Tells whether Spark has only the processors and disks that this process has."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def runs_here(spark: SparkSession) -> bool:
    """Return whether Spark's tasks run on the machine of its driver."""
    return (spark.conf.get("spark.master", "") or "").startswith("local")
