"""A PostgreSQL server of the tests' own: in a folder, on loopback, and ready for logical replication."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg
from psycopg import sql

from tests.ports import free_port

_BINARIES = Path("/usr/lib/postgresql/15/bin")
_SETTINGS = {
    "wal_level": "logical",
    "max_replication_slots": "40",
    "max_wal_senders": "4",
    "listen_addresses": "'127.0.0.1'",
    "unix_socket_directories": "''",
    "fsync": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "logging_collector": "off",
}
PASSWORD = "a password of the tests"


class PostgresServer:
    """
    A server that was initialized.

    :param folder: the server's data.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()

    def initialize(self, locale: str = "C.UTF-8") -> None:
        self.folder.mkdir(parents=True)
        password = self.folder.with_suffix(".password")
        password.write_text(PASSWORD, encoding="utf-8")
        for path in (self.folder, password):
            _give(path)
        _run(
            "initdb",
            "--pgdata",
            self.folder,
            "--username=admin",
            "--auth=scram-sha-256",
            f"--pwfile={password}",
            "--encoding=UTF8",
            f"--locale={locale}",
            "--no-sync",
        )
        settings = "".join(f"{name} = {value}\n" for name, value in _SETTINGS.items())
        with (self.folder / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write(settings)

    def start(self, **settings: str) -> None:
        options = " ".join(["-p", str(self.port), *(f"-c {name}={value}" for name, value in settings.items())])
        _run("pg_ctl", "start", "--pgdata", self.folder, "--wait", "--options", options, "--log", self.log)

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    def stop(self) -> None:
        _run("pg_ctl", "stop", "--pgdata", self.folder, "--wait", "--mode=fast")

    def kill(self) -> None:
        """End all of the server's processes at once, as a crash of the machine would."""
        pid = int((self.folder / "postmaster.pid").read_text(encoding="utf-8").splitlines()[0])
        os.kill(pid, signal.SIGQUIT)
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(pid).wait(30)

    def uri(self, database: str = "postgres", user: str = "admin", password: str = PASSWORD) -> str:
        """Return a connection as Airflow writes it."""
        return f"postgres://{user}:{password.replace(' ', '%20')}@127.0.0.1:{self.port}/{database}"

    def connect(self, database: str = "postgres", **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            dbname=database,
            user="admin",
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
def postgres_server(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[PostgresServer]:
    """Initialize and start a server, and stop it at the end."""
    server = PostgresServer(folder)
    server.initialize()
    server.start(**(settings or {}))
    try:
        yield server
    finally:
        server.stop()


def _give(path: Path) -> None:
    """Give a path to the user that the server runs as: it refuses to run as root."""
    if os.geteuid() == 0:
        shutil.chown(path, "postgres", "postgres")


def _run(program: str, *arguments: object) -> None:
    user: dict[str, Any] = {}
    if os.geteuid() == 0:
        found = pwd.getpwnam("postgres")
        user = {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
    done = subprocess.run(
        [_BINARIES / program, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        stdin=subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
        **user,
    )
    if done.returncode:
        raise RuntimeError(f"{program} failed: {done.stderr or done.stdout}")
