"""The facts about a Spark application on its page; the integration tests request the page itself."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.application import ApplicationRecord
from airflow_backfill_provider.plugin.spark_application_page import HOSTS_VARIABLE, _facts, leads_to_known_host
from tests.builders import NOW

RUNNING = ApplicationRecord(name="epoch-7", attempt="a", host="worker-1", pid=1, started_at=NOW, log="/logs/7")


def facts_of(**changes):
    """Return the facts of a record that are not empty."""
    return {term: fact for term, fact in _facts(RUNNING.model_copy(update=changes)) if fact}


def test_a_running_application():
    assert facts_of() == {
        "State": "running",
        "Runs on": "worker-1",
        "Started": "2026-03-29 01:30:00 UTC",
        "Spark's output, on that machine": "/logs/7",
    }


@pytest.mark.parametrize(
    ("exit_code", "state"), [(0, "succeeded"), (1, "failed with exit code 1"), (-9, "failed with exit code -9")]
)
def test_one_that_ended_says_how_and_when(exit_code, state):
    facts = facts_of(exit_code=exit_code, ended_at=NOW, said=("one", "two"), error="no such key")
    assert (facts["State"], facts["Ended"]) == (state, "2026-03-29 01:30:00 UTC")
    assert (facts["Messages"], facts["Error"]) == ("one\ntwo", "no such key")


def test_spark_on_a_cluster_has_a_name_of_the_application():
    facts = facts_of(application_id="app-7", web_url="http://driver:4040")
    assert facts["Spark application"] == "app-7"
    assert "Spark Connect server" not in facts


def test_spark_connect_has_a_server_and_a_session():
    facts = facts_of(application_id="session-7", web_url="sc://spark.example:15002")
    assert (facts["Spark Connect server"], facts["Session on the server"]) == ("sc://spark.example:15002", "session-7")
    assert "Spark application" not in facts


@pytest.mark.parametrize("address", ["http://driver:4040", "https://DRIVER/jobs/?a=b#c", "http://[::1]:4040/"])
def test_the_link_leads_to_a_host_that_the_deployment_names(monkeypatch, address):
    monkeypatch.delenv(HOSTS_VARIABLE, raising=False)
    assert not leads_to_known_host(address)
    assert facts_of(web_url=address)["Spark's own pages"] == address
    monkeypatch.setenv(HOSTS_VARIABLE, '["Driver", "[::1]"]')
    assert leads_to_known_host(address)


@pytest.mark.parametrize(
    "address",
    [
        "http://evil",
        "http://driver.evil",
        "http://driver@evil",
        "http://evil/@driver",
        "http://evil\\@driver",
        "http://evil\\.driver",
        "//driver",
        "http:driver",
        "javascript://driver/%0aalert(1)",
        "http://driver\n.evil",
        "http://driver/\r\nSet-Cookie: a=b",
        "http:///driver",
        " http://driver",
        "ftp://driver",
    ],
)
def test_the_link_leads_to_no_other_host(monkeypatch, address):
    monkeypatch.setenv(HOSTS_VARIABLE, '["driver"]')
    assert not leads_to_known_host(address)


@pytest.mark.parametrize("text", ["driver", '"driver"', "{}", "[1]"])
def test_an_invalid_list_of_hosts_names_none(monkeypatch, text):
    monkeypatch.setenv(HOSTS_VARIABLE, text)
    assert not leads_to_known_host("http://driver:4040")


def test_the_address_of_an_application_that_ended_is_of_no_use():
    assert "Spark's own pages" not in facts_of(web_url="http://driver:4040", exit_code=0, ended_at=NOW)
