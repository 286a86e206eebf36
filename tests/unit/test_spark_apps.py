"""The programs that spark-submit is given: arguments in, one action, and its exit code out."""

from __future__ import annotations

import datetime as dt
import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_backfill_provider.applications import process_end
from airflow_backfill_provider.applications import spark_application as application
from airflow_backfill_provider.core.job.requester import Requester

APPLICATIONS = Path(__file__).parents[2] / "spark_apps"
WHO = Requester(dag_id="d", run_id="r", task_id="t", map_index=3)

Ran = tuple[int, str, dict[str, Any]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Runs a program up to where Spark would start; returns its exit code, its action and the action's arguments."""
    asked: list[tuple[str, dict[str, Any]]] = []

    def run_application(action: Callable[..., None], **arguments: Any) -> int:
        asked.append((action.__name__, arguments))
        return 3

    def end_process_with(main: Callable[[], int]) -> None:
        sys.exit(main())

    monkeypatch.setattr(application, "run_application", run_application)
    monkeypatch.setattr(process_end, "end_process_with", end_process_with)

    def make(program: str, *arguments: str) -> Ran:
        monkeypatch.setattr(sys, "argv", [program, *arguments])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(APPLICATIONS / program), run_name="__main__")
        return (ended.value.code, *(asked.pop() if asked else ("nothing", {})))

    return make


EPOCH = ("backfill_epoch.py", "--state", "/lake/state", "--epoch", "7")
OF_EPOCH = {"state": "/lake/state", "epoch": 7}


@pytest.mark.parametrize(
    ("more", "action", "arguments"),
    [
        ([], "run_epochs", {"epochs": 1, "until": None}),
        (
            ["--epochs", "5", "--until", "2026-03-29T01:30:00+00:00"],
            "run_epochs",
            {"epochs": 5, "until": dt.datetime(2026, 3, 29, 1, 30, tzinfo=dt.UTC)},
        ),
        (["--step", "apply_changes"], "apply_changes", {}),
        (["--step", "read_chunk_part", "--part", "0"], "read_chunk_part", {"part": 0}),
        (["--step", "read_chunk_part", "--part", "2"], "read_chunk_part", {"part": 2}),
    ],
)
def test_an_epoch_or_a_step_of_it(run, more, action, arguments):
    assert run(*EPOCH, *more) == (3, action, {**OF_EPOCH, **arguments})


@pytest.mark.parametrize(
    "wrong",
    [
        [*EPOCH, "--part", "0"],
        [*EPOCH, "--step", "read_chunk_part"],
        [*EPOCH, "--step", "apply_changes", "--part", "0"],
        [*EPOCH, "--step", "all"],
        EPOCH[:3],
        ["backfill_job.py", "destroy", "--job", "{}", "--requested-by", "vera"],
        ["backfill_job.py", "create", "--job", "{}"],
        ["backfill_verify.py", "repair", "--state", "/s", "--requester", WHO.model_dump_json(), "--steps", "2"],
        ["backfill_compact.py", "--state", "/lake/state"],
    ],
)
def test_contradictory_arguments_run_nothing(run, wrong):
    assert run(*wrong) == (2, "nothing", {})


@pytest.mark.parametrize("action", ["create", "rebuild", "change"])
def test_a_job_is_created_rebuilt_or_changed_as_it_is_defined(run, action):
    definition = {"name": "orders", "query": "SELECT 'é' FROM upstream"}
    done = run("backfill_job.py", action, "--job", json.dumps(definition), "--requested-by", "vera")
    assert done == (3, action, {"definition": definition, "requested_by": "vera"})


def test_a_view_is_verified_or_repaired_on_behalf_of_the_requester(run):
    who = ["--state", "/lake/state", "--requester", WHO.model_dump_json()]
    asked = {"state": "/lake/state", "requester": WHO}
    assert run("backfill_verify.py", "verify", *who) == (3, "verify", {**asked, "steps": None})
    assert run("backfill_verify.py", "verify", *who, "--steps", "4") == (3, "verify", {**asked, "steps": 4})
    assert run("backfill_verify.py", "repair", *who) == (3, "repair", asked)


def test_files_are_compacted_from_a_number_of_them_on(run):
    where = ("backfill_compact.py", "--state", "/lake/state", "--at", "20")
    asked = {"state": "/lake/state", "at": 20}
    assert run(*where) == (3, "compact", {**asked, "target_file_size": None})
    assert run(*where, "--target-file-size", "1024") == (3, "compact", {**asked, "target_file_size": 1024})
