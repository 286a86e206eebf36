"""A session that is a Spark Connect server as well."""

from __future__ import annotations

from pyspark.sql import SparkSession

PORT = "spark.connect.grpc.binding.port"
"""Where a session listens as a server."""


def server_conf(port: int) -> dict[str, str]:
    """Return the configuration of a session that also listens as a server, on this machine alone, without a token."""
    return {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        PORT: str(port),
    }


def address_of(spark: SparkSession) -> str:
    """Return where such a session listens."""
    return f"sc://127.0.0.1:{spark.conf.get(PORT)}"
