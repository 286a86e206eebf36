"""Tasks that leave their application to a supervisor: whatever dies or ends meanwhile, the epoch runs once."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred

from airflow_backfill_provider.assets import MATERIALIZED_VIEWS
from airflow_backfill_provider.core.application import ApplicationRecord
from airflow_backfill_provider.core.job.requester import Requester
from airflow_backfill_provider.hooks.spark_application import SparkApplicationHook
from airflow_backfill_provider.jobs import mutations
from airflow_backfill_provider.operators.base import SparkBackfillOperator
from airflow_backfill_provider.operators.compaction import CompactMaterializedViewOperator
from airflow_backfill_provider.operators.epoch import InjectBarrierOperator, RunEpochOperator
from airflow_backfill_provider.operators.job import CreateBackfillJobOperator, RebuildBackfillOperator
from airflow_backfill_provider.operators.shared_epoch import ApplyChangesOperator, ReadChunkPartOperator
from airflow_backfill_provider.state.applications import ApplicationRecords
from tests.unit.lifeline import HANG_IN_PYTHON
from tests.unit.stand_in import Lake, context, run_epoch

pytestmark = pytest.mark.slow  # processes of their own

WORKS = """
import json, sys
from pathlib import Path
from tests.unit.stand_in import Lake, StandInSpark
lake, application, *arguments = sys.argv[1:]
fields = json.loads(lake)
StandInSpark().run(Lake(Path(fields.pop("folder")), fields).backfill, application, arguments)
"""
TASK = Requester(dag_id="dag", run_id="run_1", task_id="run_epoch")
FAILS = "import sys; print('airflow-backfill: error: no such key'); sys.exit({code})"
FAILS_AFTER_THE_COMMIT = f"{WORKS}\nprint('airflow-backfill: error: too late'); sys.exit(1)"


class Submitting:
    """Programs instead of Spark applications, run by real supervisors; ``program`` is the next one."""

    def __init__(self) -> None:
        self.program = WORKS
        self.lake: Lake | None = None
        self.submitted: list[str] = []
        self.epochs: int | None = None

    def command(self, application: str, arguments: list[str]) -> list[str]:
        assert self.lake is not None
        self.submitted.append(application)
        if self.epochs is not None:
            # It dies after so many.
            arguments = [*arguments[:-1], str(self.epochs)]
        fields = json.dumps({"folder": str(self.lake.folder), **self.lake.fields})
        return [sys.executable, "-c", self.program, fields, application, *arguments]


@pytest.fixture
def submitting(orders: Lake, lifeline: None, monkeypatch: pytest.MonkeyPatch) -> Submitting:
    submitting = Submitting()
    submitting.lake = orders
    monkeypatch.setattr(SparkApplicationHook, "command", lambda _, *call: submitting.command(*call))
    monkeypatch.setattr(SparkApplicationHook, "environment", lambda _: {**os.environ, "PYTHONPATH": str(Path.cwd())})
    return submitting


def run(lake: Lake, **arguments: Any) -> RunEpochOperator:
    return RunEpochOperator(task_id="run_epoch", job=lake.definition, outlets=[MATERIALIZED_VIEWS], **arguments)


def deferred(operator: SparkBackfillOperator) -> TaskDeferred:
    """Begin a task run; it gives its slot back."""
    with pytest.raises(TaskDeferred) as raised:
        operator.execute(context("run_epoch"))
    assert raised.value.method_name == "resume"
    return raised.value


def event_of(waiting: TaskDeferred) -> dict[str, Any]:
    """Wait as the triggerer does, with a trigger that was made again from its serialized form; but look more often."""
    classpath, arguments = waiting.trigger.serialize()
    assert classpath.endswith(".SparkApplicationTrigger")
    again = type(waiting.trigger)(**json.loads(json.dumps(arguments)) | {"poll_interval": 0.05})

    async def first() -> Any:
        return await asyncio.wait_for(anext(again.run()), 60)

    return asyncio.run(first()).payload


def record(lake: Lake, name: str = "epoch-1") -> ApplicationRecord:
    found = ApplicationRecords(lake.backfill.job.state).read(name)
    assert found is not None
    return found


def test_a_task_runs_its_epoch_without_its_slot(created: Lake, submitting):
    waiting = deferred(run(created))
    event = event_of(waiting)

    ctx = context("run_epoch")
    summary = run(created).resume(ctx, event)

    assert (summary["epoch"], summary["rows"]) == (1, 400)
    assert ctx["epoch"] == 1
    (told,) = ctx["outlet_events"][MATERIALIZED_VIEWS].asset_alias_events
    assert told.extra["epoch"] == 1
    assert submitting.submitted == ["backfill_epoch.py"]


@pytest.mark.exhaustive
def test_a_retry_after_the_workers_death_waits_for_the_application_that_runs(created: Lake, submitting):
    submitting.program = HANG_IN_PYTHON
    deferred(run(created))
    first = record(created)

    deferred(run(created))

    assert record(created).attempt == first.attempt
    assert submitting.submitted == ["backfill_epoch.py"]


@pytest.mark.exhaustive
def test_a_retry_after_the_end_of_the_application_needs_no_second_one(created: Lake, submitting):
    event_of(deferred(run(created)))

    assert run(created).execute(context("run_epoch"))["epoch"] == 1
    assert submitting.submitted == ["backfill_epoch.py"]


@pytest.mark.exhaustive
def test_a_retry_of_an_application_that_failed_starts_another_one(created: Lake, submitting):
    submitting.program = FAILS.format(code=1)
    event = event_of(deferred(run(created)))
    with pytest.raises(AirflowException, match="no such key") as failure:
        run(created).resume(context("run_epoch"), event)
    assert not isinstance(failure.value, AirflowFailException)

    submitting.program = WORKS
    event = event_of(deferred(run(created)))

    assert run(created).resume(context("run_epoch"), event)["epoch"] == 1


def test_a_failure_that_no_retry_can_repair_fails_the_task_for_good(created: Lake, submitting):
    submitting.program = FAILS.format(code=3)
    event = event_of(deferred(run(created)))

    with pytest.raises(AirflowFailException, match="no such key"):
        run(created).resume(context("run_epoch"), event)


@pytest.mark.exhaustive
def test_an_application_that_fails_after_the_commit_has_done_its_work(created: Lake, submitting, monkeypatch):
    # On a slow machine a look at the commit would come before the failure.
    monkeypatch.setattr("airflow_backfill_provider.triggers.application.COMMIT_LOOK_SECONDS", float("inf"))
    submitting.program = FAILS_AFTER_THE_COMMIT
    event = event_of(deferred(run(created)))
    assert event["outcome"] == "failed"

    assert run(created).resume(context("run_epoch"), event)["epoch"] == 1


def test_an_application_that_succeeds_without_a_commit_fails_the_task(created: Lake, submitting):
    submitting.program = "print('all well')"
    event = event_of(deferred(run(created)))
    assert event["outcome"] == "succeeded"

    with pytest.raises(AirflowException, match="has no commit of it"):
        run(created).resume(context("run_epoch"), event)


@pytest.mark.exhaustive
def test_a_task_after_another_runs_barrier_waits_for_both(created: Lake, submitting):
    created.inject()

    event = event_of(deferred(run(created)))
    with pytest.raises(TaskDeferred) as again:
        run(created).resume(context("run_epoch"), event)
    summary = run(created).resume(context("run_epoch"), event_of(again.value))

    assert summary["epoch"] == 2
    assert submitting.submitted == ["backfill_epoch.py"] * 2


@pytest.mark.exhaustive
def test_a_cleared_task_stops_its_application_and_starts_another_one(created: Lake, submitting):
    submitting.program = HANG_IN_PYTHON
    waiting = deferred(run(created))
    asyncio.run(waiting.trigger.on_kill())

    submitting.program = WORKS
    event = event_of(deferred(run(created)))

    assert run(created).resume(context("run_epoch"), event)["epoch"] == 1
    assert submitting.submitted == ["backfill_epoch.py"] * 2


def test_a_task_that_is_killed_while_it_starts_its_application_stops_it(created: Lake, submitting):
    submitting.program = HANG_IN_PYTHON
    operator = run(created)
    deferred(operator)

    operator.on_kill()

    assert ApplicationRecords(created.backfill.job.state).stop_requested(record(created))


@pytest.mark.exhaustive
def test_an_epoch_that_another_process_commits_meanwhile_ends_the_wait(created: Lake, submitting, monkeypatch):
    monkeypatch.setattr("airflow_backfill_provider.triggers.application.COMMIT_LOOK_SECONDS", 0.0)
    submitting.program = HANG_IN_PYTHON
    waiting = deferred(run(created))
    run_epoch(created.backfill, 1)

    assert run(created).resume(context("run_epoch"), event_of(waiting))["epoch"] == 1


@pytest.mark.exhaustive
def test_several_epochs_in_one_application_are_waited_for_together(created: Lake, submitting, monkeypatch):
    """The trigger does not end with the first one's commit."""
    monkeypatch.setattr("airflow_backfill_provider.triggers.application.COMMIT_LOOK_SECONDS", 0.0)
    event = event_of(deferred(run(created, epochs_per_run=2)))
    assert event == {"name": "epoch-1", "outcome": "succeeded"}

    ctx = context("run_epoch")
    summary = run(created, epochs_per_run=2).resume(ctx, event)

    assert (summary["epochs"], ctx["epoch"]) == ([1, 2], "1 to 2")
    assert [e.extra["epoch"] for e in ctx["outlet_events"][MATERIALIZED_VIEWS].asset_alias_events] == [1, 2]
    assert submitting.submitted == ["backfill_epoch.py"]


@pytest.mark.exhaustive
def test_a_retry_finds_the_application_that_runs_a_later_epoch_by_now(created: Lake, submitting):
    submitting.program = HANG_IN_PYTHON
    deferred(run(created, epochs_per_run=3))
    run_epoch(created.backfill, 1)
    created.inject(TASK, epochs=3)

    waiting = deferred(run(created, epochs_per_run=3))

    assert waiting.trigger.serialize()[1]["name"] == "epoch-1"
    assert submitting.submitted == ["backfill_epoch.py"]


@pytest.mark.exhaustive
def test_a_task_that_adopts_a_barrier_waits_for_the_application_that_runs_it(created: Lake, submitting):
    submitting.program = HANG_IN_PYTHON
    deferred(run(created, epochs_per_run=3))
    run_epoch(created.backfill, 1)
    created.inject(TASK, epochs=3)
    other = RunEpochOperator(task_id="run_epoch", job=created.definition)

    with pytest.raises(TaskDeferred) as waiting:
        other.execute(context("run_epoch", run_id="run_2"))

    assert waiting.value.trigger.serialize()[1]["name"] == "epoch-1"
    assert submitting.submitted == ["backfill_epoch.py"]


@pytest.mark.exhaustive
def test_a_run_that_completes_another_runs_epoch_announces_it(created: Lake, submitting):
    """The first run's application dies. After the second one's, nothing of the first epoch is left to do."""
    submitting.program = FAILS.format(code=1)
    with pytest.raises(AirflowException, match="no such key"):
        run(created).resume(context("run_epoch"), event_of(deferred(run(created))))
    submitting.program = WORKS
    ctx = context("run_epoch", run_id="run_2")
    with pytest.raises(TaskDeferred) as first:
        run(created).execute(ctx)
    mutations.pause_job(store=created.backfill.store, requested_by="vera")

    operator = run(created)
    summary = operator.resume(ctx, event_of(first.value))

    assert summary["epoch"] is None
    assert [e.extra["epoch"] for e in ctx["outlet_events"][MATERIALIZED_VIEWS].asset_alias_events] == [1]
    assert operator.get_openlineage_facets_on_complete(None).inputs[0].inputFacets["inputStatistics"].rowCount == 400


@pytest.mark.exhaustive
def test_an_application_that_dies_in_between_is_followed_by_one_for_what_is_left(created: Lake, submitting):
    submitting.program = FAILS_AFTER_THE_COMMIT
    operator = run(created, epochs_per_run=2)
    submitting.epochs = 1
    event = event_of(deferred(operator))
    with pytest.raises(AirflowException, match="too late"):
        run(created, epochs_per_run=2).resume(context("run_epoch"), event)
    assert created.backfill.store.last_epoch() == 1

    submitting.program, submitting.epochs = WORKS, None
    event = event_of(deferred(run(created, epochs_per_run=2)))

    assert run(created, epochs_per_run=2).resume(context("run_epoch"), event)["epochs"] == [1, 2]
    assert record(created, "epoch-1").succeeded


@pytest.mark.exhaustive
def test_changes_since_the_application_ended_are_left_to_the_next_run(created: Lake, submitting):
    created.epochs(1)
    mutations.throttle_job(0, store=created.backfill.store, requested_by="vera")
    created.append([2000])
    event = event_of(deferred(run(created, epochs_per_run=3)))
    created.append([2001])

    assert run(created, epochs_per_run=3).resume(context("run_epoch"), event)["epochs"] == [2]
    assert submitting.submitted == ["backfill_epoch.py"]


@pytest.mark.exhaustive
def test_creating_a_job_is_deferred_as_well(orders: Lake, submitting):
    create = CreateBackfillJobOperator(task_id="create", job=orders.definition)
    event = event_of(deferred(create))

    assert create.resume(context("create"), event)["name"] == "small_orders"
    assert submitting.submitted == ["backfill_job.py"]


@pytest.mark.exhaustive
def test_a_rebuild_happens_once_a_try(created: Lake, submitting):
    created.epochs(1)
    before = created.backfill.store.settings().incarnation
    rebuild = RebuildBackfillOperator(task_id="rebuild", job=created.definition)

    event = event_of(deferred(rebuild))
    rebuild.resume(context("rebuild"), event)

    assert len({before, *created.backfill.store.incarnations()}) == 2
    assert submitting.submitted == ["backfill_job.py"]


@pytest.mark.exhaustive
def test_a_compaction_is_deferred_as_well(created: Lake, submitting):
    created.scatter(4)
    compact = CompactMaterializedViewOperator(task_id="compact", job=created.definition, compact_at=3)
    event = event_of(deferred(compact))

    summary = compact.resume(context("compact"), event)

    assert (summary["compacted"], summary["view"]["files"]) == (True, 1)
    assert submitting.submitted == ["backfill_compact.py"]


@pytest.mark.exhaustive
def test_each_task_run_of_a_shared_epoch_has_its_own_application(orders: Lake, submitting):
    orders.fields = {"strategy": "arrangement", "parallelism": 2}
    orders.create()
    barrier = InjectBarrierOperator(task_id="inject", job=orders.definition).execute(context("inject"))
    parts = ApplyChangesOperator(task_id="c", job=orders.definition, barrier=barrier).execute(context("c"))
    reads = [ReadChunkPartOperator(task_id="read", job=orders.definition, part=part) for part in parts]

    waiting = [deferred(read) for read in reads]
    rows = [read.resume(context("read"), event_of(one))["rows"] for read, one in zip(reads, waiting, strict=True)]

    assert sum(rows) == 400
    assert record(orders, "epoch-1-read-chunk-part-1").succeeded


def test_without_deferral_the_task_keeps_its_slot_and_its_application(created: Lake, monkeypatch):
    monkeypatch.setattr(SparkApplicationHook, "run", lambda *_: run_epoch(created.backfill, 1))

    assert run(created, deferrable=False).execute(context("run_epoch"))["epoch"] == 1
