"""Where the demo keeps its things, and how large it is."""

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
class Places:
    """
    The folder of one demo and what lies in it.

    :param folder: by default ``.demo`` in the checkout; each start begins with an empty one.
    """

    folder: Path

    @property
    def orders(self) -> Path:
        """The upstream table."""
        return self.folder / "lake" / "orders"

    @property
    def view(self) -> Path:
        """The materialized view."""
        return self.folder / "lake" / "active_orders"

    @property
    def jobs(self) -> Path:
        """Folder of the jobs' definitions."""
        return self.folder / "jobs"

    @property
    def job(self) -> Path:
        """The definition of the job that the story is about."""
        return self.jobs / "active_orders.yaml"

    @property
    def next_job(self) -> Path:
        """The definition of a job on that one's view."""
        return self.jobs / "express_orders.yaml"

    @property
    def airflow_home(self) -> Path:
        """Airflow's database, configuration and task logs."""
        return self.folder / "airflow"

    @property
    def logs(self) -> Path:
        """What the processes print."""
        return self.folder / "logs"

    @property
    def writer_report(self) -> Path:
        """What the writer has done so far."""
        return self.folder / "writer.json"


@dataclass(frozen=True, slots=True)
class Size:
    """
    How much there is to do.

    :param rows: rows of the upstream.
    :param rate_limit: snapshot rows an epoch.
    :param epochs_per_run: barriers that one run of the DAG carries.
    :param pause: seconds between two commits of the writer.
    """

    rows: int
    rate_limit: int
    epochs_per_run: int
    pause: float


def size_from_environment(rows: int = 2_000_000) -> Size:
    """
    Read ``DEMO_ROWS``, ``DEMO_RATE_LIMIT``, ``DEMO_EPOCHS_PER_RUN`` and ``DEMO_COMMIT_SECONDS``.

    :param rows: how many there are unless ``DEMO_ROWS`` says something else.
    :raises DemoError: if one is no number of a sensible size.
    """
    rows = int(_number("DEMO_ROWS", rows, least=1000))
    return Size(
        rows=rows,
        # Not quite a fourth, because the writer adds orders meanwhile: four epochs, not four and a crumb.
        rate_limit=int(_number("DEMO_RATE_LIMIT", rows * 0.28, least=1)),
        epochs_per_run=int(_number("DEMO_EPOCHS_PER_RUN", 2, least=1)),
        pause=_number("DEMO_COMMIT_SECONDS", 1.5, least=0.0),
    )


def _number(variable: str, default: float, *, least: float) -> float:
    written = os.environ.get(variable, "").replace("_", "")
    try:
        value = float(written) if written else default
    except ValueError:
        value = -1.0
    if value < least:
        raise DemoError(f"{variable} is {os.environ[variable]!r}; give a number from {least:g} on")
    return value


@contextmanager
def fresh_places() -> Iterator[Places]:
    """
    Empty the demo's folder and hold it until the block ends.

    :raises DemoError: if another demo runs in it, or it holds what no demo made.
    """
    folder = Path(os.environ.get("DEMO_FOLDER") or CHECKOUT / ".demo").resolve()
    if folder.exists() and any(folder.iterdir()) and not (folder / _MARK).exists():
        raise DemoError(f"{folder} holds something that no demo made; set DEMO_FOLDER to another")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _MARK).open("a") as mark:
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DemoError(f"another demo runs in {folder}; wait for it, or set DEMO_FOLDER to another") from None
        for entry in folder.iterdir():
            if entry.name != _MARK:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        places = Places(folder)
        places.logs.mkdir()
        yield places


def program(name: str) -> str:
    """Return a program of this environment as somebody in the current folder would type it."""
    path = Path(sys.executable).parent / name
    return str(shown(path)) if path.exists() else name


def shown(path: Path) -> Path:
    """Return a path as short as it can be written from the current folder."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
