"""Tells whether Spark has no other processors and disks for a table than this process has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_backfill_provider.core.location import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def lies_here(spark: SparkSession, location: str) -> bool:
    """
    Return whether a table lies on a local disk, and Spark's tasks run on the machine of its driver.

    :param location: the table's canonical location.
    """
    return is_local(location) and (spark.conf.get("spark.master", "") or "").startswith("local")
