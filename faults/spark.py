"""The Spark session of the campaigns, tuned for small data: little is compiled and adapted."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_backfill_provider.applications.spark_session import start_session
from airflow_backfill_provider.applications.spark_settings import spark_conf
from tests import local_files
from tests.connect_server import server_conf
from tests.ports import free_port

MASTER = "local[2]"
_CLASS_PATH = "spark.driver.extraClassPath"

SMALL_DATA = {
    # Each case has tables of its own, and Delta and Spark would keep the plans of thousands in memory.
    "spark.databricks.delta.delta.log.cacheSize": "40",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    """Start Spark on this machine, also as a Spark Connect server, and stop it."""
    logging.getLogger("py4j").setLevel(logging.WARNING)
    with (
        tempfile.TemporaryDirectory(prefix="backfill-faults-warehouse-") as warehouse,
        tempfile.TemporaryDirectory(prefix="backfill-faults-classes-") as classes,
    ):
        conf = {
            **SMALL_DATA,
            # Hadoop starts a process for each file that it writes here; half of an epoch's time would go into that.
            **local_files.put_into(Path(classes)),
            _CLASS_PATH: os.pathsep.join(filter(None, [spark_conf(MASTER).get(_CLASS_PATH), classes])),
            "spark.sql.warehouse.dir": warehouse,
            **server_conf(free_port()),
        }
        spark = start_session("faults", master=MASTER, conf=conf)
        try:
            yield spark
        finally:
            spark.stop()
