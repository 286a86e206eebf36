"""Where Spark keeps rows that are used several times."""

from __future__ import annotations

from pyspark import StorageLevel

KEPT = StorageLevel.DISK_ONLY
"""
On disk; a merge in Delta keeps its source there as well.

To keep rows in memory, Spark reads many of them for each task before it asks whether they fit: of rows of a megabyte,
more than a small engine has memory for.
"""
