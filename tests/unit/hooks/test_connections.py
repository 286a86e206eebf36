"""Connections to upstreams' systems, from Airflow."""

from __future__ import annotations

import json

import pytest

from airflow_backfill_provider.core.errors import InvalidJobError
from airflow_backfill_provider.core.job.connections import parse_connection
from airflow_backfill_provider.hooks.applications import application_hook
from airflow_backfill_provider.hooks.connections import connection_variables, from_airflow

PASSWORD = "s3cret/@:%"


@pytest.fixture
def shop(monkeypatch):
    fields = {
        "conn_type": "postgres",
        "host": "db",
        "port": 5433,
        "login": "me",
        "password": PASSWORD,
        "schema": "shop",
        "extra": {"sslmode": "verify-full"},
    }
    monkeypatch.setenv("AIRFLOW_CONN_SHOP_DB", json.dumps(fields))


@pytest.mark.usefixtures("shop")
def test_a_connection_has_airflow_s_fields():
    found = from_airflow("shop_db")
    assert (found.kind, found.host, found.port, found.schema) == ("postgres", "db", 5433, "shop")
    assert (found.login, found.password, found.extra) == ("me", PASSWORD, {"sslmode": "verify-full"})


def test_a_connection_that_airflow_does_not_have_is_none():
    assert from_airflow("nowhere") is None
    with pytest.raises(InvalidJobError, match="no connection nowhere; create it in Airflow"):
        connection_variables(["nowhere"])


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("spark_conn_id", [None, "engine"])
def test_an_application_gets_a_connection_in_its_environment_and_nowhere_else(monkeypatch, spark_conn_id):
    """A command line can be read by everybody on the machine."""
    monkeypatch.setenv("AIRFLOW_CONN_ENGINE", json.dumps({"conn_type": "spark_connect", "host": "sc://localhost"}))
    variables = connection_variables(["shop_db"])
    hook = application_hook(
        spark_conn_id=spark_conn_id, conf=None, storage_options=None, name="x", connections=variables
    )
    written = hook.environment()["AIRFLOW_CONN_SHOP_DB"]
    assert parse_connection(written, "here") == from_airflow("shop_db")
    assert PASSWORD not in str(hook.command("backfill_compact.py", ["--state", "/lake/state"]))


@pytest.mark.usefixtures("shop")
def test_a_driver_on_a_cluster_gets_no_connection(monkeypatch):
    """It would have to be on a command line."""
    cluster = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", json.dumps(cluster))
    variables = connection_variables(["shop_db"])
    with pytest.raises(Exception, match="the connection of the upstream would have to be on a command line"):
        application_hook(spark_conn_id="cluster", conf=None, storage_options=None, name="x", connections=variables)
