"""The DAGs in ``dags/`` parse quickly, without Spark, and say what they need."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowFailException

from airflow_backfill_provider.core.job.definition import BackfillJob
from tests.airflow_home import DAGS

pytestmark = pytest.mark.slow  # a Python of its own for the DAGs

NAMES = [
    "backfill_after_approval",
    "backfill_compact",
    "backfill_in_order",
    "backfill_manual",
    "backfill_on_upstream_commits",
    "backfill_rebuild",
    "backfill_scheduled",
    "backfill_verify",
    "backfill_watch",
    "backfill_watchdog",
]
EACH = pytest.mark.parametrize("name", NAMES)

DEFINITION = {
    "name": "orders",
    "upstream": {"path": "/lake/orders", "key": ["id"]},
    "materialized_view": "/lake/view",
    "query": "SELECT id FROM upstream",
    "restrict_to": {"vnodes": [1]},
}

PARSE = """
import json, runpy, sys, time
import airflow.sdk
for path in sys.argv[1:]:
    started = time.monotonic()
    dag = runpy.run_path(path)["dag"]
    print(json.dumps({"dag_id": dag.dag_id, "seconds": time.monotonic() - started, "modules": list(sys.modules)}))
"""


def load(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        bag = DagBag(str(DAGS / f"{name}.py"), load_op_links=False)
    assert bag.import_errors == {}
    return bag.dags[name]


def test_the_dags_parse_in_under_a_second_without_spark(record_property):
    """One Python for all of them: what one imports, those after it would show as well."""
    answer = subprocess.run(
        [sys.executable, "-c", PARSE, *(str(DAGS / f"{name}.py") for name in NAMES)],
        capture_output=True,
        text=True,
        check=True,
    )
    parsed = [json.loads(line) for line in answer.stdout.splitlines() if line.startswith('{"dag_id"')]

    assert [dag["dag_id"] for dag in parsed] == NAMES
    for dag in parsed:
        assert not {"pyspark", "delta", "pandas", "airflow_backfill_provider.spark"} & set(dag["modules"])
        record_property(dag["dag_id"], dag["seconds"])


@EACH
def test_a_dag_documents_itself(name):
    assert len(load(name).doc_md) > 100


@pytest.mark.parametrize("name", ["backfill_manual", "backfill_on_upstream_commits", "backfill_scheduled"])
def test_every_task_that_commits_an_epoch_or_finishes_a_view_sends_an_event(name):
    for dag_task in load(name).tasks:
        if dag_task.label in {"run_epoch", "finish_view"}:
            assert dag_task.outlets, dag_task.task_id


def test_the_second_of_two_jobs_waits_for_the_first_view(monkeypatch):
    for name in ("JOB", "NEXT_JOB", "SCHEDULE"):
        monkeypatch.delenv(f"AIRFLOW_BACKFILL_{name}", raising=False)
    dag = load("backfill_in_order")

    first, second = dag.get_task("first.create_job").job, dag.get_task("second.create_job").job
    assert second.upstream.location == first.materialized_view
    assert first.table_properties["delta.enableChangeDataFeed"] == "true"
    assert dag.get_task("second.create_job").upstream_task_ids == {"first_view_is_finished"}
    assert [asset.name for asset in dag.timetable.asset_condition.objects] == [
        "paid_orders upstream",
        "large_orders upstream",
    ]


def test_the_dag_that_follows_its_upstream_looks_as_often_as_the_environment_says(monkeypatch):
    monkeypatch.setenv("AIRFLOW_BACKFILL_POLL_INTERVAL", "2.5")

    (watcher,) = load("backfill_on_upstream_commits").timetable.asset_condition.watchers

    assert watcher.trigger.poll_interval == 2.5


def test_no_dag_is_forgotten_here():
    assert sorted(file.stem for file in DAGS.glob("*.py")) == NAMES


def test_the_scheduled_dag_runs_the_job_that_the_environment_names(monkeypatch, tmp_path: Path):
    file = tmp_path / "my job's.yaml"
    file.write_text((DAGS / "jobs" / "paid_orders.yaml").read_text().replace("/lake/", "/other/"), encoding="utf-8")
    monkeypatch.setenv("AIRFLOW_BACKFILL_JOB", str(file))
    monkeypatch.setenv("AIRFLOW_BACKFILL_SCHEDULE", "*/5 * * * *")
    monkeypatch.setenv("AIRFLOW_BACKFILL_BARRIERS", "2")

    dag = load("backfill_scheduled")

    assert dag.get_task("backfill.create_job").job.upstream.location == "/other/orders"
    assert dag.timetable.expression == "*/5 * * * *"
    assert dag.get_task("backfill.run_epoch").expand_input.value == {"barrier": [None, None]}


def test_the_scheduled_dag_runs_by_hand_without_a_schedule(monkeypatch):
    monkeypatch.delenv("AIRFLOW_BACKFILL_SCHEDULE", raising=False)

    assert type(load("backfill_scheduled").timetable).__name__ == "NullTimetable"


def test_the_trigger_form_offers_the_jobs_of_the_folder(monkeypatch, tmp_path: Path):
    for name in ("b", "a"):
        (tmp_path / f"{name}.yaml").touch()
    monkeypatch.setenv("AIRFLOW_BACKFILL_JOBS", str(tmp_path))
    monkeypatch.delenv("AIRFLOW_BACKFILL_JOB", raising=False)

    job = load("backfill_manual").params.get_param("job")

    assert job.schema["enum"] == [str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml"), None]
    assert job.schema["values_display"] == {str(tmp_path / "a.yaml"): "a", str(tmp_path / "b.yaml"): "b"}
    assert job.value == str(tmp_path / "a.yaml")


def test_the_trigger_form_works_without_any_job_file(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("AIRFLOW_BACKFILL_JOBS", str(tmp_path))
    monkeypatch.delenv("AIRFLOW_BACKFILL_JOB", raising=False)

    assert load("backfill_manual").params["job"] is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", -1),
        ("epochs", "2"),
        ("epochs_per_run", 0),
        ("rate_limit", -1),
        ("parallelism", 0),
        ("mutation", "stop"),
        ("job", "/etc/passwd"),
        ("vnodes", "3, 8-"),
        ("keys", [{"id": 1}]),
        ("definition", {"name": "orders"}),
        ("definition", {**DEFINITION, "vnodes": 4}),
    ],
)
def test_the_trigger_form_refuses_invalid_input(name, value):
    from airflow.sdk.exceptions import ParamValidationError

    params = load("backfill_manual").params

    with pytest.raises(ParamValidationError):
        params[name] = value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rate_limit", None),
        ("vnodes", "3, 8 - 15"),
        ("vnodes", None),
        ("keys", [1, ["a", 2]]),
        ("keys", []),
        ("definition", {}),
        ("definition", DEFINITION),
    ],
)
def test_the_trigger_form_accepts_valid_input(name, value):
    params = load("backfill_manual").params

    params[name] = value

    assert params[name] == value


def test_the_examples_in_the_trigger_form_are_valid():
    """One upstream of each kind of source: a person copies them."""
    text = load("backfill_manual").params.get_param("definition").schema["description_md"]
    definition, of_postgres = (json.loads(example) for example in re.findall(r"```json\n(.+?)```", text, re.DOTALL))

    assert BackfillJob(**definition).upstream.kind == "delta"
    assert BackfillJob(**{**definition, "upstream": of_postgres}).upstream.kind == "postgres"


def test_the_example_jobs_are_valid():
    kinds = {BackfillJob.from_yaml(file).upstream.kind for file in (DAGS / "jobs").glob("*.yaml")}
    assert kinds == {"delta", "kafka", "postgres"}


def test_a_definition_in_the_form_needs_a_deployment_that_restricts_folders(monkeypatch, tmp_path):
    choose = load("backfill_manual").get_task("choose_job").python_callable
    definition = {**DEFINITION, "materialized_view": str(tmp_path / "view")}
    monkeypatch.delenv("AIRFLOW_BACKFILL_ALLOWED_ROOTS", raising=False)
    with pytest.raises(AirflowFailException, match="a definition in the form is refused"):
        choose(params={"definition": definition, "job": None})
    monkeypatch.setenv("AIRFLOW_BACKFILL_ALLOWED_ROOTS", '["/"]')
    assert choose(params={"definition": definition, "job": None})["name"] == definition["name"]


@pytest.mark.parametrize(
    ("epochs", "epochs_per_run", "shares"),
    [(3, 1, [1, 1, 1]), (10, 4, [4, 4, 2]), (4, 4, [4]), (2, 20, [2]), (0, 1, [])],
)
def test_the_epochs_of_the_trigger_form_are_shared_by_applications(epochs, epochs_per_run, shares):
    share = load("backfill_manual").get_task("share_epochs").python_callable

    assert share({"epochs": epochs, "epochs_per_run": epochs_per_run}) == shares


def test_the_trigger_form_begins_with_the_required_fields_and_explains_every_field():
    params = load("backfill_manual").params
    schemas = {name: params.get_param(name).schema for name in params}

    assert [name for name, schema in schemas.items() if "section" not in schema] == ["job", "epochs"]
    assert {schema.get("section") for schema in schemas.values()} == {
        None,
        "Change the settings first",
        "Start Spark less often",
        "A definition instead of a file",
    }
    assert all(schema["title"] and len(schema["description_md"]) > 20 for schema in schemas.values())
    assert params.validate() == {
        "job": params["job"],
        "epochs": 1,
        "mutation": "none",
        "rate_limit": None,
        "target_epoch_seconds": None,
        "parallelism": 1,
        "vnodes": None,
        "keys": None,
        "epochs_per_run": 1,
        "definition": None,
    }
