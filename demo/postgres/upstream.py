"""The upstream of ``make demo-cdc``: a table in a PostgreSQL server of the demo's own."""

from __future__ import annotations

import atexit
import os
import secrets
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from airflow_backfill_provider.core import text
from airflow_backfill_provider.core.job.connections import variable_of
from airflow_backfill_provider.core.status.job_status import JobStatus
from demo.folder import DemoError, Size, number_from_environment, program, short_path
from demo.job import NAME, write_job
from demo.orders import KEY
from demo.postgres.cluster import BINARIES, HOST, Cluster, may_enter, require_programs
from demo.postgres.shop import DATABASE, TABLE, Shop
from demo.postgres.writer import RATE
from demo.processes import free_port
from demo.run import DemoRun
from demo.upstream import SEED, WRITER, Upstream

CONNECTION = "demo_shop"
SERVER = "postgres"
PREFERRED_PORT = 15432
START_SECONDS = 60

_SETTINGS = {"max_replication_slots": "2", "max_slot_wal_keep_size": "4GB"}


class PostgresOrders(Upstream):
    """The orders in a table in PostgreSQL. It can only be read as it is now, so the writer stops before the check."""

    title: ClassVar[str] = "The upstream: orders in a PostgreSQL database that change all the time"
    reading: ClassVar[Sequence[str]] = (
        "Each epoch takes the newest changes from a replication slot, and applies those of orders in the view.",
        "It also reads the next orders ahead. The next epoch brings them up to date, and appends them to the view.",
        "So the first epoch appends nothing. A position is a place in the database's log, in bytes.",
    )
    stay_command: ClassVar[str] = "make demo-cdc ARGS=--stay"

    def __init__(self, run: DemoRun, size: Size) -> None:
        super().__init__(run, size)
        require_programs()
        folder = _place(run.folder.path) / SERVER
        self._cluster = Cluster(folder, free_port(PREFERRED_PORT), secrets.token_urlsafe(24), _SETTINGS)
        self._shop = Shop(self._cluster, publication=f"airflow_backfill_{NAME}")

    @property
    def environment(self) -> Mapping[str, str]:
        """The job's connection."""
        return {variable_of(CONNECTION): self._shop.reader_uri}

    def write_job(self) -> None:
        """Write the job's file, and put its connection into the environment of this process."""
        upstream = f"postgres:\n  connection: {CONNECTION}\n  table: {TABLE}\n  key: [{', '.join(KEY)}]"
        write_job(self.run.folder, upstream, self.size.rate_limit)
        os.environ.update(self.environment)

    def create(self) -> None:
        """Start the server, and fill the table."""
        terminal, cluster = self.run.terminal, self._cluster
        with terminal.step(f"starting PostgreSQL in {short_path(cluster.folder)}, on {HOST}:{cluster.port}"):
            cluster.initialize()
            # Its SIGTERM waits for all clients to leave, and its SIGINT ends their sessions.
            self.run.servers.start(SERVER, cluster.server, {**os.environ, "LC_ALL": "C.UTF-8"}, ending=signal.SIGINT)
            self._wait_for_server()
        with terminal.step(f"writing {text.rows(self.size.rows)} to {TABLE} of the database {DATABASE}"):
            self._shop.create()
            self._shop.fill(self.size.rows)
        terminal.say(
            f"the login {self._shop.owner.name} owns the table; the job's login {self._shop.reader.name} may only read "
            "it and follow its changes"
        )

    def _wait_for_server(self) -> None:
        until = time.monotonic() + START_SECONDS
        while not self._cluster.answers():
            self.run.servers.require_alive()
            if time.monotonic() > until:
                raise DemoError(
                    f"PostgreSQL did not start within {START_SECONDS} s; see {self.run.servers.log(SERVER)}"
                )
            time.sleep(0.1)

    def start_writer(self) -> None:
        """Start the writer, with the login of the table's owner."""
        rate = number_from_environment("DEMO_TRANSACTIONS_PER_SECOND", RATE, least=0.01)
        self.run.processes.start(
            WRITER,
            [
                *(sys.executable, "-m", "demo.postgres.writer", "--rate", str(rate), "--seed", str(SEED)),
                *("--report", str(self.run.folder.writer_report)),
            ],
            {**os.environ, **self._shop.owner_environment},
        )
        self.run.terminal.say(
            f"a writer logs in as {self._shop.owner.name}, and makes {rate:g} transactions a second, like pgbench"
        )
        self._write_environment()

    def _write_environment(self) -> None:
        """Write the connections for a shell. Only this user can read the file."""
        file = self._environment_file
        file.touch(mode=0o600)
        variables = {**self.environment, **self._shop.owner_environment}
        file.write_text("".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()))

    def before_the_check(self, run_dag: Callable[[str], None]) -> None:
        """Stop the writer, and bring the view to where the table then is."""
        self.run.processes.end(WRITER)
        run_dag(
            "The writer stops, because a database cannot be read as of an earlier moment; one last DAG run catches up"
        )

    def check_command(self, status: JobStatus, view: str, query: Path) -> Sequence[str]:
        """Read the table as it is."""
        del status
        return [
            *(sys.executable, "-m", "demo.postgres.check", CONNECTION, TABLE),
            *(view, str(query)),
        ]

    def as_of(self, status: JobStatus) -> str:
        """Name the table and the position."""
        return f"{TABLE} in PostgreSQL as it is now, at position {status.upstream_version}"

    @property
    def places(self) -> Mapping[Path | str, str]:
        """The database, unless it is removed at the end."""
        folder = self._cluster.folder
        if not folder.is_relative_to(self.run.folder.path):
            return {}
        return {folder: "the database; its server stops with the demo"}

    @property
    def commands_meanwhile(self) -> Sequence[str]:
        """What reads the job and the database."""
        command, job = program("airflow-backfill"), short_path(self.run.folder.job)
        psql = BINARIES / "psql"
        return (
            f". {short_path(self._environment_file)}    (the connections of the job and of psql)",
            f"{command} watch {job}",
            f"{command} plan {job}",
            f"{psql} -c 'SELECT region, count(*), max(updated_at) FROM orders GROUP BY region'",
            f"{psql} -xc 'TABLE pg_replication_slots'",
        )

    @property
    def commands_afterwards(self) -> Sequence[str]:
        """What needs no database."""
        return (
            f"cat {short_path(self.run.folder.job)}",
            "less docs/how-to/backfill-from-postgresql.md    (for a database of your own)",
        )

    @property
    def _environment_file(self) -> Path:
        return self.run.folder.path / "environment"


def _place(folder: Path) -> Path:
    """Return the demo's folder, or a temporary one if the server's user may not enter it."""
    if may_enter(folder):
        return folder
    place = Path(tempfile.mkdtemp(prefix="demo-cdc-"))
    place.chmod(0o755)
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place
