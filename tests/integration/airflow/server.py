"""Airflow's own processes on a database of their own, for what only a scheduler does."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

CHECKOUT = Path(__file__).parents[3]
AIRFLOW = str(Path(sys.executable).parent / "airflow")
COMPONENTS = ("api-server", "scheduler", "dag-processor")


@contextmanager
def airflow_server(home: Path, dags: Path, variables: dict[str, str]) -> Iterator[dict[str, str]]:
    """
    Run Airflow for the block.

    :param home: where its database and logs go.
    :param dags: its DAGs.
    :param variables: further environment variables of its processes.
    :returns: the environment of its processes, for its command line.
    """
    environment = _environment(home, dags) | variables
    subprocess.run([AIRFLOW, "db", "migrate"], env=environment, check=True, capture_output=True)
    started: list[subprocess.Popen[bytes]] = []
    try:
        for component in COMPONENTS:
            with (home / f"{component}.log").open("wb") as log:
                started.append(
                    subprocess.Popen(
                        [AIRFLOW, component], env=environment, stdout=log, stderr=log, start_new_session=True
                    )
                )
        yield environment
    finally:
        # `airflow standalone` would leave processes behind; each of these is a group of its own.
        for sign in (signal.SIGTERM, signal.SIGKILL):
            for process in started:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, sign)
            for process in started:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=20)


def wait_until(reached: Callable[[], bool], *, seconds: float, logs: Path) -> None:
    """Wait for something that Airflow does; a failure shows the ends of its logs."""
    until = time.monotonic() + seconds
    while not reached():
        if time.monotonic() > until:
            ends = [f"{log.name}:\n{log.read_text(errors='replace')[-2000:]}" for log in logs.glob("*.log")]
            raise AssertionError("\n\n".join(["Airflow did not get there in time", *ends]))
        time.sleep(1)


def _environment(home: Path, dags: Path) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    port = _free_port()
    return {
        **inherited,
        "PYTHONPATH": str(CHECKOUT),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "3",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://localhost:{port}/execution/",
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API__SECRET_KEY": secrets.token_hex(16),
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(_free_port()),
        "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
