"""Runs without a schedule, on real Airflow: those of the watcher, and those that wait for an approval."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.airflow.server import COMPONENTS, AirflowProcesses, airflow_server
from tests.unit.stand_in import ROWS, Lake

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(900)]

DAGS = Path(__file__).parent / "asking_dags"


class Scenario:
    """
    One of the DAGs.

    :param airflow: Airflow's processes.
    :param lake: the upstream; the job's name is the DAG's.
    :param name: the DAG.
    """

    def __init__(self, airflow: AirflowProcesses, lake: Lake, name: str) -> None:
        self.airflow = airflow
        named = {"name": name, "materialized_view": f"{lake.folder}/{name}"}
        self.store = Lake(lake.folder, named).backfill.store
        self._dag = f"dags/{name}"

    def wait(self, reached: Callable[[], object]) -> None:
        self.airflow.wait_until(reached)

    def runs(self) -> list[dict[str, Any]]:
        return list(self.airflow.call("GET", f"{self._dag}/dagRuns").get("dag_runs", []))

    def trigger(self) -> str:
        """Start a run of the DAG; return its path."""
        runs: list[str] = []

        def begin() -> bool:
            answer = self.airflow.call("POST", f"{self._dag}/dagRuns", {"logical_date": None})
            runs.extend([answer["dag_run_id"]] if answer else [])
            return bool(runs)

        self.wait(begin)
        return f"{self._dag}/dagRuns/{urllib.parse.quote(runs[0])}"

    def question(self, run: str) -> dict[str, Any]:
        return self.airflow.call("GET", f"{run}/taskInstances/approve/-1/hitlDetails")

    def answer(self, run: str, option: str) -> None:
        """
        Answer, and again if the question comes back.

        An answer that comes before the scheduler has seen the asking process end makes Airflow retry the task.
        """
        body = {"chosen_options": [option], "params_input": {}}

        def answered() -> bool:
            state = self.airflow.call("GET", f"{run}/taskInstances/approve").get("state")
            if state == "awaiting_input":
                self.airflow.call("PATCH", f"{run}/taskInstances/approve/-1/hitlDetails", body)
            return state in {"success", "failed"}

        self.wait(answered)

    def states(self, run: str) -> dict[str, str]:
        """Wait for the end of a run, and return the states of its tasks."""
        self.wait(lambda: self.airflow.call("GET", run).get("state") in {"success", "failed"})
        tasks = self.airflow.call_until_answered("GET", f"{run}/taskInstances")["task_instances"]
        return {task["task_id"]: task["state"] for task in tasks}


@pytest.mark.exhaustive
def test_runs_start_when_they_are_needed_and_wait_for_an_approval(tmp_path: Path):
    """One test, because it starts Airflow's processes."""
    lake = Lake(tmp_path)
    lake.append(range(ROWS))
    home = tmp_path / "airflow"
    home.mkdir()
    with airflow_server(home, DAGS, {"ORDERS_LAKE": str(tmp_path)}, (*COMPONENTS, "triggerer")) as airflow:
        follow_the_upstream(Scenario(airflow, lake, "followed"), lake)
        approve_once(Scenario(airflow, lake, "approved"))
        reject(Scenario(airflow, lake, "rejected"))
        let_go_live(Scenario(airflow, lake, "gated"))


def follow_the_upstream(followed: Scenario, lake: Lake) -> None:
    """The watcher takes the backfill to its end, and reports a commit that came while the triggerer was dead."""
    followed.wait(lambda: followed.store.created() and followed.store.settings().finished_epoch)
    assert followed.store.settings().finished_epoch == 3
    followed.wait(lambda: all(run["state"] == "success" for run in followed.runs()))
    driven = len(followed.runs())

    followed.airflow.kill("triggerer")
    lake.append([ROWS])
    followed.airflow.start("triggerer")
    followed.wait(lambda: followed.store.commit_of(4))
    followed.wait(lambda: all(run["state"] == "success" for run in followed.runs()))

    runs = followed.runs()
    assert followed.store.pinned(4).upstream.to_offset.number == 1
    assert followed.store.last_epoch() == 4
    assert {run["run_type"] for run in runs} == {"asset_triggered"}
    # An event may come while the run before it is not over, so that it finds nothing to do.
    assert 3 <= driven <= 5
    assert len(runs) <= driven + 2


def approve_once(approved: Scenario) -> None:
    """The first run asks; a later run of a created job does not."""
    first = approved.trigger()
    approved.wait(lambda: approved.question(first))
    question = approved.question(first)
    assert question["subject"] == "Start the backfill of approved, 1,001 rows?"
    assert "| to read | 1,001 rows in about 3 epochs |" in question["body"]
    assert not approved.store.created()
    approved.answer(first, "Approve")
    assert set(approved.states(first).values()) <= {"success", "skipped"}

    second = approved.trigger()
    assert set(approved.states(second).values()) <= {"success", "skipped"}
    assert not approved.question(second)
    assert approved.store.last_epoch() == 2


def reject(rejected: Scenario) -> None:
    """A rejection skips all tasks, also those that run after skipped ones."""
    run = rejected.trigger()
    rejected.answer(run, "Reject")
    states = rejected.states(run)
    assert states.pop("approve") == "success"
    assert set(states.values()) == {"skipped"}
    assert "backfill.epoch_1.summary" in states
    assert not rejected.store.created()


def let_go_live(gated: Scenario) -> None:
    """A view that is complete is not finished before somebody has approved it; a later run does not ask."""
    first = gated.trigger()
    gated.wait(lambda: gated.question(first))
    question = gated.question(first)
    assert question["subject"] == "Let the backfill of gated go live, 11 rows (1 added, 0 removed, 1 changed)?"
    assert "rows: 10 now, 11 then" in question["body"]
    assert gated.store.state().completed
    assert gated.store.settings().finished_epoch is None
    gated.answer(first, "Approve")
    assert set(gated.states(first).values()) <= {"success", "skipped"}
    approved = gated.store.settings().approved
    assert approved is not None
    assert "gated.approve of run" in approved.approved_by

    second = gated.trigger()
    assert set(gated.states(second).values()) <= {"success", "skipped"}
    assert not gated.question(second)
    assert gated.store.settings().finished_epoch == 2
