"""
A PostgreSQL server in a folder: on loopback, for logical replication, and never as root, as which it refuses to run.

The demo and the tests use it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from demo.folder import DemoError

BINARIES = Path(os.environ.get("DEMO_POSTGRES_BIN") or "/usr/lib/postgresql/15/bin")
"""The folder of the server's programs. ``scripts/install_postgres.sh`` knows the same default and variable."""

HOST = "127.0.0.1"
SUPERUSER = "admin"

_ACCOUNT = "postgres"
"""The user that the server runs as instead of root; Debian's package makes it."""

_SETTINGS = {
    "wal_level": "logical",
    "listen_addresses": f"'{HOST}'",
    "unix_socket_directories": "''",
    # The data is made anew each time, so it need not outlive a crash of the machine.
    "fsync": "off",
    "full_page_writes": "off",
    "logging_collector": "off",
}


class Cluster:
    """
    The data of a server.

    :param folder: the data.
    :param port: where the server listens.
    :param password: the password of the superuser.
    :param settings: further settings of the server.
    """

    def __init__(self, folder: Path, port: int, password: str, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.port = port
        self.password = password
        self._settings = {**_SETTINGS, **(settings or {})}

    def initialize(self, locale: str = "C.UTF-8") -> None:
        """
        Make the data.

        :param locale: the locale of the databases.
        :raises DemoError: if that fails.
        """
        self.folder.mkdir(parents=True)
        give(self.folder)
        with _secret_file(self.folder.with_suffix(".password"), self.password) as password:
            run_program(
                "initdb",
                "--pgdata",
                self.folder,
                f"--username={SUPERUSER}",
                "--auth=scram-sha-256",
                f"--pwfile={password}",
                "--encoding=UTF8",
                f"--locale={locale}",
                "--no-sync",
            )
        lines = "".join(f"{name} = {value}\n" for name, value in self._settings.items())
        with (self.folder / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write(lines)

    @property
    def server(self) -> list[str]:
        """The command that runs the server in the foreground."""
        return as_other_than_root([str(BINARIES / "postgres"), "-D", str(self.folder), "-p", str(self.port)])

    def answers(self) -> bool:
        """Return whether the server runs and accepts connections."""
        asked = [str(BINARIES / "pg_isready"), "--quiet", "--host", HOST, "--port", str(self.port)]
        return subprocess.run(asked, check=False).returncode == 0

    def uri(self, database: str = "postgres", user: str = SUPERUSER, password: str | None = None) -> str:
        """Return a connection as Airflow writes it."""
        secret = quote(self.password if password is None else password, safe="")
        return f"postgres://{user}:{secret}@{HOST}:{self.port}/{database}"


def run_program(name: str, *arguments: object) -> None:
    """
    Run one of PostgreSQL's programs.

    :raises DemoError: if it fails, with its output.
    """
    done = subprocess.run(
        as_other_than_root([str(BINARIES / name), *map(str, arguments)]),
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
    )
    if done.returncode:
        raise DemoError(f"{name} failed: {(done.stderr or done.stdout).strip()}")


def as_other_than_root(command: Sequence[str]) -> list[str]:
    """Return a command that runs another one as a user that is not root; the working directory is one it may enter."""
    if os.geteuid() != 0:
        return list(command)
    user = ["setpriv", f"--reuid={_ACCOUNT}", f"--regid={_ACCOUNT}", "--clear-groups"]
    return [*user, "env", "--chdir=/", *command]


def may_enter(folder: Path) -> bool:
    """Return whether the server's user may enter a folder; not if it lies in root's home, for example."""
    return subprocess.run(as_other_than_root(["test", "-x", str(folder)]), check=False).returncode == 0


def require_programs() -> None:
    """
    Check that PostgreSQL is there.

    :raises DemoError: with what to do.
    """
    if not os.access(BINARIES / "initdb", os.X_OK):
        raise DemoError(
            f"PostgreSQL 15 is needed, and {BINARIES} has no initdb; run scripts/install_postgres.sh, which says what "
            "it does"
        )
    if os.geteuid() == 0 and _ACCOUNT not in {account.pw_name for account in pwd.getpwall()}:
        raise DemoError(
            f"PostgreSQL refuses to run as root, and there is no user {_ACCOUNT} to run it as; run: useradd --system "
            f"{_ACCOUNT}, or run the demo as another user than root"
        )


@contextmanager
def _secret_file(path: Path, secret: str) -> Iterator[Path]:
    """Write a file that only the server's user can read, until the block ends."""
    with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(secret)
    try:
        give(path)
        yield path
    finally:
        path.unlink()


def give(path: Path) -> None:
    """Give a path to the server's user."""
    if os.geteuid() == 0:
        shutil.chown(path, _ACCOUNT, _ACCOUNT)
