"""The sample after each epoch: seconds, the memory of both processes, and every table's files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import psutil

LOG = "_delta_log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """
    The files in a table's folder.

    :param data: the number of data files, with those of deletion vectors and change feeds, and replaced ones.
    :param log: the number of files of the log, with checkpoints.
    """

    data: int
    data_bytes: int
    log: int
    log_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """
    The resident memory of a process.

    :param now: the current number of bytes.
    :param peak: the largest number of bytes so far.
    """

    now: int
    peak: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """
    One epoch, and the state of processes and tables after it.

    :param reads: whether it read history; otherwise it kept a finished view fresh.
    :param inject_seconds: planning and pinning the barrier.
    :param run_seconds: executing and committing it.
    :param compact_seconds: checking whether the view is due for compaction, and compacting it if so.
    :param live_bytes: the bytes in Java's heap after a garbage collection; only measured now and then.
    :param tables: the job's tables by name: the view, and the control tables.
    """

    epoch: int
    reads: bool
    inject_seconds: float
    run_seconds: float
    compact_seconds: float
    python: Memory
    java: Memory
    live_bytes: int | None
    tables: dict[str, Files]


def memory_of(process: int) -> Memory:
    """Return the memory of a process, as the operating system counts it."""
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    peak = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
    return Memory(now=psutil.Process(process).memory_info().rss, peak=int(peak) * 1024)


def files_of(table: Path) -> Files:
    """Count the files in a table's folder."""
    counts = {True: [0, 0], False: [0, 0]}
    for parent, _, names in os.walk(table):
        counted = counts[LOG in Path(parent).relative_to(table).parts]
        for name in names:
            counted[0] += 1
            counted[1] += (Path(parent) / name).stat().st_size
    (data, data_bytes), (log, log_bytes) = counts[False], counts[True]
    return Files(data=data, data_bytes=data_bytes, log=log, log_bytes=log_bytes)
