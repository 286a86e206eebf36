"""
The stage of one contestant: a replay of the upstream's history, and a stopwatch that pauses for the writer.

The commits of a history are made once. A replay has links to all its data files and a separate log, which gets the
commits one by one, as from a live writer. That costs one link per commit, so every contestant in every round can have
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

    :param spark: the session that all contestants share.
    :param workload: the workload of the comparison.
    :param history: the upstream with all its commits.
    :param folder: the folder of this run, with the upstream, the view and everything else that the contestant needs.
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
        """Add the upstream's next commit with the stopwatch paused; return whether there was one."""
        with self._paused():
            if self._next == len(self._commits):
                return False
            commit = self._commits[self._next]
            # Spark's checksum beside each commit saves the next reader from computing the table's state.
            for written in (commit, commit.with_suffix(".crc")):
                if written.exists():
                    os.link(written, self.upstream / LOG / written.name)
            self._next += 1
            return True

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count the time of the block."""
        self._started = time.perf_counter()
        try:
            yield
        finally:
            self._stop()

    @contextmanager
    def step(self) -> Iterator[None]:
        """Also record the time of one of the contestant's steps, such as an epoch or a batch."""
        started = time.perf_counter()
        yield
        self.steps.append(time.perf_counter() - started)

    @contextmanager
    def _paused(self) -> Iterator[None]:
        was_timed = self._started is not None
        self._stop()
        yield
        if was_timed:
            self._started = time.perf_counter()

    def _stop(self) -> None:
        if self._started is not None:
            self.seconds += time.perf_counter() - self._started
            self._started = None


def _link(history: Path, upstream: Path) -> None:
    """Give a replay the history's data files, and an empty log."""
    for parent, _, files in os.walk(history):
        folder = upstream / Path(parent).relative_to(history)
        folder.mkdir(parents=True)
        if LOG not in folder.parts:
            for name in files:
                os.link(Path(parent, name), folder / name)
