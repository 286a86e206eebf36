"""The upstream of ``make demo``: a Delta table with its change data feed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from airflow_backfill_provider.core import text
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
    target: ClassVar[str] = "make demo"

    def write_job(self) -> None:
        """Write the job's file."""
        write_job(self.run.folder, delta_upstream(self.run.folder.orders), self.size.rate_limit)

    def create(self) -> None:
        """Write the table."""
        orders = self.run.folder.orders
        with self.run.terminal.step(f"writing {text.rows(self.size.rows)} to {short_path(orders)}"):
            create_orders(orders, self.size.rows)

    def start_writer(self) -> None:
        """Start the writer."""
        folder = self.run.folder
        pause = number_from_environment("DEMO_COMMIT_SECONDS", 1.5, least=0.0)
        self.run.processes.start(
            WRITER,
            [
                *(sys.executable, "-m", "demo.delta.writer", folder.orders, "--seed", str(SEED)),
                *("--report", str(folder.writer_report), "--pause", str(pause)),
            ],
        )
        self.run.terminal.say(f"a writer changes orders, and waits {pause:g} s between two commits")

    def before_the_check(self, run_dag: Callable[[str], None]) -> None:
        """Do nothing: the table can be read as of the view's version."""

    def check_command(self, offset: str, view: str, query: Path) -> Sequence[str]:
        """Read the table as of the view's version."""
        return [sys.executable, "-m", "demo.delta.check", self.run.folder.orders, offset, view, str(query)]

    def as_of(self, offset: str) -> str:
        """Name the version."""
        return f"the upstream as of version {offset}"

    @property
    def places(self) -> Mapping[Path | str, str]:
        """The table."""
        return {self.run.folder.orders: "the upstream"}

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
            f"{program('python')} -m demo.delta.writer {short_path(self.run.folder.orders)} --commits 20",
            f"{command} run {job}",
            f"{command} verify {job}",
            f"{command} --help",
        )


def delta_upstream(orders: str) -> str:
    """Return a Delta table as the upstream of a job's file."""
    return f"path: {quoted(orders)}\nkey: [{', '.join(KEY)}]"
