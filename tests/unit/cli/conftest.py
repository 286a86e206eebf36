"""A small upstream, its job file, and an engine that counts instead of writing."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake
from typer.testing import CliRunner, Result

from airflow_backfill_provider.cli import spark
from airflow_backfill_provider.cli.main import app
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.scan.offset import Offset
from airflow_backfill_provider.jobs.backfill import Backfill
from tests.builders import Template
from tests.plain_engine import CountingEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from airflow_backfill_provider.core.epoch.barrier import Barrier
    from airflow_backfill_provider.core.epoch.engine import EpochWrites
    from airflow_backfill_provider.core.epoch.settings import JobSettings, ResolvedUpstream
    from airflow_backfill_provider.core.scan.table_version import TableVersions

ROWS = 1000
FILES = 4


@dataclass
class WatchedEngine(CountingEngine):
    """Stands in for Spark; records the requests, and fails if a test wants it."""

    starts: int = 0
    executed: list[int] = field(default_factory=list)
    before_execute: Callable[[Barrier], None] = lambda barrier: None
    failures: list[Exception] = field(default_factory=list)
    missing: list[Sequence[str]] = field(default_factory=list)
    catalog: Mapping[str, str] = field(default_factory=dict)

    def check(
        self,
        job: BackfillJob,
        upstream: ResolvedUpstream,
        offset: Offset,
        strategy: str,
        incarnations: frozenset[str],
    ) -> None:
        if self.failures:
            raise self.failures.pop(0)

    def run_epoch(self, settings: JobSettings, barrier: Barrier, *, since: TableVersions | None) -> EpochWrites:
        self.before_execute(barrier)
        if self.failures:
            raise self.failures.pop(0)
        self.executed.append(barrier.epoch)
        return super().run_epoch(settings, barrier, since=since)


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> WatchedEngine:
    """The engine that every command of a test gets instead of Spark."""
    counting = WatchedEngine()

    def start(_: spark.LazySpark) -> Any:
        counting.starts += 1
        return counting

    monkeypatch.setattr(spark.LazySpark, "__call__", start)
    return counting


@pytest.fixture(scope="session")
def four_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Orders 0 to 999 in four files in key order, with a change data feed. Tests copy them, which is faster."""
    path = tmp_path_factory.mktemp("four_files") / "orders"
    for number in range(FILES):
        ids = list(range(number * ROWS // FILES, (number + 1) * ROWS // FILES))
        append(path, ids)
    return path


@pytest.fixture
def upstream(tmp_path: Path, four_files: Path) -> Path:
    """An upstream for each test, with these orders."""
    return shutil.copytree(four_files, tmp_path / "lake" / "orders")


def append(path: Path | str, ids: list[int]) -> None:
    """Add orders as one version."""
    rows = pa.table({"order_id": pa.array(ids, pa.int64()), "amount": pa.array([1] * len(ids), pa.int32())})
    write_deltalake(str(path), rows, mode="append", configuration={"delta.enableChangeDataFeed": "true"})


@dataclass
class Job:
    """A job file, and what to do with it."""

    file: Path
    definition: dict[str, Any]

    def write(self, **changes: Any) -> None:
        """Write the file, with some fields changed."""
        self.definition |= changes
        self.file.write_text(yaml.safe_dump(self.definition), encoding="utf-8")

    @property
    def backfill(self) -> Backfill:
        """The job's tables."""
        return Backfill(BackfillJob.from_yaml(self.file))

    def __call__(self, command: str, *arguments: str) -> Result:
        """Run a command on the job."""
        return CliRunner().invoke(app, [command, str(self.file), *arguments])


def job_in(folder: Path, **changes: Any) -> Job:
    """Write the file of a job over a folder's upstream, 300 rows per epoch."""
    fields = {
        "name": "small_orders",
        "upstream": {"path": str(folder / "lake" / "orders"), "key": ["order_id"]},
        "materialized_view": str(folder / "lake" / "small_orders"),
        "query": "SELECT order_id, amount FROM upstream",
        "vnode_count": 4,
        "rate_limit": 300,
    }
    job = Job(folder / "job.yaml", fields)
    job.write(**changes)
    return job


@pytest.fixture(autouse=True)
def _environment() -> Iterator[None]:
    """Undo what commands do to the environment."""
    environment = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(environment)


@pytest.fixture
def job(tmp_path: Path, upstream: Path) -> Job:
    """A job over the upstream that is not created."""
    return job_in(tmp_path)


@pytest.fixture(scope="session")
def prepare(tmp_path_factory: pytest.TempPathFactory, four_files: Path) -> Callable[..., Callable[[], Job]]:
    """Runs some commands on a job, once; its result restores the job as they left it."""

    def make(*commands: str, **changes: Any) -> Callable[[], Job]:
        def fill(folder: Path) -> None:
            shutil.copytree(four_files, folder / "lake" / "orders")
            job = job_in(folder, **changes)
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(spark.LazySpark, "__call__", lambda _: WatchedEngine())
                for command in commands:
                    assert job(command).exit_code == 0

        template = Template(tmp_path_factory.mktemp("prepared"), fill)
        return lambda: job_in(template.restore(), **changes)

    return make


@pytest.fixture(scope="session")
def as_created(prepare: Callable[..., Callable[[], Job]]) -> Callable[[], Job]:
    return prepare("create")


@pytest.fixture
def created(as_created: Callable[[], Job]) -> Job:
    """The job, created."""
    return as_created()


@pytest.fixture
def gated(created: Job, engine: WatchedEngine) -> Job:
    """The job, with a finished view, and a file that asks for approvals."""
    assert created("run", "--until-finished").exit_code == 0
    created.write(cut_over="on_approval")
    engine.starts = 0
    return created


def said(job: Job, *command: str) -> list[str]:
    """Require that a command worked, and return the lines that it printed."""
    done = job(*command)
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


def fails(result: Result, *texts: str) -> None:
    """Require that a command failed with one line that contains some texts."""
    assert result.exit_code == 1
    assert result.stderr.startswith("airflow-backfill: error: ")
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.output
    for text in texts:
        assert text in result.stderr
