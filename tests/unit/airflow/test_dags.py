"""The DAGs in ``dags/`` parse quickly, without Spark, and say what they need."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag

from tests.airflow_home import DAGS

pytestmark = pytest.mark.slow  # a Python of its own for each DAG

EACH = pytest.mark.parametrize("name", ["backfill_scheduled", "backfill_manual", "backfill_watch"])

PARSE = """
import json, runpy, sys, time
import airflow.sdk
started = time.monotonic()
dag = runpy.run_path(sys.argv[1])["dag"]
print(json.dumps({"dag_id": dag.dag_id, "seconds": time.monotonic() - started, "modules": list(sys.modules)}))
"""


def load(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        bag = DagBag(str(DAGS / f"{name}.py"), load_op_links=False)
    assert bag.import_errors == {}
    return bag.dags[name]


@EACH
def test_a_dag_parses_in_under_a_second_without_spark(name, record_property):
    answer = subprocess.run(
        [sys.executable, "-c", PARSE, str(DAGS / f"{name}.py")], capture_output=True, text=True, check=True
    )
    parsed = json.loads(answer.stdout.splitlines()[-1])

    assert parsed["dag_id"] == name
    assert not {"pyspark", "delta", "pandas", "airflow_backfill_provider.engine"} & set(parsed["modules"])
    record_property("seconds", parsed["seconds"])


@EACH
def test_a_dag_documents_itself(name):
    assert len(load(name).doc_md) > 100


def test_no_dag_is_forgotten_here():
    assert {file.stem for file in DAGS.glob("*.py")} == {"backfill_scheduled", "backfill_manual", "backfill_watch"}


def test_the_scheduled_dag_runs_the_job_that_the_environment_names(monkeypatch, tmp_path: Path):
    file = tmp_path / "my job's.yaml"
    file.write_text((DAGS / "jobs" / "paid_orders.yaml").read_text().replace("/lake/", "/other/"), encoding="utf-8")
    monkeypatch.setenv("AIRFLOW_BACKFILL_JOB", str(file))
    monkeypatch.setenv("AIRFLOW_BACKFILL_SCHEDULE", "*/5 * * * *")
    monkeypatch.setenv("AIRFLOW_BACKFILL_BARRIERS", "2")

    dag = load("backfill_scheduled")

    assert dag.get_task("backfill.create_job").job.upstream.path == "/other/orders"
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
    [("epochs", -1), ("epochs", "2"), ("rate_limit", -1), ("mutation", "stop"), ("job", "/etc/passwd")],
)
def test_the_trigger_form_refuses_what_cannot_be_meant(name, value):
    from airflow.sdk.exceptions import ParamValidationError

    params = load("backfill_manual").params

    with pytest.raises(ParamValidationError):
        params[name] = value
