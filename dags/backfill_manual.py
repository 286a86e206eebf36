"""
Run any job by hand: choose it in the trigger form, mutate it, and run some epochs.

This DAG uses the operators without the task group. The environment says what the form offers:

- ``AIRFLOW_BACKFILL_JOBS``: the folder with the YAML files to choose from;
- ``AIRFLOW_BACKFILL_JOB``: path of one more YAML file, offered first;
- ``AIRFLOW_BACKFILL_SPARK_CONNECTION``: a Spark connection; without it, Spark runs on the worker;
- ``AIRFLOW_BACKFILL_ALLOWED_ROOTS``: the folders that jobs may use; without it, a definition in the form is refused.
"""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param, TaskGroup, task

from airflow_backfill_provider.assets import MATERIALIZED_VIEWS
from airflow_backfill_provider.core.job.definition import MAX_VNODE_COUNT, BackfillJob
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

SETTINGS = "Change the settings first"
SPARK = "Start Spark less often"
OTHER = "A definition instead of a file"

# Bold and not code inside of longer texts, because in the form the box of a code span covers the line above it.
params = {
    "job": Param(
        next(iter(files), None),
        title="Job",
        description_md=f"One of the definitions in {FOLDER}. The job is created if it does not exist yet.",
        type=["string", "null"],
        enum=[*files, None],
        values_display=files,
    ),
    "epochs": Param(
        1,
        title="Epochs",
        description_md="How many epochs to run, one after another. Each reads as many rows of history as the job's "
        "rate limit allows, and applies the upstream's changes. When nothing is left to do, the others end at once. "
        "**0** only creates and mutates the job.",
        type="integer",
        minimum=0,
        maximum=1000,
    ),
    "mutation": Param(
        "none",
        title="Change",
        description_md="Takes effect with the first of the epochs, and stays in force after this DAG run.",
        type="string",
        enum=["none", "pause", "resume", "throttle", "auto", "rescale", "repair", "cancel"],
        values_display={
            "none": "None: keep the settings",
            "pause": "Pause: read no snapshot, still apply changes",
            "resume": "Resume: read the snapshot again",
            "throttle": "Throttle: change the rate limit",
            "auto": "Auto: let the rate limit follow the measured speed",
            "rescale": "Rescale: change how many task runs share an epoch",
            "repair": "Repair: write chosen rows of the view again",
            "cancel": "Cancel: stop the job for good; no epochs run",
        },
        section=SETTINGS,
    ),
    "rate_limit": Param(
        None,
        title="Throttle: rate limit",
        description_md="Snapshot rows per epoch. Empty is unlimited, **0** reads none. Only with *Throttle*.",
        type=["integer", "null"],
        minimum=0,
        section=SETTINGS,
    ),
    "target_epoch_seconds": Param(
        None,
        title="Auto: seconds per epoch",
        description_md="How long an epoch should take. Empty keeps what is in force, or **60**. Only with *Auto*.",
        type=["number", "null"],
        exclusiveMinimum=0,
        section=SETTINGS,
    ),
    "parallelism": Param(
        1,
        title="Rescale: parallel task runs",
        description_md="How many task runs share an epoch, at most one for each vnode. Not under the strategies "
        "**no_shuffle** and **cdc**. Only with *Rescale*.",
        type="integer",
        minimum=1,
        maximum=MAX_VNODE_COUNT,
        section=SETTINGS,
    ),
    "vnodes": Param(
        None,
        title="Repair: vnodes",
        description_md="Numbers and ranges, such as **3, 8-15**. Only with *Repair*.",
        type=["string", "null"],
        pattern=r"^\s*\d+(\s*-\s*\d+)?(\s*,\s*\d+(\s*-\s*\d+)?)*\s*$",
        section=SETTINGS,
    ),
    "keys": Param(
        None,
        title="Repair: keys",
        description_md="A JSON list of keys, such as **[4711, 4712]**; if the key has several columns, a list of "
        "lists. Only with *Repair*.",
        type=["array", "null"],
        # Items of other types than text make the form take JSON instead of a text in each line.
        items={"type": ["string", "number", "boolean", "array", "null"]},
        section=SETTINGS,
    ),
    "epochs_per_run": Param(
        1,
        title="Epochs per Spark application",
        description_md="How many epochs one task run and its Spark application run. A larger number starts Spark less "
        "often; mutations still take effect with the next epoch.",
        type="integer",
        minimum=1,
        maximum=1000,
        section=SPARK,
    ),
    "definition": Param(
        None,
        title="Definition",
        description_md="The fields of a job as JSON; then the job above is ignored. It is refused unless an "
        "administrator has set AIRFLOW_BACKFILL_ALLOWED_ROOTS. For example:\n\n"
        '```json\n{"name": "paid_orders",\n "upstream": {"path": "/lake/orders", "key": ["order_id"]},\n'
        ' "materialized_view": "/lake/paid_orders",\n'
        ' "query": "SELECT order_id, amount FROM upstream WHERE status = \'paid\'"}\n```\n\n'
        "For a table in PostgreSQL, the upstream names an Airflow connection, which has the address and the password:"
        '\n\n```json\n{"postgres": {"connection": "shop_db", "table": "public.orders", "key": ["order_id"]}}\n```',
        type=["object", "null"],
        properties={name: {} for name in BackfillJob.model_fields},
        additionalProperties=False,
        # The form's editor turns an empty value into an empty object.
        anyOf=[
            {"maxProperties": 0},
            {"required": [name for name, field in BackfillJob.model_fields.items() if field.is_required()]},
        ],
        section=OTHER,
    ),
}


@task
def choose_job(params: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the chosen definition, and check it."""
    from airflow.sdk.exceptions import AirflowFailException

    from airflow_backfill_provider.hooks.backfill import load_job
    from airflow_backfill_provider.hooks.errors import airflow_errors
    from airflow_backfill_provider.lake.store.allowed_roots import require_restricted

    chosen = params or {}
    definition = chosen.get("definition") or chosen.get("job")
    if not definition:
        raise AirflowFailException("no job is chosen; choose a file in the form, or write a definition")
    with airflow_errors():
        if chosen.get("definition"):
            require_restricted("a definition in the form")
        job = load_job(definition)
    return job.model_dump(mode="json", exclude_unset=True)


@task.branch
def choose_mutation(params: dict[str, Any] | None = None) -> str:
    """Return the task of the chosen mutation."""
    return str((params or {})["mutation"])


@task(trigger_rule="none_failed_min_one_success")
def share_epochs(params: dict[str, Any] | None = None) -> list[int]:
    """Return the number of epochs of each task run."""
    chosen = params or {}
    epochs, most = chosen["epochs"], chosen["epochs_per_run"]
    return [min(most, epochs - shared) for shared in range(0, epochs, most)]


with DAG(
    "backfill_manual",
    schedule=None,
    params=params,
    default_args={"retries": 1, "retry_delay": dt.timedelta(seconds=30)},
    tags=["backfill"],
    doc_md=__doc__,
) as dag:
    job = choose_job()
    create = CreateBackfillJobOperator(task_id="create_job", job=job, spark_conn_id=SPARK_CONNECTION)
    with TaskGroup("change_settings", prefix_group_id=False):
        mutation = choose_mutation()
        mutations = [
            EmptyOperator(task_id="none"),
            PauseBackfillOperator(task_id="pause", job=job),
            ResumeBackfillOperator(task_id="resume", job=job),
            ThrottleBackfillOperator(task_id="throttle", job=job, rate_limit="{{ params.rate_limit }}"),
            ThrottleBackfillOperator(
                task_id="auto",
                job=job,
                rate_limit="auto",
                target_epoch_seconds="{{ params.target_epoch_seconds }}",
            ),
            RescaleBackfillOperator(task_id="rescale", job=job, parallelism="{{ params.parallelism }}"),
            RepairBackfillOperator(
                task_id="repair", job=job, vnodes="{{ params.vnodes }}", keys="{{ params['keys'] | tojson }}"
            ),
        ]
        cancel = CancelBackfillOperator(task_id="cancel", job=job)
    shares = share_epochs()
    epochs = RunEpochOperator.partial(
        task_id="run_epoch",
        job=job,
        spark_conn_id=SPARK_CONNECTION,
        max_active_tis_per_dagrun=1,
        map_index_template="{{ epoch }}",
        outlets=[MATERIALIZED_VIEWS],
    ).expand(epochs_per_run=shares)
    finish = FinishMaterializedViewWhenDueOperator(task_id="finish_view", job=job, outlets=[MATERIALIZED_VIEWS])

    create >> mutation >> [*mutations, cancel]
    mutations >> shares >> epochs >> finish
