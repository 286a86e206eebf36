"""A PostgreSQL server of the tests' own: in a folder, on loopback, and ready for logical replication."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg
from psycopg import sql

from demo.postgres.cluster import HOST, SUPERUSER, Cluster, run_program
from tests.ports import free_port

_SETTINGS = {"max_replication_slots": "40", "max_wal_senders": "4", "shared_buffers": "32MB"}
PASSWORD = "a password of the tests"


class PostgresServer(Cluster):
    """
    A server that was initialized.

    :param folder: the server's data.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, free_port(), PASSWORD, _SETTINGS)

    def put_rules_first(self, rules: str) -> None:
        """Put lines before those of pg_hba.conf."""
        file = self.folder / "pg_hba.conf"
        file.write_text(f"{rules}\n{file.read_text(encoding='utf-8')}", encoding="utf-8")

    def start(self, **settings: str) -> None:
        options = " ".join(["-p", str(self.port), *(f"-c {name}={value}" for name, value in settings.items())])
        run_program("pg_ctl", "start", "--pgdata", self.folder, "--wait", "--options", options, "--log", self.log)

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    def stop(self) -> None:
        run_program("pg_ctl", "stop", "--pgdata", self.folder, "--wait", "--mode=fast")

    def kill(self) -> None:
        """End all of the server's processes at once, as a crash of the machine would."""
        pid = int((self.folder / "postmaster.pid").read_text(encoding="utf-8").splitlines()[0])
        os.kill(pid, signal.SIGQUIT)
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(pid).wait(30)

    def connect(self, database: str = "postgres", **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(
            host=HOST,
            port=self.port,
            dbname=database,
            user=SUPERUSER,
            password=PASSWORD,
            autocommit=True,
            **options,
        )

    def create_database(self, name: str, template: str = "template0", locale: str = "C.UTF-8") -> None:
        with self.connect() as connection:
            connection.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE {} ENCODING 'UTF8' LOCALE {}").format(
                    sql.Identifier(name), sql.Identifier(template), locale
                )
            )


@contextmanager
def postgres_server(
    folder: Path, settings: Mapping[str, str] | None = None, rules: str = ""
) -> Iterator[PostgresServer]:
    """
    Initialize and start a server, and stop it at the end.

    :param rules: lines of pg_hba.conf that come before its own.
    """
    server = PostgresServer(folder)
    server.initialize()
    server.put_rules_first(rules)
    server.start(**(settings or {}))
    try:
        yield server
    finally:
        server.stop()
