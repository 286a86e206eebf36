"""The hook and the operators against the real spark-submit."""

from __future__ import annotations

import asyncio
import io
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from airflow.triggers.base import BaseTrigger

from airflow_backfill_provider.hooks import spark_application
from airflow_backfill_provider.hooks.spark_application import SparkApplicationHook
from airflow_backfill_provider.hooks.watched_output import WatchedOutput
from airflow_backfill_provider.operators.epoch import RunEpochOperator
from airflow_backfill_provider.operators.job import CreateBackfillJobOperator
from tests.integration.airflow.orders import Orders
from tests.unit.stand_in import context
from tests.waiting import start_waiting

pytestmark = [pytest.mark.airflow, pytest.mark.spark]

BUSY = """
import sys, time
from pathlib import Path
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.range(1).collect()
Path(sys.argv[1]).touch()
spark.range(0, 10**15, 1, 2).selectExpr("sum(id % 7)").collect()
"""


@pytest.mark.exhaustive
def test_killing_the_task_ends_jvm_and_python(tmp_path: Path, monkeypatch):
    busy, started = tmp_path / "busy.py", tmp_path / "started"
    busy.write_text(BUSY, encoding="utf-8")
    monkeypatch.setattr(spark_application, "application_path", lambda _: busy)
    hook = SparkApplicationHook(name="busy")
    output = WatchedOutput(io.StringIO(), "a buffer", lambda _: None)
    thread, failures = start_waiting(lambda: hook.run("busy.py", [str(started)], output), started, seconds=180)
    assert hook._submit_sp is not None
    group = processes_of_group(hook._submit_sp.pid)
    assert len(group) >= 2, "the JVM, and the Python that it started"

    begun = time.monotonic()
    hook.on_kill()
    thread.join(timeout=10)

    assert time.monotonic() - begun < 4.5, "Airflow kills the task itself after five seconds"
    assert not thread.is_alive()
    assert len(failures) == 1
    assert not isinstance(failures[0], AirflowFailException), "a killed try may be followed by another"
    assert processes_of_group(hook._submit_sp.pid) == []


@pytest.mark.exhaustive
def test_a_query_that_spark_refuses_fails_the_task_for_good_and_says_why(orders: Orders):
    definition = orders.define(name="wrong", query="SELECT order_id, no_such_column FROM upstream")

    create = CreateBackfillJobOperator(task_id="create", job=definition)
    with pytest.raises(TaskDeferred) as waiting:
        create.execute(context("create"))
    event = asyncio.run(first_event(waiting.value.trigger))
    with pytest.raises(AirflowFailException, match="no_such_column") as error:
        create.resume(context("create"), event)

    assert "\n" not in str(error.value)
    assert not Path(orders.backfill.job.state).exists()


@pytest.mark.exhaustive
def test_one_application_runs_several_epochs_and_ends_when_nothing_is_left(orders: Orders, capfd):
    """I1, I4: three epochs on the worker, then the rest without it; each application starts Spark once."""
    definition = orders.define(name="several", rate_limit=20)
    create = CreateBackfillJobOperator(task_id="create", job=definition, deferrable=False)
    create.execute(context("create"))

    def operator(**arguments: Any) -> RunEpochOperator:
        return RunEpochOperator(task_id="run", job=definition, **arguments)

    capfd.readouterr()
    first = operator(epochs_per_run=3, deferrable=False).execute(context("run"))
    printed = capfd.readouterr().out
    assert (first["epochs"], first["rows"], first["finished"]) == ([1, 2, 3], 60, False)
    for epoch in (1, 2, 3):
        assert len(re.findall(rf"epoch {epoch} (is )?committed", printed)) == 1, "printed once"
        assert printed.count(f"epoch {epoch}: upstream versions" if epoch == 1 else f"epoch {epoch}: the upstream") == 1
    assert len(re.findall(r"Spark application local-\d+", printed)) == 1
    assert "after epoch 3: 60.0 % of the snapshot" in printed

    orders.delete(1)
    with pytest.raises(TaskDeferred) as waiting:
        operator(epochs_per_run=9).execute(context("run", run_id="run_2"))
    event = asyncio.run(first_event(waiting.value.trigger))
    summary = operator(epochs_per_run=9).resume(context("run", run_id="run_2"), event)

    assert (summary["epochs"], summary["changes"], summary["finished"]) == ([4, 5], 1, True)
    record = orders.backfill.store.applications.read("epoch-4")
    assert record is not None
    assert [line.split(":")[0] for line in record.said] == ["epoch 4 is committed", "epoch 5", "epoch 5 is committed"]
    assert orders.view() == orders.expected()


async def first_event(trigger: BaseTrigger) -> Any:
    """Wait as the triggerer does."""
    event = await anext(trigger.run())
    return event.payload


def processes_of_group(group: int) -> list[int]:
    """Return the running processes of a group, without zombies."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(int(entry.name))
    assert os.getpid() not in found
    return found
