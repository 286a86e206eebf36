"""The Spark session of the campaigns, tuned for small data: little is compiled and adapted."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from airflow_backfill_provider.applications.spark_session import start_session
from tests.connect_server import server_conf
from tests.ports import free_port

SMALL_DATA = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}


@contextmanager
def spark_session() -> Iterator[SparkSession]:
    """Start Spark on this machine, also as a Spark Connect server, and stop it."""
    logging.getLogger("py4j").setLevel(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="backfill-faults-warehouse-") as warehouse:
        conf = {
            **SMALL_DATA,
            "spark.sql.warehouse.dir": warehouse,
            **server_conf(free_port()),
        }
        spark = start_session("faults", master="local[2]", conf=conf)
        try:
            yield spark
        finally:
            spark.stop()
