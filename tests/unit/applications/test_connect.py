"""Which Spark Connect server a client uses, and the error if it cannot; no server runs here."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.applications.connect import _refusal, _tag, authenticated, remote_from_environment
from airflow_backfill_provider.applications.spark_settings import REMOTE_VARIABLE, TOKEN_VARIABLE
from airflow_backfill_provider.core.errors import InvalidRemoteError
from airflow_backfill_provider.core.remote import Remote

SERVER = Remote(host="spark.example", port=15002)


@pytest.fixture(autouse=True)
def _no_engine(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    monkeypatch.delenv(REMOTE_VARIABLE, raising=False)


def test_a_server_has_its_own_token_or_that_of_the_environment(monkeypatch):
    assert authenticated(SERVER).token is None
    monkeypatch.setenv(TOKEN_VARIABLE, "of-the-environment")
    assert authenticated(SERVER).token == "of-the-environment"
    assert authenticated(SERVER.with_token("its-own")).token == "its-own"


def test_the_environment_may_name_a_server(monkeypatch):
    assert remote_from_environment() is None
    monkeypatch.setenv(REMOTE_VARIABLE, "sc://spark.example:15002")
    assert remote_from_environment() == SERVER
    monkeypatch.setenv(REMOTE_VARIABLE, "http://spark.example")
    with pytest.raises(InvalidRemoteError):
        remote_from_environment()


@pytest.mark.parametrize(
    ("token", "answer", "said"),
    [
        (None, "StatusCode.UNAUTHENTICATED", "refuses this client: its token is missing"),
        ("very-secret", "StatusCode.PERMISSION_DENIED", "refuses this client: its token is wrong"),
        ("very-secret", "SSL_ERROR: WRONG_VERSION_NUMBER", "does not use TLS"),
        (None, "StatusCode.UNAVAILABLE: connection refused", "no Spark Connect server answers at sc://spark.example"),
    ],
)
def test_an_error_says_what_to_do_and_has_no_secret(token, answer, said):
    message = _refusal(SERVER.with_token(token), answer)
    assert said in message
    assert "very-secret" not in message


def test_a_tag_has_no_comma():
    assert _tag("backfill orders, and others") == "backfill orders  and others"
