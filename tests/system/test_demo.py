"""The demos as ``make`` runs them, only smaller: they end well, and leave nothing running however they end."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import requests

pytestmark = [pytest.mark.airflow, pytest.mark.spark]

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture
def start_demo(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Start demos, and stop them with the test, however it ends."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")},
        "DEMO_FOLDER": str(tmp_path),
        "DEMO_ROWS": "4000",
        "DEMO_RATE_LIMIT": "6000",
    }

    started: list[psutil.Process] = []

    def start(module: str, *arguments: str) -> subprocess.Popen[str]:
        # As a background process of a shell without job control, which ignores SIGINT for it.
        ignoring = ["/bin/sh", "-c", "trap '' INT; exec \"$@\"", "sh"]
        demo = subprocess.Popen(
            [*ignoring, sys.executable, "-m", module, *arguments],
            cwd=CHECKOUT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(psutil.Process(demo.pid))
        return demo

    yield start
    # Processes of Airflow write their title over their environment, so some are found only by their parents.
    parents = [process for process in started if process.is_running()]
    for process in [
        *(child for parent in parents for child in parent.children(recursive=True)),
        *processes_of(tmp_path),
    ]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def processes_of(folder: Path) -> list[psutil.Process]:
    """Return the processes of the demo in a folder; each has the folder in its environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("DEMO_FOLDER") == str(folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def is_application(process: psutil.Process) -> bool:
    try:
        return "spark-submit" in str(process.cmdline()) or "java" in process.name()
    except psutil.NoSuchProcess:
        return False


@pytest.mark.exhaustive
@pytest.mark.timeout(1500)
def test_the_demo_ends_with_a_view_that_equals_its_query(start_demo, tmp_path):
    demo = start_demo("demo")
    out, err = demo.communicate()
    assert demo.returncode == 0, out + err
    for part in ("finished", "two more epochs keep it fresh", "equal: the view has", "What to try next"):
        assert part in out
    assert processes_of(tmp_path) == []

    commands = out.partition("What to try next")[2].splitlines()
    for command in ("status", "plan"):
        assert any(f"airflow-backfill {command}" in line for line in commands)
    status = next(line for line in commands if "airflow-backfill status" in line)
    done = subprocess.run(status.split(), capture_output=True, text=True, cwd=CHECKOUT, check=True)
    assert "finished" in done.stdout


@pytest.mark.exhaustive
@pytest.mark.timeout(1500)
def test_the_demo_in_a_bucket_ends_in_the_same_way(start_demo, tmp_path):
    demo = start_demo("demo", "--store", "s3")
    out, err = demo.communicate()
    assert demo.returncode == 0, out + err
    for part in ("all tables lie in its bucket: s3a://lake-", "two more epochs keep it fresh", "equal: the view has"):
        assert part in out
    assert processes_of(tmp_path) == []
    assert [path.name for path in tmp_path.iterdir() if path.name == "lake"] == []

    commands = out.partition("What to try next")[2].splitlines()
    server, environment, status = (
        next(line for line in commands if word in line).partition("    (")[0].strip().removesuffix(" &")
        for word in ("demo.s3_server", "store.environment", "airflow-backfill status")
    )
    running = subprocess.Popen(server.split(), cwd=CHECKOUT, start_new_session=True)
    try:
        time.sleep(1)
        done = subprocess.run(
            ["/bin/sh", "-c", f"{environment}; {status}"], capture_output=True, text=True, cwd=CHECKOUT, check=False
        )
        assert "finished" in done.stdout, done.stderr
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()


@pytest.mark.exhaustive
def test_an_interrupted_demo_leaves_nothing_running(start_demo, tmp_path):
    demo = start_demo("demo")
    while not (tmp_path / "logs" / "airflow-scheduler.log").exists():
        assert demo.poll() is None
        time.sleep(0.2)
    time.sleep(2)
    assert len(processes_of(tmp_path)) > 4
    os.kill(demo.pid, signal.SIGINT)
    _, err = demo.communicate(timeout=60)
    assert demo.returncode == 130
    assert err == "demo: stopped; nothing is running any more\n"
    assert processes_of(tmp_path) == []


def server_of(folder: Path) -> psutil.Process:
    """Return the PostgreSQL server of a demo, which has the demo's environment, too."""
    (server,) = [process for process in processes_of(folder) if process.name() == "postgres"]
    return server


@pytest.mark.exhaustive
@pytest.mark.timeout(1500)
def test_the_demo_over_postgresql_ends_with_a_view_that_equals_its_query(start_demo, tmp_path):
    demo = start_demo("demo.cdc")
    out, err = demo.communicate()
    assert demo.returncode == 0, out + err
    for part in ("finished", "two more epochs keep it fresh", "The writer stops", "equal: the view has", "ARGS=--stay"):
        assert part in out
    assert processes_of(tmp_path) == []
    assert "database system is shut down" in (tmp_path / "logs" / "postgres.log").read_text()


@pytest.mark.exhaustive
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("module", ["demo", "demo.cdc", "demo.source"])
def test_totals_over_a_view_that_never_rests_equal_a_query_over_the_orders(start_demo, tmp_path, module):
    demo = start_demo(module, "--groups")
    out, err = demo.communicate()
    assert demo.returncode == 0, out + err
    for part in ("live_totals: epoch 1", "The views are finished", "two more epochs keep them fresh"):
        assert part in out
    assert out.count("equal: the view has") == 2
    assert processes_of(tmp_path) == []


@pytest.mark.exhaustive
@pytest.mark.timeout(1500)
def test_a_star_whose_tables_all_change_equals_its_query(start_demo, tmp_path):
    demo = start_demo("demo", "--star")
    out, err = demo.communicate()
    assert demo.returncode == 0, out + err
    for part in ("revenue_by_country: epoch 1", "The views are finished", "of countries; none are missing"):
        assert part in out
    assert out.count("equal: the view has") == 2
    assert "Germany" in out.partition("revenue by country:")[2]
    assert processes_of(tmp_path) == []


@pytest.mark.exhaustive
@pytest.mark.timeout(1500)
def test_a_column_is_added_seen_and_approved_while_the_writer_goes_on(start_demo, tmp_path):
    demo = start_demo("demo", "--change")
    out, err = demo.communicate()
    assert demo.returncode == 0, out + err
    for part in ("waits for an approval", "columns added: items", "It is approved", "equal: the view has"):
        assert part in out
    assert processes_of(tmp_path) == []


@pytest.mark.exhaustive
@pytest.mark.timeout(1500)
def test_the_demo_over_kafka_ends_with_a_view_that_equals_its_query(start_demo, tmp_path):
    demo = start_demo("demo.source")
    out, err = demo.communicate()
    assert demo.returncode == 0, out + err
    for part in ("finished", "two more epochs keep it fresh", "equal: the view has", "ARGS=--stay"):
        assert part in out
    assert processes_of(tmp_path) == []


@pytest.mark.exhaustive
def test_an_interrupted_demo_over_postgresql_stops_its_server_and_shows_no_password(start_demo, tmp_path):
    demo = start_demo("demo.cdc")
    while not (tmp_path / "environment").exists():
        assert demo.poll() is None
        time.sleep(0.2)
    server = server_of(tmp_path)
    assert {connection.laddr.ip for connection in server.net_connections()} == {"127.0.0.1"}
    assert server.uids().effective != 0
    sessions = server.children()
    passwords = re.findall(r":([^:@]+)@|PGPASSWORD=(.+)", (tmp_path / "environment").read_text())
    secrets = [found for pair in passwords for found in pair if found]
    assert len(secrets) == 2
    commands = [process.info["cmdline"] for process in psutil.process_iter(["cmdline"])]
    assert not any(secret in str(command) for command in commands for secret in secrets)

    os.kill(demo.pid, signal.SIGINT)

    out, err = demo.communicate(timeout=60)
    assert (demo.returncode, err) == (130, "demo-cdc: stopped; nothing is running any more\n")
    assert processes_of(tmp_path) == []
    assert not any(process.is_running() for process in sessions)
    assert not any(secret in out for secret in secrets)
    for log in (tmp_path / "logs").iterdir():
        assert not any(secret in log.read_text() for secret in secrets)


@pytest.mark.exhaustive
def test_the_playground_offers_every_example_and_stops_clean_with_an_application_under_way(start_demo, tmp_path):
    playground = start_demo("demo.playground")
    line = next(line for line in playground.stdout if line.startswith("Airflow is at"))
    airflow = line.split()[3]

    def call(method: str, path: str, body: object = None) -> dict:
        token = requests.get(f"{airflow}/auth/token", timeout=30).json()["access_token"]
        headers = {"Authorization": f"Bearer {token}"}
        answer = requests.request(method, f"{airflow}/api/v2/{path}", json=body, headers=headers, timeout=30)
        answer.raise_for_status()
        return answer.json()

    assert call("GET", "importErrors")["import_errors"] == []
    examples = {file.stem for file in (CHECKOUT / "dags").glob("*.py")}
    assert examples == {dag["dag_id"] for dag in call("GET", "dags")["dags"]}
    call("PATCH", "dags/backfill_manual", {"is_paused": False})
    call("POST", "dags/backfill_manual/dagRuns", {"logical_date": None})
    while not any(is_application(process) for process in processes_of(tmp_path)):
        assert playground.poll() is None
        time.sleep(0.2)

    os.kill(playground.pid, signal.SIGINT)

    _, err = playground.communicate(timeout=300)
    assert (playground.returncode, err) == (0, "airflow: stopped; nothing is running any more\n")
    assert processes_of(tmp_path) == []
