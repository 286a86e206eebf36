"""Chooses how a Spark application of this package runs: through spark-submit, or as a client of Spark Connect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_backfill_provider.hooks.connect_application import ConnectApplicationHook, is_connect
from airflow_backfill_provider.hooks.spark_application import SparkApplicationHook

ApplicationHook = ConnectApplicationHook | SparkApplicationHook


def application_hook(
    *,
    spark_conn_id: str | None,
    conf: Mapping[str, Any] | None,
    storage_options: Mapping[str, str] | None,
    name: str,
    rows: int | None = None,
    connections: Mapping[str, str] | None = None,
) -> ApplicationHook:
    """
    Return the hook for a connection; without one, applications run on this machine.

    :param rows: the most rows that the application reads, if known.
    :param connections: the environment variables of the connections that it needs.
    :raises InvalidConnectionError: if the connection is missing or wrong.
    """
    if spark_conn_id is not None and _names_connect(spark_conn_id):
        return ConnectApplicationHook(
            spark_conn_id=spark_conn_id, conf=conf, storage_options=storage_options, name=name, connections=connections
        )
    return SparkApplicationHook(
        spark_conn_id=spark_conn_id,
        conf=conf,
        storage_options=storage_options,
        name=name,
        rows=rows,
        connections=connections,
    )


def _names_connect(conn_id: str) -> bool:
    try:
        return is_connect(BaseHook.get_connection(conn_id))
    except AirflowNotFoundException:
        # The other hook raises the error.
        return False
