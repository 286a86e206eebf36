"""The warm engine as a user has it: started, worked on and ended from a terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.applications.local_engine.known_process import KnownProcess
from tests.ports import free_port

pytestmark = pytest.mark.spark

PROGRAM = Path(sys.executable).with_name("airflow-backfill")


class Terminal:
    """
    The program with a separate folder for the engine.

    :param folder: where that is.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
        self.environment.pop("SPARK_REMOTE", None)

    def __call__(self, *arguments: str, code: int = 0, **environment: str) -> str:
        """Run a command to its end; returns what it printed."""
        done = subprocess.run(
            [PROGRAM, *arguments],
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        assert done.returncode == code, done.stderr + done.stdout
        return done.stdout + done.stderr

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self("engine", "status", "--json"))
        return found


@pytest.fixture
def terminal(lake: Path):
    terminal = Terminal(lake)
    yield terminal
    terminal("engine", "stop")


@pytest.fixture
def job(lake: Path) -> Path:
    """A job over 300 orders, 100 per epoch."""
    rows = pa.table({"order_id": pa.array(range(300), pa.int64())})
    write_deltalake(str(lake / "orders"), rows, configuration={"delta.enableChangeDataFeed": "true"})
    definition = {
        "name": "orders",
        "upstream": {"path": str(lake / "orders"), "key": ["order_id"]},
        "materialized_view": str(lake / "view"),
        "query": "SELECT order_id, order_id * 2 AS twice FROM upstream WHERE order_id % 3 = 0",
        "rate_limit": 100,
    }
    file = lake / "job.yaml"
    file.write_text(yaml.safe_dump(definition), encoding="utf-8")
    return file


@pytest.mark.exhaustive
def test_a_backfill_on_a_warm_engine_from_start_to_stop(terminal: Terminal, job: Path, lake: Path):
    port = str(free_port())
    said = terminal("engine", "start", "--port", port, "--memory", "1g", "--conf", "spark.sql.shuffle.partitions=2")
    assert f"the engine is running: sc://localhost:{port}, Spark 4.2" in said
    assert f"the engine is already running: sc://localhost:{port}" in terminal("engine", "start", "--port", port)

    assert "created, strategy no_shuffle" in terminal("create", str(job), "--master", "engine")
    assert "epoch 1: 100 rows read" in terminal("run", str(job), "--master", f"sc://127.0.0.1:{port}")
    said = terminal("run", str(job), "--until-finished", SPARK_REMOTE=f"sc://localhost:{port}")
    assert "finished as of epoch 3" in said
    assert "100 rows expected, 0 missing, 0 unexpected" in terminal("verify", str(job), "--master", "engine")
    rows = DeltaTable(str(lake / "view")).to_pyarrow_table().to_pylist()
    assert sorted(row["twice"] for row in rows) == [number * 2 for number in range(0, 300, 3)]

    status = terminal.status()
    assert (status["running"], status["url"], status["memory_limit"]) == (True, f"sc://localhost:{port}", "1g")
    assert status["clients"] == []
    assert status["memory_bytes"] > 10_000_000
    token = Path(status["token_file"]).read_text(encoding="ascii").strip()
    assert token not in Path("/proc", str(status["pid"]), "cmdline").read_text()

    assert "is stopped" in terminal("engine", "stop")
    assert KnownProcess.of(status["pid"]) is None
    terminal("engine", "status", code=1)
    assert "no engine is running; start it" in terminal("verify", str(job), "--master", "engine", code=1)


@pytest.mark.exhaustive
def test_an_engine_that_was_killed_is_known_to_be_gone(terminal: Terminal):
    terminal("engine", "start", "--port", str(free_port()))
    os.killpg(terminal.status()["pid"], signal.SIGKILL)

    assert "no engine is running; start it" in terminal("engine", "status", code=1)
    assert "no engine is running" in terminal("engine", "stop")
