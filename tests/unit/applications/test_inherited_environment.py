"""What an application inherits of a worker's environment: nothing of Airflow's own."""

from __future__ import annotations

import os

import pytest

from airflow_backfill_provider.applications.inherited_environment import airflows_own_left_out, inherited_environment

OWN = [
    "AIRFLOW__CORE__FERNET_KEY",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN",
    "AIRFLOW__CELERY__BROKER_URL_CMD",
    "AIRFLOW_CONN_SHOP",
    "AIRFLOW_VAR_TOKEN",
    "AIRFLOW_CTX_DAG_OWNER",
    "_AIRFLOW__WWW_USER_PASSWORD",
    "_AIRFLOW_WWW_USER_PASSWORD",
]
OTHERS = ["AIRFLOW_BACKFILL_ALLOWED_ROOTS", "AWS_REGION", "PATH", "MY_AIRFLOW_HELPER"]


@pytest.fixture(autouse=True)
def _worker(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*OWN, *OTHERS[:2], OTHERS[3]):
        monkeypatch.setenv(name, "very-secret")


def test_airflows_own_variables_are_left_out():
    inherited = inherited_environment()
    assert not inherited.keys() & set(OWN)
    assert inherited.keys() >= set(OTHERS)


def test_others_can_be_left_out_too():
    assert "AWS_REGION" not in inherited_environment({"AWS_REGION"})


def test_a_program_that_a_library_starts_inherits_none_of_them_either():
    before = dict(os.environ)
    with airflows_own_left_out():
        assert dict(os.environ) == inherited_environment()
    assert dict(os.environ) == before
