"""
One Spark for all processes that run tests. The first that asks starts it, and the others use its JVM.

A JVM needs minutes until its code is compiled, so two of them would spend a third of the tests' time on that. PySpark
attaches to a running JVM as it does where ``spark-submit`` starts Python: by the port and the secret of a gateway.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from airflow_backfill_provider.applications.spark_session import start_session
from airflow_backfill_provider.spark.session import prepare_session
from tests.connect_server import server_conf
from tests.ports import free_port


class SharedSpark(BaseModel):
    """
    Where the Spark is that processes share.

    :param gateway_port: the port of its gateway for PySpark.
    :param secret: what the gateway asks for.
    :param server_port: the port on which it listens as a Spark Connect server.
    """

    gateway_port: int
    secret: str
    server_port: int


@contextmanager
def shared_spark(folder: Path, conf: Mapping[str, str]) -> Iterator[tuple[SparkSession, int]]:
    """
    Give a session on the Spark that all processes with this folder share, and the port of its Spark Connect server.

    :param folder: an existing folder of this run of the tests.
    :param conf: the configuration with which the first process starts Spark.
    """
    record = folder / "spark.json"
    with (folder / "spark.users").open("w+") as users:
        with _locked(folder / "spark.lock"):
            starts = not record.exists()
            if starts:
                session, spark = _start(conf)
                record.write_text(spark.model_dump_json(), encoding="utf-8")
            else:
                spark = SharedSpark.model_validate_json(record.read_text(encoding="utf-8"))
                session = _attach(spark)
                # A lock of this process alone. A test may fork a process that lives until this one ends, as Airflow
                # does for lineage, and it would inherit another kind of lock.
                fcntl.lockf(users, fcntl.LOCK_SH)
        yield session, spark.server_port
        if not starts:
            return
        with _locked(folder / "spark.lock"):
            record.unlink()
        # The JVM ends with the process that started it, so this one waits for the others.
        fcntl.lockf(users, fcntl.LOCK_EX)
        session.stop()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _start(conf: Mapping[str, str]) -> tuple[SparkSession, SharedSpark]:
    port = free_port()
    session = start_session("tests", master="local[2]", conf={**conf, **server_conf(port)})
    gateway = session.sparkContext._gateway.gateway_parameters
    return session, SharedSpark(gateway_port=gateway.port, secret=gateway.auth_token, server_port=port)


def _attach(spark: SharedSpark) -> SparkSession:
    variables = {"PYSPARK_GATEWAY_PORT": str(spark.gateway_port), "PYSPARK_GATEWAY_SECRET": spark.secret}
    os.environ.update(variables)
    try:
        gateway = launch_gateway()
    finally:
        for name in variables:
            del os.environ[name]
    java = gateway.jvm
    context = java.JavaSparkContext.fromSparkContext(java.org.apache.spark.SparkContext.getOrCreate())
    conf = SparkConf(_jvm=java, _jconf=context.getConf())
    return prepare_session(SparkSession(SparkContext(gateway=gateway, jsc=context, conf=conf)).newSession())
