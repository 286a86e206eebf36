"""How an application runs, by its connection."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.hooks.applications import application_hook
from airflow_backfill_provider.hooks.backfill import InvalidConnectionError
from airflow_backfill_provider.hooks.connect_application import ConnectApplicationHook
from airflow_backfill_provider.hooks.spark_application import SparkApplicationHook


@pytest.mark.parametrize(
    ("conn_type", "host", "made"),
    [
        ("spark_connect", "spark.example", ConnectApplicationHook),
        ("spark", "sc://spark.example", ConnectApplicationHook),
        ("spark", "spark://spark.example", SparkApplicationHook),
        ("spark", "yarn", SparkApplicationHook),
    ],
)
def test_the_connection_decides_how_applications_get_to_spark(connection, conn_type, host, made):
    conn_id = connection("any", conn_type, host=host)

    hook = application_hook(spark_conn_id=conn_id, conf=None, storage_options=None, name="x")

    assert type(hook) is made


def test_without_a_connection_applications_are_submitted_here():
    hook = application_hook(spark_conn_id=None, conf=None, storage_options=None, name="x")
    assert type(hook) is SparkApplicationHook


def test_a_connection_that_is_missing_is_an_error():
    with pytest.raises(InvalidConnectionError, match="there is no Spark connection nowhere"):
        application_hook(spark_conn_id="nowhere", conf=None, storage_options=None, name="x")
