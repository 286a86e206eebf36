"""The facts about a Spark application on its page; the integration tests request the page itself."""

from __future__ import annotations

import pytest

from airflow_backfill_provider.core.application import ApplicationRecord
from airflow_backfill_provider.plugin.spark_application_page import _facts
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
