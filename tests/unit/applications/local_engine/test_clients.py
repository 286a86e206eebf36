"""The clients of the engine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_backfill_provider.applications.local_engine.clients import announced, clients
from airflow_backfill_provider.applications.local_engine.server import start_engine
from airflow_backfill_provider.core.remote import Remote

ROOT = Path(__file__).parents[4]


@pytest.fixture
def remote(spark_submit, port) -> Remote:
    spark_submit()
    return start_engine(port=port, master="local", conf={}, connect=lambda _: "4.2.0")[0].remote


def test_a_client_is_seen_while_it_works(remote):
    with announced(remote, "session", "airflow-backfill orders"):
        (client,) = clients()
        assert (client.what, client.pid) == ("airflow-backfill orders", os.getpid())
    assert clients() == ()


def test_clients_of_other_servers_are_not_announced(remote):
    with announced(Remote(host="spark.example", port=remote.port), "session", "x"):
        assert clients() == ()


def test_a_client_that_was_killed_is_not_seen(remote):
    program = (
        "import os, signal\n"
        "from airflow_backfill_provider.core.remote import Remote\n"
        "from airflow_backfill_provider.applications.local_engine.clients import announced, clients\n"
        f"with announced(Remote(host='localhost', port={remote.port}), 'killed', 'x'):\n"
        "    print(len(clients()), flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)

    assert done.stdout == "1\n"
    assert clients() == ()
