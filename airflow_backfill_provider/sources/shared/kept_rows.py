"""Where Spark keeps rows that are used several times."""

from __future__ import annotations

from pyspark import StorageLevel

KEPT = StorageLevel.DISK_ONLY
"""
On disk; a merge in Delta keeps its source there as well.

To keep rows in memory, Spark reads sixteen batches of four megabytes or more for each task before it asks whether they
fit. For the memory that writing to disk takes, see ``spark.serializer.objectStreamReset`` in
:mod:`airflow_backfill_provider.applications.spark_settings`.
"""
