"""
Where the time of one warm epoch goes: its Spark jobs, and what the program waits for.

``make bench ARGS=groups_profile`` and ``ARGS=joins_profile`` change a table a few times, let views follow, and look at
the last epoch of each.

A thread looks at the main thread's stack all the time. Spark's event log has the jobs. A job belongs to the line of
this package that the main thread was at when it began.
"""

from __future__ import annotations

import bisect
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import airflow_backfill_provider
from airflow_backfill_provider.applications.spark_session import start_session
from airflow_backfill_provider.engine.spark_engine import SparkEngine
from bench.kept_view import KeptView
from bench.race import MEMORY, ROUNDS, is_contestant

_PACKAGE = Path(airflow_backfill_provider.__file__).parent
_INTERVAL_SECONDS = 0.005
_FRAMES = 3
"""How many of the innermost lines of this package name a place."""

_MEBIBYTE = 2**20


def report_last_epochs(
    console: Console,
    made: Callable[[SparkSession, Path], Sequence[KeptView]],
    change: Callable[[SparkSession, Path, int], None],
) -> None:
    """
    Load views, change what they read a few times, and print where the time of each view's last epochs went.

    :param made: makes tables in a folder, and returns the views over them.
    :param change: changes the tables; its last argument counts from 1.
    """
    with tempfile.TemporaryDirectory(prefix="backfill-bench-") as name:
        folder, log = Path(name), Path(name, "events")
        log.mkdir()
        spark = start_session("bench", conf={"spark.driver.memory": MEMORY, **_event_log(log)})
        engine = SparkEngine(spark)
        views = [view for view in made(spark, folder) if is_contestant(view.kind)]
        for view in views:
            view.folder.mkdir()
            view.load(engine)
        profiles: list[Profile] = []
        for number in range(ROUNDS):
            change(spark, folder, number + 1)
            profiles = [Profile.of(view, engine) for view in views]
        # The end of the session writes what is left of the log.
        spark.stop()
        jobs = jobs_of(next(log.iterdir()))
    for profile in profiles:
        profile.report(console, jobs)


def _event_log(folder: Path) -> dict[str, str]:
    """Return the configuration with which Spark writes its event log into a folder."""
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }


@dataclass(frozen=True, slots=True)
class Sample:
    """
    Where the main thread was.

    :param at: the instant, in seconds since 1970.
    :param place: the innermost lines of this package.
    """

    at: float
    place: str


class Sampler:
    """Looks at the main thread's stack until it is stopped."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Look during the block."""
        self._thread.start()
        try:
            yield
        finally:
            self._ended.set()
            self._thread.join()

    def _look(self) -> None:
        main = threading.main_thread().ident
        while not self._ended.wait(_INTERVAL_SECONDS):
            frame = sys._current_frames().get(main or 0)  # noqa: SLF001 - the interpreter has no other way
            self.samples.append(Sample(time.time(), _place(frame)))


def _place(frame: FrameType | None) -> str:
    found: list[str] = []
    while frame is not None and len(found) < _FRAMES:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(_PACKAGE):
            found.append(f"{path.stem}.{frame.f_code.co_name}:{frame.f_lineno}")
        frame = frame.f_back
    return " < ".join(found)


@dataclass(frozen=True, slots=True)
class Job:
    """
    A job of Spark.

    :param what: what Spark or Delta says of it.
    :param began: in seconds since 1970, as ``ended``.
    :param tasks: its tasks.
    :param read: bytes that its tasks read from tables, as far as Spark counts them.
    :param rows: the rows that they read.
    :param shuffled: bytes that they wrote for other tasks.
    """

    number: int
    what: str
    began: float
    ended: float
    tasks: int
    read: int
    rows: int
    shuffled: int


def jobs_of(log: Path) -> list[Job]:
    """Return the jobs in an event log."""
    started: dict[int, float] = {}
    named: dict[int, str] = {}
    ended: dict[int, float] = {}
    stages: dict[int, int] = {}
    sums: dict[int, Counter[str]] = {}
    for line in log.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        match event["Event"]:
            case "SparkListenerJobStart":
                started[event["Job ID"]] = event["Submission Time"] / 1000
                named[event["Job ID"]] = _what(event)
                stages.update(dict.fromkeys(event["Stage IDs"], event["Job ID"]))
            case "SparkListenerJobEnd":
                ended[event["Job ID"]] = event["Completion Time"] / 1000
            case "SparkListenerTaskEnd":
                job = stages[event["Stage ID"]]
                sums.setdefault(job, Counter()).update(_of_task(event.get("Task Metrics") or {}))
    return [
        Job(number, named[number], began, ended[number], *(sums.get(number, Counter())[name] for name in _MEASURED))
        for number, began in started.items()
        if number in ended
    ]


_MEASURED = ("tasks", "read", "rows", "shuffled")


def _what(event: Mapping[str, Any]) -> str:
    """Return what the description of a job says, or the name of its last stage."""
    said = event["Properties"].get("spark.job.description") or event["Stage Infos"][-1]["Stage Name"]
    return str(said).strip().splitlines()[0]


def _of_task(metrics: Mapping[str, Any]) -> dict[str, int]:
    read, written = metrics.get("Input Metrics", {}), metrics.get("Shuffle Write Metrics", {})
    return {
        "tasks": 1,
        "read": read.get("Bytes Read", 0),
        "rows": read.get("Records Read", 0),
        "shuffled": written.get("Shuffle Bytes Written", 0),
    }


@dataclass(frozen=True, slots=True)
class Profile:
    """
    What happened while a view was brought up to date.

    :param name: what was measured.
    :param began: in seconds since 1970, as ``ended``.
    """

    name: str
    began: float
    ended: float
    samples: list[Sample]

    @classmethod
    def of(cls, view: KeptView, engine: SparkEngine) -> Profile:
        """Bring a view up to date, and look meanwhile."""
        sampler, began = Sampler(), time.time()
        with sampler.running():
            view.run_epochs(engine)
        return cls(view.kind, began, time.time(), sampler.samples)

    def report(self, console: Console, jobs: list[Job]) -> None:
        """Print the jobs, and the places with the time that they took."""
        ours = [job for job in jobs if self.began <= job.began <= self.ended]
        in_jobs = _covered([(job.began, min(job.ended, self.ended)) for job in ours])
        seconds = self.ended - self.began
        console.print(f"{self.name}: {seconds:.2f} s, {len(ours)} jobs, which cover {in_jobs:.2f} s")
        table = Table("job", "at", "seconds", "tasks", "MB read", "rows read", "MB shuffled", "what", "place")
        for job in ours:
            table.add_row(
                str(job.number),
                f"{job.began - self.began:.2f}",
                f"{job.ended - job.began:.2f}",
                str(job.tasks),
                f"{job.read / _MEBIBYTE:.1f}",
                f"{job.rows:,}",
                f"{job.shuffled / _MEBIBYTE:.1f}",
                job.what,
                self._place_at(job.began),
            )
        console.print(table)
        spent = Table("seconds", "in jobs", "place")
        for place, took, busy in self._places(ours):
            spent.add_row(f"{took:.2f}", f"{busy:.2f}", place)
        console.print(spent)

    def _place_at(self, at: float) -> str:
        instants = [sample.at for sample in self.samples]
        return self.samples[max(bisect.bisect(instants, at) - 1, 0)].place if instants else ""

    def _places(self, jobs: list[Job]) -> list[tuple[str, float, float]]:
        """Return each place that took a hundredth of the time or more: its seconds, and those in which jobs ran."""
        took: Counter[str] = Counter()
        busy: Counter[str] = Counter()
        before = self.began
        for sample in self.samples:
            spent = sample.at - before
            took[sample.place] += spent  # type: ignore[assignment]
            if any(job.began <= sample.at <= job.ended for job in jobs):
                busy[sample.place] += spent  # type: ignore[assignment]
            before = sample.at
        least = (self.ended - self.began) / 100
        return [(place, seconds, busy[place]) for place, seconds in took.most_common() if seconds >= least]


def _covered(spans: list[tuple[float, float]]) -> float:
    """Return how many seconds lie within any of some spans."""
    total, reached = 0.0, 0.0
    for began, ended in sorted(spans):
        total += max(ended - max(began, reached), 0.0)
        reached = max(reached, ended)
    return total
