"""Faults of the machine: clocks, task runs at the same time, the network and the disk."""

from __future__ import annotations

import datetime as dt
import json
import random
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

from airflow_backfill_provider import protocol
from airflow_backfill_provider.core.errors import BackfillError, StorageUnavailableError
from airflow_backfill_provider.core.job.definition import BackfillJob
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.jobs.backfill import Backfill
from airflow_backfill_provider.sources.delta.versions import version_of
from faults.campaign import WrongError
from faults.classes.fault import Fault, adding_to
from faults.table_shapes import change
from tests.integration.engine.lakehouse import Lakehouse, UnlockedEngine

FAULTS: dict[str, Fault] = {}
fault = adding_to(FAULTS)


@fault("clocks are wrong")
def _skew(lakehouse: Lakehouse, random: random.Random) -> None:
    """Write commits from the future and the past, and inject with clocks that jump."""
    store = lakehouse.backfill.store
    settings = store.settings()
    newest = store.newest_barrier(settings)
    reached = version_of(newest.upstream.to_offset if newest else settings.first_offset)
    change(lakehouse, random, 2)
    for file in (Path(lakehouse.upstream_path) / "_delta_log").glob("*.json"):
        if int(file.stem) <= reached:
            # The job would refuse a version that it has reached and that now has another time.
            continue
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        for line in lines:
            if "commitInfo" in line:
                line["commitInfo"]["timestamp"] += random.randint(-(10**9), 10**9)
        (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
        file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    backfill = lakehouse.backfill
    for hours in (-1000, 1000):
        instant = dt.datetime.now(dt.UTC) + dt.timedelta(hours=hours)
        done = protocol.inject_barrier(
            store=store,
            upstream=backfill.upstream,
            requester=Requester(user="skewed"),
            clock=lambda instant=instant: instant,  # type: ignore[misc]
        )
        if done.barrier is not None and done.commit is None:
            lakehouse.run(done.barrier)


@fault("two runs at once")
def _two_runs(lakehouse: Lakehouse, random: random.Random) -> None:
    change(lakehouse, random, 2)
    _together(*[lambda: _epochs(lakehouse, 2)] * 2)


@fault("another process writes to the upstream all the time")
def _busy_upstream(lakehouse: Lakehouse, random: random.Random) -> None:
    _together(lambda: _epochs(lakehouse, 3), lambda: change(lakehouse, random, 4))


def _epochs(lakehouse: Lakehouse, times: int) -> None:
    mine = Lakehouse(lakehouse.spark, lakehouse.folder)
    mine.job, mine.engine = lakehouse.job, UnlockedEngine(lakehouse.spark.newSession())
    for _ in range(times):
        mine.epoch()


def _together(*works: Callable[[], object]) -> None:
    errors: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - looked at below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=600)
    for error in errors:
        # A task run may be refused because the other one was faster. The tables must be right all the same.
        if not isinstance(error, BackfillError):
            raise WrongError(f"a run ended by {error!r}") from error


@fault("the network is gone")
def _no_network(lakehouse: Lakehouse, _: random.Random) -> None:
    assert lakehouse.job is not None
    options = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": "a secret",
        "AWS_REGION": "us-east-1",
        "max_retries": "0",
    }
    fields = lakehouse.job.model_dump(mode="json")
    away = {**fields, "state": "s3://bucket/state", "materialized_view": "s3://bucket/view"}
    backfill = Backfill(BackfillJob(**away), options)
    for look in (backfill.settings, backfill.status, backfill.store.state):
        try:
            look()
        except StorageUnavailableError as error:
            if "a secret" in str(error):
                raise WrongError(f"a secret shows: {error}") from error
        else:
            raise WrongError("something answered where there is no network")


@fault("a disk is full")
def _disk_full(lakehouse: Lakehouse, random: random.Random) -> None:
    """Mount a small disk at the view's folder. If mounting is not allowed, the fault does nothing."""
    change(lakehouse, random, 1)
    aside = lakehouse.folder / "view aside"
    shutil.move(lakehouse.view_path, aside)
    Path(lakehouse.view_path).mkdir()
    used = sum(file.stat().st_size for file in aside.rglob("*") if file.is_file())
    blocks = sum(-(-file.stat().st_size // 4096) for file in aside.rglob("*") if file.is_file())
    mounted = not subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={(blocks + 4) * 4096}", "tmpfs", lakehouse.view_path],  # noqa: S607
        capture_output=True,
        check=False,
    ).returncode
    shutil.copytree(aside, lakehouse.view_path, dirs_exist_ok=True)
    if not mounted:
        return
    try:
        lakehouse.epoch()
    except BackfillError as error:
        if not error.retryable:
            raise WrongError(f"a full disk ({used} bytes used) is said to be for good: {error}") from error
    finally:
        _unmount(lakehouse)


def _unmount(lakehouse: Lakehouse) -> None:
    """Give the view more room: move its files to a folder on the disk below."""
    left = lakehouse.folder / "view left"
    shutil.copytree(lakehouse.view_path, left)
    subprocess.run(["umount", lakehouse.view_path], check=True, capture_output=True)  # noqa: S607
    shutil.rmtree(lakehouse.view_path)
    shutil.move(left, lakehouse.view_path)
