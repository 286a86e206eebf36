"""Links in the details of a task run: to the backfill's page, the view's asset, and the Spark application."""

from __future__ import annotations

import urllib.parse
from typing import TYPE_CHECKING, Any

import attrs
from airflow.sdk import BaseOperatorLink, conf

from airflow_backfill_provider.hooks.backfill import load_job

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey


@attrs.define()
class BackfillLink(BaseOperatorLink):
    """Link to the page of the backfill."""

    name = "Backfill"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Return the address of the page, in the DAG's tab."""
        job = load_job(operator.job)
        return f"{_airflow()}/dags/{_quoted(ti_key.dag_id)}/plugin/backfill?job={_quoted(job.name)}"


@attrs.define()
class MaterializedViewLink(BaseOperatorLink):
    """Link to the view's asset in Airflow, with its events and the DAGs that it triggers."""

    name = "Materialized view"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Return the address of the list of assets with the view's name."""
        del ti_key
        job = load_job(operator.job)
        return f"{_airflow()}/assets?name_pattern={_quoted(job.name)}"


@attrs.define()
class SparkApplicationLink(BaseOperatorLink):
    """Link to Spark's UI while the task's application runs, and to a page with its record afterwards."""

    name = "Spark application"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Return the address, or an empty string if the task ran no application."""
        if operator.application is None:
            return ""
        job = load_job(operator.job)
        return (
            f"{_airflow()}/backfill/dags/{_quoted(ti_key.dag_id)}/jobs/{_quoted(job.name)}"
            f"/applications/{_quoted(operator.application)}"
        )


def _airflow() -> str:
    return str(conf.get("api", "base_url", fallback="")).rstrip("/")


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="")
