"""
Inject a barrier in a separate process, to measure its memory: ``python -m bench.injection STATE``.

It prints the seconds and the processor seconds of the injection, and the peak memory of the process in bytes.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.jobs.backfill import Backfill

if __name__ == "__main__":
    backfill = Backfill.at(sys.argv[1])
    started, cpu_started = time.perf_counter(), time.process_time()
    injection = protocol.inject_barrier(
        store=backfill.store, upstream=backfill.upstream, requester=Requester(user="bench")
    )
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
    assert injection.barrier is not None
    # getrusage also counts the memory of the process that this one was forked from.
    status = dict(line.split(":\t") for line in Path("/proc/self/status").read_text().splitlines())
    peak = int(status["VmHWM"].split()[0]) * 1024
    print(json.dumps({"seconds": seconds, "cpu_seconds": cpu_seconds, "peak_bytes": peak}))
