"""The folder of the demo, and its size."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
_MARK = ".made-by-demo"


class DemoError(Exception):
    """The demo cannot go on; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class DemoFolder:
    """
    The folder of one demo and its content.

    :param path: by default in the checkout; each start empties it.
    :param bucket: the URI of the bucket in which the tables lie, if they do not lie in the folder.
    """

    path: Path
    bucket: str = ""

    @property
    def orders(self) -> str:
        """The upstream, if it is a Delta table."""
        return self.table("orders")

    @property
    def view(self) -> str:
        """The materialized view."""
        return self.table("active_orders")

    def table(self, name: str) -> str:
        """Return the location of a table."""
        return f"{self.bucket or self.path}/lake/{name}"

    @property
    def jobs(self) -> Path:
        """The folder of the jobs' definitions."""
        return self.path / "jobs"

    @property
    def job(self) -> Path:
        """The definition of the demo's job."""
        return self.jobs / "active_orders.yaml"

    @property
    def next_job(self) -> Path:
        """The definition of a job on the view of that job."""
        return self.jobs / "express_orders.yaml"

    @property
    def airflow_home(self) -> Path:
        """Airflow's database, configuration and task logs."""
        return self.path / "airflow"

    @property
    def logs(self) -> Path:
        """The folder with the output of the processes."""
        return self.path / "logs"

    @property
    def writer_report(self) -> Path:
        """The file with the writer's counts."""
        return self.path / "writer.json"


@dataclass(frozen=True, slots=True)
class Size:
    """
    The size of the demo.

    :param rows: rows of the upstream.
    :param rate_limit: snapshot rows per epoch.
    :param epochs_per_run: epochs per DAG run.
    """

    rows: int
    rate_limit: int
    epochs_per_run: int


def size_from_environment(rows: int = 2_000_000) -> Size:
    """
    Read ``DEMO_ROWS``, ``DEMO_RATE_LIMIT`` and ``DEMO_EPOCHS_PER_RUN``.

    :param rows: the default of ``DEMO_ROWS``.
    :raises DemoError: if one is not a number, or too small.
    """
    rows = int(number_from_environment("DEMO_ROWS", rows, least=1000))
    return Size(
        rows=rows,
        # A bit more than a fourth, because the writer adds orders meanwhile, and four epochs should be enough.
        rate_limit=int(number_from_environment("DEMO_RATE_LIMIT", rows * 0.28, least=1)),
        epochs_per_run=int(number_from_environment("DEMO_EPOCHS_PER_RUN", 2, least=1)),
    )


def number_from_environment(variable: str, default: float, *, least: float) -> float:
    """
    Read a number.

    :raises DemoError: if it is not a number, or too small.
    """
    written = os.environ.get(variable, "").replace("_", "")
    try:
        value = float(written) if written else default
    except ValueError:
        value = -1.0
    if value < least:
        raise DemoError(f"{variable} is {os.environ[variable]!r}; give a number, at least {least:g}")
    return value


@contextmanager
def fresh_folder(name: str) -> Iterator[DemoFolder]:
    """
    Empty the demo's folder and lock it until the block ends.

    :param name: the folder's name in the checkout, unless ``DEMO_FOLDER`` is set.
    :raises DemoError: if another demo runs in it, or no demo made its content.
    """
    path = Path(os.environ.get("DEMO_FOLDER") or CHECKOUT / name).resolve()
    if path.exists() and any(path.iterdir()) and not (path / _MARK).exists():
        raise DemoError(f"{path} holds something that no demo made; set DEMO_FOLDER to another folder")
    path.mkdir(parents=True, exist_ok=True)
    with (path / _MARK).open("a") as mark:
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DemoError(f"another demo runs in {path}; wait for it, or set DEMO_FOLDER to another folder") from None
        for entry in path.iterdir():
            if entry.name != _MARK:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        folder = DemoFolder(path)
        folder.logs.mkdir()
        yield folder


def program(name: str) -> str:
    """Return a program of this environment as a user in the current folder would type it."""
    path = Path(sys.executable).parent / name
    return short_path(path) if path.exists() else name


def short_path(path: Path | str) -> str:
    """Return a path relative to the current folder, if it lies in it; a URI stays as it is."""
    if "://" in str(path):
        return str(path)
    path = Path(path)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
