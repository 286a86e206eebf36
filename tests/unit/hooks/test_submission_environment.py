"""What a submission to a cluster gets from its environment."""

from __future__ import annotations

import json

from airflow.sdk import Connection

from airflow_backfill_provider.hooks.submission_environment import (
    SUBMISSION_MODULE,
    SUBMISSION_VARIABLE,
    submission_environment,
)

CLUSTER = Connection(
    conn_id="my_cluster", conn_type="spark", host="yarn", password="very-secret", extra='{"queue": "q"}'
)


def test_connection_and_configuration_are_passed_whole():
    conf = {"spark.sql.shuffle.partitions": 8, "spark.ssl.keyPassword": "very-secret"}
    environment = submission_environment(CLUSTER, conf, "airflow-backfill orders")
    assert json.loads(environment[SUBMISSION_VARIABLE]) == {
        "spark_conn_id": "my_cluster",
        "conf": conf,
        "name": "airflow-backfill orders",
    }
    read = Connection.from_json(environment["AIRFLOW_CONN_MY_CLUSTER"], conn_id="my_cluster")
    assert (read.conn_type, read.host, read.password, read.extra_dejson) == (
        "spark",
        "yarn",
        "very-secret",
        {"queue": "q"},
    )


def test_it_has_a_database_address_with_which_airflow_can_be_imported():
    environment = submission_environment(CLUSTER, {}, "x")
    assert environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] == "sqlite://"
    assert environment["AIRFLOW__CORE__SQL_ALCHEMY_CONN"] == "sqlite://"


def test_the_module_that_reads_them_exists():
    from importlib.util import find_spec

    assert find_spec(SUBMISSION_MODULE) is not None
