"""The Airflow of `make airflow`: what has ended is started again, even if its process lives on."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from demo.airflow_server import COMPONENTS, LOST_LOOKS, START_LOOKS, AirflowServer


class Played(AirflowServer):
    """A server without processes; ``silent`` do not report."""

    silent: frozenset[str] = frozenset()
    answers = True

    def _call(self, method, path, body=None):
        if not self.answers:
            raise ConnectionError
        names = ("scheduler", "dag_processor", "triggerer")
        return {name: {"status": "unhealthy" if name in self.silent else "healthy"} for name in names}


class PlayedProcesses:
    def __init__(self) -> None:
        self.dead: set[str] = set()
        self.did: list[str] = []

    def is_alive(self, name: str) -> bool:
        return name not in self.dead

    def kill(self, name: str) -> None:
        self.did.append(f"kill {name}")
        self.dead.discard(name)

    def start(self, name: str, *_: object) -> None:
        self.did.append(f"start {name}")


@pytest.fixture
def server(tmp_path) -> Played:
    folder = SimpleNamespace(airflow_home=tmp_path, job=tmp_path, next_job=tmp_path, jobs=tmp_path)
    return Played(folder, SimpleNamespace(epochs_per_run=1), PlayedProcesses())


def looks(server: Played, count: int) -> list[str]:
    return [component for _ in range(count) for component in server.revive()]


def test_a_scheduler_that_reports_no_more_is_started_again_although_its_process_lives(server):
    """It ended with "database is locked", and its executor waits for its workers."""
    server.silent = frozenset({"scheduler"})
    assert looks(server, LOST_LOOKS - 1) == []
    assert server.revive() == ["scheduler"]
    assert server._processes.did == ["kill airflow-scheduler", "start airflow-scheduler"]
    assert looks(server, START_LOOKS) == [], "it has time to start"


def test_a_component_that_is_silent_for_a_moment_is_left_alone(server):
    for _ in range(5):
        server.silent = frozenset({"triggerer"})
        assert looks(server, LOST_LOOKS - 1) == []
        server.silent = frozenset()
        assert server.revive() == []


def test_a_process_that_has_ended_is_started_again(server):
    server._processes.dead = {"airflow-api-server"}
    server.answers = False
    assert server.revive() == ["api-server"]
    assert looks(server, LOST_LOOKS) == [], "without an answer nothing is known of the others"


def test_a_busy_database_is_waited_for(server):
    assert server._environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].endswith("/airflow.db?timeout=60")
    assert set(COMPONENTS) >= {"scheduler", "api-server"}
