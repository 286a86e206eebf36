"""Real Airflow whose parts are killed one after another: each epoch runs once, and no application is left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from airflow_backfill_provider.core.application import ApplicationRecord
from airflow_backfill_provider.state.applications import ApplicationRecords
from tests.integration.airflow.server import COMPONENTS, AirflowProcesses, airflow_server
from tests.unit.stand_in import Lake

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(900)]

DAGS = Path(__file__).parent / "surviving_dags"
EPOCH = "backfill.run_epoch"


class Scenario:
    """
    A backfill in Airflow, one run of the DAG an epoch.

    :param airflow: Airflow's processes.
    :param lake: the job and its tables.
    """

    def __init__(self, airflow: AirflowProcesses, lake: Lake) -> None:
        self.airflow = airflow
        self.lake = lake
        self._runs = 0
        self._records = ApplicationRecords(lake.backfill.job.state)

    def wait(self, reached: Callable[[], object]) -> None:
        self.airflow.wait_until(reached)

    def hold(self) -> None:
        """Let applications wait."""
        (self.lake.folder / "go").unlink(missing_ok=True)

    def go(self) -> None:
        """Let applications work."""
        (self.lake.folder / "go").touch()

    def trigger(self, dag: str = "orders") -> str:
        """Start a run of a DAG."""
        self._runs += 1
        run = f"run_{self._runs}"
        self.wait(lambda: self.airflow.call("POST", f"dags/{dag}/dagRuns", {"dag_run_id": run, "logical_date": None}))
        return run

    def deferred_run(self) -> str:
        """Start a run whose application waits, and return it once its task is deferred."""
        self.hold()
        run = self.trigger()
        self.wait_until_deferred(run)
        return run

    def task(self, run: str, dag: str = "orders") -> dict[str, Any]:
        return self.airflow.call("GET", f"dags/{dag}/dagRuns/{run}/taskInstances/{EPOCH}/0")

    def set_task(self, run: str, state: str, dag: str = "orders") -> None:
        self.airflow.call("PATCH", f"dags/{dag}/dagRuns/{run}/taskInstances/{EPOCH}/0", {"new_state": state})

    def waits(self, epoch: int) -> int:
        """Return how many triggers wait for an epoch's application."""
        return len(list(Path(self._records.location).glob(f"epoch-{epoch}.wait-*")))

    def announced(self, dag: str) -> list[int]:
        """Return the epochs of a DAG's events, each once, in order."""
        path = f"assets/events?source_dag_id={dag}&order_by=timestamp&limit=100"
        found = [event["extra"] for event in self.airflow.call_until_answered("GET", path)["asset_events"]]
        return list(dict.fromkeys(extra["epoch"] for extra in found if extra["event"] == "epoch"))

    def clear_task(self, run: str) -> None:
        body = {"dry_run": False, "task_ids": [EPOCH], "dag_run_id": run, "only_failed": False, "only_running": False}
        self.airflow.call("POST", "dags/orders/clearTaskInstances", body)

    def wait_until_deferred(self, run: str, dag: str = "orders") -> None:
        """Wait until a triggerer watches the task; before that, no trigger could see that the task is killed."""
        self.wait(lambda: (task := self.task(run, dag)).get("state") == "deferred" and task["triggerer_job"])

    def wait_for_success(self, run: str) -> None:
        self.wait(lambda: self.airflow.call("GET", f"dags/orders/dagRuns/{run}").get("state") == "success")

    def record(self, epoch: int) -> ApplicationRecord:
        self.wait(lambda: self._records.read(f"epoch-{epoch}"))
        found = self._records.read(f"epoch-{epoch}")
        assert found is not None
        return found

    def wait_until_gone(self, record: ApplicationRecord) -> None:
        self.wait(lambda: not psutil.pid_exists(record.pid) or psutil.Process(record.pid).status() == "zombie")

    def started(self, epoch: int) -> int:
        """Return how many applications were started for an epoch."""
        lines = (self.lake.folder / "started").read_text(encoding="utf-8").splitlines()
        return lines.count(f"--epoch {epoch}")

    @property
    def next_epoch(self) -> int:
        return len(self.epochs) + 1

    @property
    def epochs(self) -> list[int]:
        return [commit.epoch for commit in self.lake.backfill.store.commits()]


@pytest.mark.exhaustive
def test_each_epoch_runs_once_whatever_dies(tmp_path: Path):
    """One test for all, because it starts Airflow's processes."""
    lake = Lake(tmp_path, {"rate_limit": 100})
    for first in range(0, 1000, 250):
        lake.append(range(first, first + 250))
    lake.create()
    home = tmp_path / "airflow"
    home.mkdir()
    with airflow_server(home, DAGS, {"ORDERS_LAKE": str(tmp_path)}, (*COMPONENTS, "triggerer")) as airflow:
        scenario = Scenario(airflow, lake)
        the_triggerer_dies(scenario)
        the_task_run_dies_before_it_defers(scenario)
        the_scheduler_dies_with_its_workers(scenario)
        the_application_dies(scenario)
        the_task_is_marked_failed(scenario)
        the_task_is_cleared(scenario)
        another_task_that_waits_is_marked_failed(scenario)
        assert scenario.epochs == [1, 2, 3, 4, 5, 6, 7, 8]
        assert scenario.announced("orders") == scenario.epochs


def the_triggerer_dies(scenario: Scenario) -> None:
    epoch = scenario.next_epoch
    run = scenario.deferred_run()
    scenario.airflow.kill("triggerer")
    scenario.go()
    scenario.wait(lambda: epoch in scenario.epochs)
    scenario.airflow.start("triggerer")
    scenario.wait_for_success(run)
    assert (scenario.started(epoch), scenario.task(run)["try_number"]) == (1, 1)


def the_task_run_dies_before_it_defers(scenario: Scenario) -> None:
    epoch = scenario.next_epoch
    scenario.hold()
    (scenario.lake.folder / "die").touch()
    run = scenario.trigger()
    first = scenario.record(epoch)
    scenario.wait(lambda: scenario.task(run).get("try_number") == 2)
    scenario.wait_until_deferred(run)
    scenario.go()
    scenario.wait_for_success(run)
    assert scenario.record(epoch).attempt == first.attempt, "the second try waited for the first one's application"
    assert scenario.started(epoch) == 1


def the_scheduler_dies_with_its_workers(scenario: Scenario) -> None:
    epoch = scenario.next_epoch
    run = scenario.deferred_run()
    scenario.airflow.kill("scheduler")
    scenario.go()
    scenario.wait(lambda: epoch in scenario.epochs)
    scenario.airflow.start("scheduler")
    scenario.wait_for_success(run)
    assert scenario.started(epoch) == 1


def the_application_dies(scenario: Scenario) -> None:
    epoch = scenario.next_epoch
    run = scenario.deferred_run()
    (application,) = psutil.Process(scenario.record(epoch).pid).children()
    application.kill()
    scenario.wait(lambda: scenario.started(epoch) == 2)
    scenario.go()
    scenario.wait_for_success(run)
    assert scenario.started(epoch) == 2


def the_task_is_marked_failed(scenario: Scenario) -> None:
    epoch = scenario.next_epoch
    run = scenario.deferred_run()
    record = scenario.record(epoch)
    scenario.set_task(run, "failed")
    scenario.wait_until_gone(record)
    assert scenario.record(epoch).error == "the application was stopped on request"
    assert scenario.record(epoch).stopped_by == f"orders.{EPOCH}[0] of run {run}"
    scenario.go()
    again = scenario.trigger()
    scenario.wait_for_success(again)
    assert scenario.started(epoch) == 2
    assert scenario.epochs[-2:] == [epoch, epoch + 1], "the run completed what was left, then its own epoch"


def the_task_is_cleared(scenario: Scenario) -> None:
    epoch = scenario.next_epoch
    run = scenario.deferred_run()
    record = scenario.record(epoch)
    scenario.clear_task(run)
    scenario.wait_until_gone(record)
    scenario.wait(lambda: scenario.started(epoch) == 2)
    scenario.go()
    scenario.wait_for_success(run)


def another_task_that_waits_is_marked_failed(scenario: Scenario) -> None:
    """The run of another DAG of the job found the epoch pinned, and waits for its application, too."""
    epoch = scenario.next_epoch
    run = scenario.deferred_run()
    record = scenario.record(epoch)
    other = scenario.trigger("orders_too")
    scenario.wait_until_deferred(other, "orders_too")
    scenario.wait(lambda: scenario.waits(epoch) == 2)
    scenario.set_task(other, "failed", "orders_too")
    scenario.wait(lambda: scenario.waits(epoch) == 1)
    scenario.go()
    scenario.wait_for_success(run)
    assert scenario.record(epoch).attempt == record.attempt
    assert scenario.started(epoch) == 1
