"""A warm engine of the tests' own, and how to see what it runs."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_backfill_provider.applications.connect import ConnectSession, server_version
from airflow_backfill_provider.applications.local_engine.engine_files import EngineRecord
from airflow_backfill_provider.applications.local_engine.server import start_engine, stop_engine
from tests.ports import free_port


@contextmanager
def warm_engine(
    folder: Path, *, master: str = "local[2]", conf: Mapping[str, str] | None = None
) -> Iterator[EngineRecord]:
    """Keep an engine in a folder while the block runs; the environment names that folder."""
    before = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = str(folder)
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **(conf or {}),
    }
    try:
        record, started = start_engine(port=free_port(), master=master, conf=settings, connect=server_version)
        assert started
        yield record
    finally:
        stop_engine()
        if before is None:
            del os.environ["XDG_STATE_HOME"]
        else:
            os.environ["XDG_STATE_HOME"] = before


def keep_busy(spark: SparkSession) -> None:
    """Keep both cores of the engine busy until the session is ended."""
    # Without generated code, nothing in the loop over a range looks whether its task is killed: it would never end.
    spark.conf.set("spark.sql.codegen.wholeStage", "true")
    spark.conf.set("spark.sql.codegen.factoryMode", "CODEGEN_ONLY")
    spark.range(0, 10**15, 1, 2).selectExpr("sum(id % 7)").collect()


class Busy(threading.Thread):
    """
    A client that keeps the server busy until its session is ended.

    :param connection: its session.
    """

    def __init__(self, connection: ConnectSession) -> None:
        super().__init__(daemon=True)
        self.connection = connection
        self.error: PySparkException | None = None

    def run(self) -> None:
        try:
            keep_busy(self.connection.spark)
        except PySparkException as error:
            self.error = error
