"""
Drivers that commit to one table in a bucket at the same instant: two Sparks in processes of their own, and delta-rs.

Meanwhile a proxy refuses some requests, loses the answers of others, and lets others wait. At the end each row must be
there once, and each commit of Spark must be one version of the log.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from airflow_backfill_provider.applications.spark_settings import storage_options_to_environment
from faults import store_driver
from faults.campaign import Campaign, Outcome, Play, WrongError
from tests.integration.s3.proxy import FailingProxy
from tests.integration.s3.server import running_s3

ROUNDS = 15
"""The commits of each driver in a case."""

RUST = "delta-rs"
ROOT = Path(__file__).parents[1]
SCHEMA = pa.schema([("driver", pa.string()), ("number", pa.int32())])


class Driver:
    """
    A Spark in a process of its own.

    :param name: its name.
    :param options: options of the object store.
    """

    def __init__(self, name: str, options: Mapping[str, str]) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, store_driver.__file__, name],
            env={**os.environ, "PYTHONPATH": str(ROOT), **storage_options_to_environment(options)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def wait(self) -> dict[str, Any]:
        """Return its next answer."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise WrongError(f"driver {self.name} died")
        found: dict[str, Any] = json.loads(line)
        return found

    def append(self, path: str, number: int) -> None:
        """Let it append a row."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"path": path, "number": number}) + "\n")
        self._process.stdin.flush()

    def stop(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


def play(drivers: list[Driver], proxy: FailingProxy, case: int, chance: random.Random) -> Outcome:
    """Let all drivers commit at once, again and again, and compare."""
    path, options = f"{proxy.root}/case-{case}", proxy.storage_options
    DeltaTable.create(path, SCHEMA, storage_options=options)
    failures: list[str] = []
    tries = 0
    with proxy.failing_at_random(chance):
        for number in range(ROUNDS):
            rust = threading.Thread(target=_append_with_rust, args=(path, number, options, failures))
            rust.start()
            for driver in drivers:
                driver.append(path, number)
            for driver in drivers:
                answer = driver.wait()
                tries += answer.get("tries", 0)
                failures += [f"{driver.name}: {answer['failed']}"] if "failed" in answer else []
            rust.join()
    if failures:
        raise WrongError(f"commits that never succeeded: {failures[:3]}")
    table = DeltaTable(path, storage_options=proxy.s3.storage_options)
    found = sorted((row["driver"], row["number"]) for row in table.to_pyarrow_table().to_pylist())
    names = [RUST, *(driver.name for driver in drivers)]
    expected = sorted((name, number) for name in names for number in range(ROUNDS))
    if found != expected:
        lost, doubled = len(set(expected) - set(found)), len(found) - len(set(found))
        raise WrongError(f"{lost} rows of acknowledged commits are lost, {doubled} are there twice")
    # delta-rs commits the same files once more if an answer is lost, which changes nothing.
    of_spark = [commit for commit in table.history() if "Spark" in str(commit.get("engineInfo"))]
    if len(of_spark) != ROUNDS * len(drivers):
        raise WrongError(f"{len(of_spark)} versions for {ROUNDS * len(drivers)} commits of Spark")
    about = ", ".join(f"{count} × {what}" for what, count in sorted(proxy.failures().items()))
    return Outcome(checks=len(expected), about=f"{tries} tries of Spark; {about}")


def _append_with_rust(path: str, number: int, options: dict[str, str], failures: list[str]) -> None:
    row = pa.Table.from_pylist([{"driver": RUST, "number": number}], SCHEMA)
    for _ in range(store_driver.MOST_TRIES):
        try:
            # delta-rs has no transactions that an append would look for.
            rows = DeltaTable(path, storage_options=options).to_pyarrow_table().to_pylist()
            if {"driver": RUST, "number": number} not in rows:
                write_deltalake(path, row, mode="append", storage_options=options)
        except Exception as error:  # noqa: BLE001 - whatever fails is tried again
            reason = f"{type(error).__name__}: {error}"[:300]
        else:
            return
    failures.append(f"{RUST}: {reason}")


@contextmanager
def _stage() -> Iterator[Play]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="backfill-faults-")))
        server = stack.enter_context(running_s3(folder))
        proxy = stack.enter_context(FailingProxy(server).running())
        drivers = [Driver(name, proxy.storage_options) for name in ("first", "second")]
        for driver in drivers:
            stack.callback(driver.stop)
        for driver in drivers:
            driver.wait()
        yield lambda case, chance: play(drivers, proxy, case, chance)


CAMPAIGN = Campaign(
    name="store",
    about="two Sparks and delta-rs commit to one table in a bucket at the same instants, while requests fail",
    quick=2,
    full=40,
    checks="commits",
    stage=_stage,
)
