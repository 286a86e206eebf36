"""The upstream of ``make demo``: a Delta table with its change data feed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.status.job_status import JobStatus
from demo.delta.table import create_orders
from demo.folder import number_from_environment, program, short_path
from demo.job import quoted, write_job
from demo.orders import KEY
from demo.upstream import SEED, WRITER, Upstream


class DeltaOrders(Upstream):
    """The orders in a Delta table. Each of its versions can be read again."""

    title: ClassVar[str] = "The upstream: orders in a Delta table that change all the time"
    reading: ClassVar[Sequence[str]] = (
        "Each epoch reads the next orders in key order, and applies the changes of those that were read before.",
    )
    stay_command: ClassVar[str] = "make demo ARGS=--stay"

    def write_job(self) -> None:
        """Write the job's file."""
        write_job(self.run.folder, delta_upstream(self.run.folder.orders), self.size.rate_limit)

    def create(self) -> None:
        """Write the table."""
        orders = self.run.folder.orders
        with self.run.terminal.step(f"writing {text.rows(self.size.rows)} to {short_path(orders)}"):
            create_orders(orders, self.size.rows)

    @property
    def tables(self) -> Mapping[str, str]:
        """The locations of the tables that change, by their names."""
        return {"orders": self.run.folder.orders}

    @property
    def writer_command(self) -> Sequence[str]:
        """The writer's module and arguments for Python."""
        return ["-m", "demo.delta.writer", *self.tables.values()]

    def start_writer(self) -> None:
        """Start the writer."""
        folder = self.run.folder
        pause = number_from_environment("DEMO_COMMIT_SECONDS", 1.5, least=0.0)
        self.run.processes.start(
            WRITER,
            [
                *(sys.executable, *self.writer_command, "--seed", str(SEED)),
                *("--report", str(folder.writer_report), "--pause", str(pause)),
            ],
        )
        changed = ", ".join(self.tables)
        self.run.terminal.say(f"a writer changes {changed}, and waits {pause:g} s between two commits")

    def before_the_check(self, run_dag: Callable[[str], None]) -> None:
        """Do nothing: the table can be read as of the view's version."""

    def check_command(self, status: JobStatus, view: str, query: Path) -> Sequence[str]:
        """Read the table as of the view's version."""
        version = str(status.upstream_version)
        return [sys.executable, "-m", "demo.delta.check", self.run.folder.orders, version, view, str(query)]

    def as_of(self, status: JobStatus) -> str:
        """Name the version."""
        return f"the upstream as of version {status.upstream_version}"

    @property
    def places(self) -> Mapping[Path | str, str]:
        """The tables."""
        named = len(self.tables) > 1
        return {location: f"the upstream {name}" if named else "the upstream" for name, location in self.tables.items()}

    @property
    def commands_meanwhile(self) -> Sequence[str]:
        """What reads the job."""
        command, job = program("airflow-backfill"), short_path(self.run.folder.job)
        return (f"{command} watch {job}", f"{command} plan {job}")

    @property
    def commands_afterwards(self) -> Sequence[str]:
        """What reads and writes the job and the table."""
        command, job = program("airflow-backfill"), short_path(self.run.folder.job)
        return (
            f"{command} status {job}",
            f"{command} plan {job}",
            " ".join([program("python"), *map(short_path, self.writer_command), "--commits 20"]),
            f"{command} run {job}",
            f"{command} verify {job}",
            f"{command} --help",
        )


def delta_upstream(orders: str) -> str:
    """Return a Delta table as the upstream of a job's file."""
    return f"path: {quoted(orders)}\nkey: [{', '.join(KEY)}]"
