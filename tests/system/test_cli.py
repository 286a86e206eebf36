"""The command line as a user has it: the console script, its exit codes and what it prints, on real Spark and Delta."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from tests.variants import exhaustive

pytestmark = pytest.mark.spark

PROGRAM = Path(sys.executable).with_name("airflow-backfill")
ROWS = 900
QUERY = "SELECT region, id, upper(note) AS note, amount * 100 AS cents FROM upstream WHERE amount < 800"


def _digest(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


@dataclass
class Job:
    """
    A job in a folder, the program that runs it, and a writer of its upstream.

    :param server: the Spark Connect server that the program connects to; by default it starts a separate Spark.
    """

    folder: Path
    server: str | None = None
    definition: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.file = self.folder / "job file.yaml"
        self.upstream = self.folder / "orders"
        self.view = self.folder / "view"
        self.next_id = 5000
        self.write(
            name="cli_orders",
            upstream={"path": str(self.upstream), "key": ["region", "id"]},
            materialized_view=str(self.view),
            query=QUERY,
            rate_limit=250,
            vnode_count=8,
        )

    def write(self, **changes: Any) -> None:
        self.definition |= changes
        self.file.write_text(yaml.safe_dump(self.definition, allow_unicode=True), encoding="utf-8")

    def start(self, command: str, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [PROGRAM, command, str(self.file), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, **({"SPARK_REMOTE": self.server} if self.server else {})},
        )

    def run(self, command: str, *arguments: str) -> tuple[int, str, str]:
        process = self.start(command, *arguments)
        out, err = process.communicate(timeout=300)
        return process.returncode, out, err

    def done(self, command: str, *arguments: str) -> str:
        code, out, err = self.run(command, *arguments)
        assert (code, err) == (0, "")
        return out

    def fails(self, command: str, *arguments: str) -> str:
        code, out, err = self.run(command, *arguments)
        assert code == 1, out + err
        assert err.startswith("airflow-backfill: error: ")
        assert err.count("\n") == 1
        return err

    def status(self) -> dict[str, Any]:
        return json.loads(self.done("status", "--json"))

    def everything(self) -> Entries:
        """Return each file and folder of the lake and the control tables: when it was modified, and a file's digest."""
        return {
            str(path.relative_to(self.folder)): (path.stat().st_mtime_ns, _digest(path))
            for path in self.folder.rglob("*")
        }

    def insert(self, region: str, ids: range) -> None:
        rows = {
            "region": [region] * len(ids),
            "id": pa.array(ids, pa.int64()),
            "note": [None if i % 5 == 0 else f"note {i} ß" for i in ids],
            "amount": pa.array([Decimal(i) for i in ids], pa.decimal128(10, 2)),
            "at": pa.array([dt.datetime(2026, 1, 1, tzinfo=dt.UTC)] * len(ids), pa.timestamp("us", "UTC")),
        }
        write_deltalake(
            str(self.upstream),
            pa.table(rows),
            mode="append",
            configuration={"delta.enableChangeDataFeed": "true"},
        )

    def change(self) -> None:
        """Update, delete, re-key and insert: before and after any position."""
        table = DeltaTable(str(self.upstream))
        table.update(predicate="id % 7 = 0", updates={"amount": "amount + 150"})
        table.delete("id % 11 = 0")
        table.update(predicate="region = 'a' AND id = 13", updates={"region": "'c'", "id": "99013"})
        table.update(predicate="region = 'c' AND id = 17", updates={"region": "'a'", "id": "99017"})
        self.insert("b", range(self.next_id, self.next_id + 20))
        self.next_id += 20

    def equals_its_query(self) -> bool:
        """Compare with the query as another engine runs it, at the version that the view is at."""
        upstream = DeltaTable(str(self.upstream), version=self.status()["upstream_version"])
        expected, found = (
            QueryBuilder().register("upstream", table).execute(f"{query} ORDER BY region, id").read_all()
            for table, query in (
                (upstream, QUERY),
                (DeltaTable(str(self.view)), "SELECT region, id, note, cents FROM upstream"),
            )
        )
        rows = [[tuple(row.values()) for row in pa.table(result).to_pylist()] for result in (expected, found)]
        return rows[0] == rows[1]


STATE = "_backfill/cli_orders"
"""The folder of the job's control tables."""

Entries = dict[str, tuple[int, str | None]]


def differing(before: Entries, after: Entries) -> set[str]:
    """Return the names of files and folders that were made, removed, written or touched."""
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


@pytest.fixture
def job(lake: Path, spark_remote: str) -> Job:
    """A job over a small upstream, at a path with unusual characters; its commands use the tests' Spark."""
    job = Job(lake, spark_remote)
    for number, region in enumerate("abc"):
        job.insert(region, range(number * ROWS // 3, (number + 1) * ROWS // 3))
    return job


@pytest.mark.exhaustive
def test_a_backfill_from_plan_to_verify(job):
    before = job.everything()
    assert "in about 4 epochs" in job.done("plan")
    assert job.everything() == before
    assert "created, strategy no_shuffle" in job.done("create")
    assert "was created already" in job.done("create")

    out = job.done("run", "--max-epochs", "2")
    assert "epoch 1: 250 rows read" in out
    assert "epoch 2: 250 rows read" in out
    status = job.status()
    assert (status["epoch"], status["rows_read"], status["finished"]) == (2, 500, False)
    assert status["vnodes"] == {"total": 8, "not_started": 0, "in_progress": 8, "completed": 0}
    assert 0.5 < status["progress"] < 0.6

    job.change()
    job.done("pause")
    assert "stopped, not finished (paused)" in job.done("run", "--until-finished")
    assert job.status()["rows_read"] == 500

    job.done("resume")
    job.done("throttle", "none")
    assert "finished as of epoch 4" in job.done("run", "--until-finished")
    job.change()
    assert "changes applied" in job.done("run")
    assert job.equals_its_query()
    before = job.everything()
    assert " 0 missing, 0 unexpected" in job.done("verify")
    verified = job.everything()
    assert {name.partition("/verifications")[0] for name in differing(before, verified)} == {STATE}
    job.done("plan")
    job.done("status")
    assert "finished" in job.done("watch")
    assert differing(verified, job.everything()) == set()
    assert "nothing to do" in job.done("run")
    status = job.status()
    assert status["finished"]
    assert (status["progress"], status["lag_versions"], status["rate_limit"]) == (1.0, 0, None)

    DeltaTable(str(job.view)).delete("region = 'a' AND id = 8")
    code, out, err = job.run("verify", "--steps", "2")
    assert code == 1
    assert " 1 missing, 0 unexpected" in out
    assert 'missing: ["a", "8"] of vnode' in out
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("wrong", "texts"),
    [
        pytest.param({"query": "SELECT region, id, nope FROM upstream"}, ["query", "nope"], id="unknown column"),
        exhaustive({"query": "SELECT region, id, note FROM upstream WHERE"}, ["query"], name="syntax error"),
        exhaustive({"upstream": {"path": "{folder}/nowhere", "key": ["id"]}}, ["nowhere"], name="missing table"),
        exhaustive({"upstream": {"path": "{folder}/orders", "key": ["region"]}}, ["region"], name="duplicate keys"),
        pytest.param({"materialized_view": "{folder}/orders of others"}, ["orders of others"], id="path taken"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(job, wrong, texts):
    write_deltalake(str(job.folder / "orders of others"), pa.table({"x": [1]}))
    job.write(**_in_folder(wrong, str(job.folder)))
    before = sorted(job.folder.rglob("*"))
    error = job.fails("create")
    for text in texts:
        assert text in error
    assert sorted(job.folder.rglob("*")) == before


@pytest.fixture
def job_on_its_own(job: Job) -> Job:
    """The same job, with commands that each start a separate Spark, as for a new user."""
    job.server = None
    return job


def test_spark_that_does_not_start_is_one_line(job_on_its_own):
    error = job_on_its_own.fails("create", "--conf", "spark.driver.memory=1k")
    assert "Spark did not start" in error


@pytest.mark.exhaustive
def test_interrupted_killed_and_run_twice_at_once(job_on_its_own):
    job = job_on_its_own
    job.done("create")
    interrupted = _run_into_an_epoch(job)
    os.killpg(interrupted.pid, signal.SIGINT)  # as a terminal does
    _, err = interrupted.communicate(timeout=60)
    assert interrupted.returncode == 130
    assert err.count("\n") == 1
    _wait_for(lambda: not _alive(interrupted.pid))

    job.change()
    killed = _run_into_an_epoch(job)
    os.kill(killed.pid, signal.SIGKILL)  # its JVM lives on for a moment
    killed.communicate()

    runners = [job.start("run", "--until-finished") for _ in range(2)]
    for runner in runners:
        out, err = runner.communicate(timeout=300)
        assert runner.returncode == 0, err
        assert "finished as of epoch" in out
    assert job.equals_its_query()
    assert not _alive(killed.pid)


@pytest.mark.exhaustive
def test_rebuild_for_another_definition_and_another_upstream(job):
    job.done("create")
    job.done("run")
    job.write(query="SELECT region, id FROM upstream")
    assert "rebuild" in job.fails("run")
    assert "rebuilt" in job.done("rebuild")
    assert "epoch 2: 250 rows read" in job.done("run")
    assert DeltaTable(str(job.view)).to_pyarrow_table().num_rows == 250

    shutil.rmtree(job.upstream)
    job.insert("a", range(10))
    assert "rebuild the job" in job.fails("run")


def _run_into_an_epoch(job: Job) -> subprocess.Popen[str]:
    process = job.start("run", "--until-finished")
    _wait_for(lambda: job.status()["pinned_epoch"] is not None)
    time.sleep(6)
    return process


def _in_folder(wrong: Any, folder: str) -> Any:
    if isinstance(wrong, dict):
        return {name: _in_folder(value, folder) for name, value in wrong.items()}
    return wrong.replace("{folder}", folder) if isinstance(wrong, str) else wrong


def _wait_for(condition: Any, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.2)


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
