"""A lakehouse whose tables all lie in a bucket."""

from __future__ import annotations

import os
import time
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_backfill_provider.engine.spark_engine import SparkEngine
from demo.s3_server import S3Server
from tests.integration.engine.lakehouse import Lakehouse
from tests.integration.s3.proxy import FailingProxy


class BucketLakehouse(Lakehouse):
    """
    An upstream and a job in a folder of a bucket.

    :param s3: the server, or a proxy in front of it.
    :param folder: the folder's name.
    """

    def __init__(self, spark: SparkSession, s3: S3Server | FailingProxy, folder: str) -> None:
        super().__init__(spark, f"{s3.root}/{folder}", s3.storage_options)
        self._s3 = s3

    def on_disk(self, location: str) -> Path:
        """Return where the server keeps the objects of a location."""
        return self._s3.on_disk(location)

    def exists(self, location: str) -> bool:
        """Return whether any object lies there: a bucket has no folders, but its server may keep empty ones."""
        return any(path.is_file() for path in self.on_disk(location).rglob("*"))

    def another_engine(self) -> SparkEngine:
        """Return the engine of another driver."""
        return SparkEngine(self.spark.newSession(), self.storage_options)


def let_an_hour_pass(folder: Path) -> None:
    """Make the log of a table older; what was committed within the last seconds is looked at again and again."""
    for file in folder.rglob("*.json"):
        os.utime(file, (time.time() - 3600, file.stat().st_mtime - 3600))
