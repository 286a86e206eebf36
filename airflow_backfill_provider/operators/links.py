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
    """To the page that shows how far the backfill is."""

    name = "Backfill"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Return the page's address, in the tab of the DAG."""
        job = load_job(operator.job)
        return f"{_airflow()}/dags/{_quoted(ti_key.dag_id)}/plugin/backfill?job={_quoted(job.name)}"


@attrs.define()
class MaterializedViewLink(BaseOperatorLink):
    """To the view among Airflow's assets, with its events and the DAGs that wait for it."""

    name = "Materialized view"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Return the address of the assets with the view's name."""
        del ti_key
        job = load_job(operator.job)
        return f"{_airflow()}/assets?name_pattern={_quoted(job.name)}"


@attrs.define()
class SparkApplicationLink(BaseOperatorLink):
    """To Spark's pages of the task's application while it runs, and to what is known of it afterwards."""

    name = "Spark application"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """Return the application's address; none if the task needed none."""
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
