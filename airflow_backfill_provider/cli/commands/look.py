"""Commands that only look: plan, status, watch, verify."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from airflow_backfill_provider.cli.options import AsJson, Conf, Debug, JobFile, Master, spark_conf
from airflow_backfill_provider.cli.output import console, print_json
from airflow_backfill_provider.cli.reporting import FAILED, reporting, say_error


@reporting
def plan(job: JobFile, *, as_json: AsJson = False, debug: Debug = False) -> None:  # noqa: ARG001 - for reporting
    """
    Show what a backfill would do: strategy, rows, bytes, epochs. Writes nothing.

    Works before create, and afterwards for what is left.
    """
    from airflow_backfill_provider.cli.jobs import open_job
    from airflow_backfill_provider.cli.planning import show_plan
    from airflow_backfill_provider.planning import make_plan

    planned = make_plan(open_job(job))
    if as_json:
        print_json(planned.model_dump(mode="json"))
    else:
        show_plan(planned, console())


@reporting
def status(job: JobFile, *, as_json: AsJson = False, debug: Debug = False) -> None:  # noqa: ARG001
    """Show how far a job is."""
    from airflow_backfill_provider.cli.jobs import created_job
    from airflow_backfill_provider.cli.views import show_status

    now = created_job(job)[0].status()
    if as_json:
        print_json(now.model_dump(mode="json"))
    else:
        show_status(now, console())


@reporting
def watch(
    job: JobFile,
    *,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 2.0,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Watch a job until its view is finished. Runs nothing itself."""
    from airflow_backfill_provider.cli.jobs import created_job
    from airflow_backfill_provider.cli.views import progress_view

    backfill, _ = created_job(job)
    with progress_view(console()) as view:
        while True:
            now = backfill.status()
            view.show(now, "" if now.pinned_epoch is None else f"epoch {now.pinned_epoch} is pinned")
            if now.finished:
                return
            if now.cancelled:
                view.say("cancelled; it will not be finished")
                raise typer.Exit(FAILED)
            time.sleep(interval)


@reporting
def verify(job: JobFile, *, master: Master = None, conf: Conf = None, debug: Debug = False) -> None:
    """
    Compare the view row by row with the query over the upstream, as of the last epoch. Starts Spark.

    Exit code 1 if they differ.
    """
    from airflow_backfill_provider.cli.jobs import unchanged_job
    from airflow_backfill_provider.cli.spark import LazySpark
    from airflow_backfill_provider.cli.verifying import verify_job

    backfill, _ = unchanged_job(job)
    with LazySpark(backfill, master=master, conf=spark_conf(conf), debug=debug, run="verify") as spark:
        equal = verify_job(backfill, spark, console())
    if not equal:
        say_error(f"the view of job {backfill.job.name} differs from its query over the upstream")
        raise typer.Exit(FAILED)
