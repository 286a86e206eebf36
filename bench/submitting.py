"""Submit Spark applications in separate processes, as Airflow's workers do."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from airflow_backfill_provider.applications.spark_settings import spark_conf, spark_environment

MASTER = "local[*]"


@dataclass(frozen=True, slots=True)
class Submission:
    """
    One application that has ended.

    :param begun_at: when it was submitted, in seconds since 1970.
    :param seconds: seconds from the submission to the end.
    :param cpu_seconds: its processor time.
    :param peak_bytes: the peak memory of its driver, including Java.
    """

    begun_at: float
    seconds: float
    cpu_seconds: float
    peak_bytes: int


def submit(application: Path, arguments: Sequence[str], conf: Mapping[str, str] | None = None) -> Submission:
    """
    Run an application on this machine.

    :param conf: Spark's configuration; by default that of this package.
    :raises RuntimeError: if it failed; the error has the end of its output.
    """
    settings = spark_conf(MASTER) if conf is None else conf
    options = [option for name, value in settings.items() for option in ("--conf", f"{name}={value}")]
    command = ["spark-submit", "--master", MASTER, *options, str(application), *arguments]
    with tempfile.TemporaryFile() as output:
        begun_at, started = time.time(), time.perf_counter()
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **spark_environment()}
        )
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            last = output.read().decode("utf-8", "replace")[-3000:]
            raise RuntimeError(f"{application.name} {' '.join(arguments)} failed: {last}")
    return Submission(begun_at, seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)
