"""
Any job by hand: choose it in the trigger form, change its settings, and run some epochs.

Shows the operators put together without the task group. The form offers the YAML files in the folder that
``AIRFLOW_BACKFILL_JOBS`` names, and the one that ``AIRFLOW_BACKFILL_JOB`` names; or it takes a definition of its own.
``AIRFLOW_BACKFILL_SPARK_CONNECTION`` names a Spark connection; without it, Spark runs on the worker.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param, task

from airflow_backfill_provider.operators.epoch import RunEpochOperator
from airflow_backfill_provider.operators.finish import FinishMaterializedViewWhenDueOperator
from airflow_backfill_provider.operators.job import CreateBackfillJobOperator
from airflow_backfill_provider.operators.mutation import (
    CancelBackfillOperator,
    PauseBackfillOperator,
    RepairBackfillOperator,
    RescaleBackfillOperator,
    ResumeBackfillOperator,
    ThrottleBackfillOperator,
)

SPARK_CONNECTION = os.environ.get("AIRFLOW_BACKFILL_SPARK_CONNECTION") or None
FOLDER = Path(os.environ.get("AIRFLOW_BACKFILL_JOBS") or Path(__file__).parent / "jobs")
ONE = os.environ.get("AIRFLOW_BACKFILL_JOB")

files = {str(file): file.stem for file in ([Path(ONE)] if ONE else []) + sorted(FOLDER.glob("*.yaml"))}

params = {
    "job": Param(
        next(iter(files), None),
        title="Job",
        description_md=f"A definition from `{FOLDER}`.",
        type=["string", "null"],
        enum=[*files, None],
        values_display=files,
    ),
    "definition": Param(
        None,
        title="Or a definition",
        description_md='The fields of a job, instead of a file: `{"name": …, "upstream": {…}, …}`',
        type=["object", "null"],
    ),
    "epochs": Param(
        1,
        title="Epochs",
        description_md="How many epochs to run, in order. **0** only creates the job and changes its settings.",
        type="integer",
        minimum=0,
        maximum=1000,
    ),
    "mutation": Param(
        "none",
        title="Change of the settings",
        description_md="Takes effect with the first of the epochs. A **cancelled** job runs no epoch any more.",
        type="string",
        enum=["none", "pause", "resume", "throttle", "rescale", "repair", "cancel"],
        values_display={
            "none": "None",
            "pause": "Pause: read no snapshot, still apply changes",
            "resume": "Resume: read the snapshot again",
            "throttle": "Throttle: change the rate limit",
            "rescale": "Rescale: change how many parallel runs share an epoch",
            "repair": "Repair: write chosen rows of the view anew",
            "cancel": "Cancel: stop the job for good",
        },
    ),
    "rate_limit": Param(
        None,
        title="Rate limit",
        description_md="With **Throttle**: snapshot rows per epoch. Empty is unlimited, 0 reads none.",
        type=["integer", "null"],
        minimum=0,
    ),
    "parallelism": Param(
        1,
        title="Parallel runs",
        description_md="With **Rescale**: how many runs share the vnodes; needs the arrangement strategy.",
        type="integer",
        minimum=1,
    ),
    "vnodes": Param(
        None,
        title="Vnodes to repair",
        description_md="With **Repair**: numbers and ranges, such as `3, 8-15`.",
        type=["string", "null"],
    ),
    "keys": Param(
        None,
        title="Keys to repair",
        description_md="With **Repair**: a JSON list of keys, each a value, or a list with a value per key column.",
        type=["array", "null"],
    ),
}


@task
def choose_job(params: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the definition that the form chose, checked."""
    from airflow_backfill_provider.hooks.backfill import load_job
    from airflow_backfill_provider.hooks.errors import airflow_errors

    chosen = params or {}
    with airflow_errors():
        job = load_job(chosen.get("definition") or chosen.get("job") or {})
    return job.model_dump(mode="json", exclude_unset=True)


@task.branch
def choose_mutation(params: dict[str, Any] | None = None) -> str:
    """Return the task that the form chose."""
    return str((params or {})["mutation"])


@task(trigger_rule="none_failed_min_one_success")
def count_epochs(params: dict[str, Any] | None = None) -> list[None]:
    """Return one entry per epoch; ``None`` has each inject its own barrier."""
    return [None] * (params or {})["epochs"]


with DAG(
    "backfill_manual",
    schedule=None,
    params=params,
    default_args={"retries": 1},
    tags=["backfill"],
    doc_md=__doc__,
) as dag:
    job = choose_job()
    create = CreateBackfillJobOperator(task_id="create_job", job=job, spark_conn_id=SPARK_CONNECTION)
    mutation = choose_mutation()
    mutations = [
        EmptyOperator(task_id="none"),
        PauseBackfillOperator(task_id="pause", job=job),
        ResumeBackfillOperator(task_id="resume", job=job),
        ThrottleBackfillOperator(task_id="throttle", job=job, rate_limit="{{ params.rate_limit }}"),
        RescaleBackfillOperator(task_id="rescale", job=job, parallelism="{{ params.parallelism }}"),
        RepairBackfillOperator(
            task_id="repair", job=job, vnodes="{{ params.vnodes }}", keys="{{ params['keys'] | tojson }}"
        ),
    ]
    cancel = CancelBackfillOperator(task_id="cancel", job=job)
    barriers = count_epochs()
    epochs = RunEpochOperator.partial(
        task_id="run_epoch",
        job=job,
        spark_conn_id=SPARK_CONNECTION,
        max_active_tis_per_dagrun=1,
        map_index_template="{{ epoch }}",
    ).expand(barrier=barriers)
    finish = FinishMaterializedViewWhenDueOperator(task_id="finish_view", job=job)

    create >> mutation >> [*mutations, cancel]
    mutations >> barriers >> epochs >> finish
