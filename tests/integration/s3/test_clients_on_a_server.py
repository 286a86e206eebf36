"""Clients of one Spark Connect server at work on one job in a bucket, where no lock lets them take turns."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from pyspark.errors import PySparkException

from airflow_backfill_provider.applications.connect import ConnectSession, connected
from airflow_backfill_provider.applications.connect_engine import LOCAL_DRIVER, ConnectEngine
from airflow_backfill_provider.applications.local_engine.known_process import KnownProcess
from airflow_backfill_provider.core.application import ServerSession
from airflow_backfill_provider.core.remote import Remote
from airflow_backfill_provider.state.applications import ApplicationRecords
from demo.s3_server import S3Server

pytestmark = pytest.mark.spark


class Clients:
    """Two clients of the tests' Spark, for one job."""

    def __init__(self, remote: str, state: str, options: dict[str, str], held: ExitStack) -> None:
        self.first, self.second = (held.enter_context(connected(Remote.parse(remote), what="client")) for _ in "12")
        self.state = state
        self.records = ApplicationRecords(state, options)
        self._options = options

    @contextmanager
    def at_work(self, client: ConnectSession) -> Iterator[None]:
        """Let a client work on the job."""
        with ConnectEngine(client, self._options, purpose="epoch").exclusive(self.state):
            yield

    def leave(self, client: ConnectSession, name: str, process: KnownProcess) -> None:
        """Leave the record of a session whose client is a process that has ended."""
        of_process = {"pid": process.pid, "started": process.started}
        self.records.write_session(name, client.session.model_copy(update=of_process))


@pytest.fixture(params=["bucket", "folder"])
def clients(
    request: pytest.FixtureRequest, spark_remote: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Clients]:
    """Two clients at work on a job in a bucket, or in a local folder."""
    s3: S3Server | None = request.getfixturevalue("s3") if request.param == "bucket" else None
    name = tmp_path_factory.mktemp("state")
    with ExitStack() as held:
        yield Clients(
            spark_remote, f"{s3.root}/{name.name}" if s3 else str(name), s3.storage_options if s3 else {}, held
        )


def ended_process() -> KnownProcess:
    """Return a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    known = KnownProcess.of(process.pid)
    assert known is not None
    process.communicate()
    return known


def works(client: ConnectSession) -> bool:
    try:
        return client.spark.range(3).count() == 3
    except PySparkException:
        return False


def test_a_client_does_not_end_the_work_of_another_one_that_lives(clients: Clients, request):
    if request.node.callspec.params["clients"] == "bucket":
        with clients.at_work(clients.first):
            with clients.at_work(clients.second):
                assert works(clients.first)
            assert works(clients.first)
    else:
        # The first one failed inside of an epoch, and goes on with its session.
        clients.records.write_session(LOCAL_DRIVER, clients.first.session)
        with clients.at_work(clients.second):
            assert works(clients.first)
    assert (works(clients.first), works(clients.second)) == (True, True)


def test_a_client_ends_the_work_of_a_dead_one(clients: Clients):
    name = "epoch" if clients.state.startswith("s3a:") else LOCAL_DRIVER
    clients.leave(clients.first, name, ended_process())
    with clients.at_work(clients.second):
        assert not works(clients.first)
    assert clients.records.session(name) is None


def test_a_client_forgets_its_own_session_alone(clients: Clients):
    with clients.at_work(clients.second):
        name = "epoch" if clients.state.startswith("s3a:") else LOCAL_DRIVER
        other = ServerSession(server="elsewhere:1", user_id="me", session_id="0a")
        clients.records.write_session(name, other)
    assert clients.records.session(name) == other
