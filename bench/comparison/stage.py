"""
Where one contestant runs: a replay of the upstream's history, and a stopwatch that stops while the writer writes.

The commits of a history were made once. A replay has links to all its data files and a log of its own, to which the
commits come one by one, as a live writer would add them; that costs a link, so every contestant in every round meets
the very same upstream.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from bench.comparison.workload import Workload

LOG = "_delta_log"


class Stage:
    """
    One run of one contestant.

    :param spark: the session that lives on between contestants.
    :param workload: what is compared on.
    :param history: the upstream with all its commits.
    :param folder: of this run alone; the upstream, the view and whatever else the contestant needs lie in it.
    """

    def __init__(self, spark: SparkSession, workload: Workload, history: Path, folder: Path) -> None:
        self.spark = spark
        self.workload = workload
        self.folder = folder
        self.upstream = folder / "upstream"
        self.view = folder / "view"
        self.seconds = 0.0
        self.steps: list[float] = []
        self._started: float | None = None
        self._commits = sorted((history / LOG).glob("*.json"))
        _link(history, self.upstream)
        self._next = 0
        self.commit()

    def commit(self) -> bool:
        """Let the upstream's next commit happen, not counted; returns whether there was one."""
        with self._paused():
            if self._next == len(self._commits):
                return False
            commit = self._commits[self._next]
            # Spark writes a checksum beside each commit, which spares the next reader to work out the table's state.
            for written in (commit, commit.with_suffix(".crc")):
                if written.exists():
                    os.link(written, self.upstream / LOG / written.name)
            self._next += 1
            return True

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the time of the block."""
        self._started = time.perf_counter()
        try:
            yield
        finally:
            self._stop()

    @contextmanager
    def step(self) -> Iterator[None]:
        """Keep the time of one of the contestant's steps as well; an epoch, a batch."""
        started = time.perf_counter()
        yield
        self.steps.append(time.perf_counter() - started)

    @contextmanager
    def _paused(self) -> Iterator[None]:
        was_running = self._started is not None
        self._stop()
        yield
        if was_running:
            self._started = time.perf_counter()

    def _stop(self) -> None:
        if self._started is not None:
            self.seconds += time.perf_counter() - self._started
            self._started = None


def _link(history: Path, upstream: Path) -> None:
    """Give a replay the history's data files, and an empty log."""
    for place, _, files in os.walk(history):
        folder = upstream / Path(place).relative_to(history)
        folder.mkdir(parents=True)
        if LOG not in folder.parts:
            for name in files:
                os.link(Path(place, name), folder / name)
