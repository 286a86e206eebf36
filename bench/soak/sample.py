"""What is looked at after each epoch: seconds, the memory of both processes, and every table's files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import psutil

LOG = "_delta_log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """
    What lies in a table's folder.

    :param data: data files, those of deletion vectors and of change feeds, replaced ones too.
    :param log: files of the log, checkpoints too.
    """

    data: int
    data_bytes: int
    log: int
    log_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """
    Resident memory of a process.

    :param now: bytes now.
    :param peak: the most bytes so far.
    """

    now: int
    peak: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """
    One epoch, and what there is after it.

    :param reads: whether it read history; otherwise it kept a finished view fresh.
    :param inject_seconds: planning and pinning the barrier.
    :param run_seconds: executing and committing it.
    :param compact_seconds: looking whether the view is to be compacted, and doing it if so.
    :param live_bytes: what Java's heap holds after a collection; only asked for now and then.
    :param tables: the job's own tables by name: the view, and the control tables.
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
    """Return what the operating system counts of a process."""
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    peak = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
    return Memory(now=psutil.Process(process).memory_info().rss, peak=int(peak) * 1024)


def files_of(table: Path) -> Files:
    """Count what lies in a table's folder."""
    counts = {True: [0, 0], False: [0, 0]}
    for place, _, names in os.walk(table):
        counted = counts[LOG in Path(place).relative_to(table).parts]
        for name in names:
            counted[0] += 1
            counted[1] += (Path(place) / name).stat().st_size
    (data, data_bytes), (log, log_bytes) = counts[False], counts[True]
    return Files(data=data, data_bytes=data_bytes, log=log, log_bytes=log_bytes)
