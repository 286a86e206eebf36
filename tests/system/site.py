"""A running Airflow with an administrator and a viewer, for tests that go through its pages."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.integration.airflow.server import START_SECONDS, AirflowProcesses, airflow_server

CHROMIUM = shutil.which("chromium")
NEEDS_CHROMIUM = pytest.mark.skipif(
    CHROMIUM is None and "CI" not in os.environ, reason="needs Chromium: apt-get install chromium"
)

USERS = {"admin": "admin", "vera": "viewer"}
SECONDS = 30
"""How long an answer may take, and what a page is to show."""


@dataclass(frozen=True, slots=True)
class Site:
    """
    A running Airflow.

    :param url: where its pages are.
    :param processes: its processes.
    """

    url: str
    processes: AirflowProcesses

    def token(self, user: str) -> str:
        """Sign in."""
        answer = requests.post(f"{self.url}/auth/token", json={"username": user, "password": user}, timeout=SECONDS)
        answer.raise_for_status()
        return str(answer.json()["access_token"])

    def call(self, method: str, path: str, body: Any = None, *, user: str = "admin") -> requests.Response:
        """Ask an API of Airflow's or of the pages."""
        headers = {"Authorization": f"Bearer {self.token(user)}"}
        return requests.request(method, f"{self.url}{path}", json=body, headers=headers, timeout=SECONDS)

    def wait_until(self, reached: Callable[[], bool], *, seconds: float = START_SECONDS) -> None:
        """Wait for something that Airflow does, also while it does not answer yet."""

        def there() -> bool:
            try:
                return reached()
            except requests.RequestException:
                return False

        self.processes.wait_until(there, seconds=seconds)


@contextmanager
def running_site(folder: Path, dags: Path, variables: Mapping[str, str], components: Sequence[str]) -> Iterator[Site]:
    """
    Run Airflow for the block; each of its users has their name as their password.

    :param folder: where its home is made.
    :param dags: its DAGs.
    :param variables: environment variables of its processes.
    :param components: which processes to start.
    """
    home = folder / "airflow"
    home.mkdir()
    passwords = home / "passwords.json"
    passwords.write_text(json.dumps({user: user for user in USERS}), encoding="utf-8")
    users = {
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{user}:{role}" for user, role in USERS.items()),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
    }
    with airflow_server(home, dags, {**variables, **users}, components) as processes:
        yield Site(f"http://localhost:{processes.environment['AIRFLOW__API__PORT']}", processes)
