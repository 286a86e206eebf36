"""Commands that only look: plan, status, watch, verify, why."""

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

    Works before create, and afterwards for the rest of the backfill. If the file has another definition than a
    finished view, show what `change` would do instead.
    """
    from airflow_backfill_provider.cli.changing import described, is_another, propose
    from airflow_backfill_provider.cli.jobs import open_job
    from airflow_backfill_provider.cli.planning import show_plan
    from airflow_backfill_provider.jobs.planning.plan import make_plan

    backfill = open_job(job)
    if is_another(backfill):
        if as_json:
            print_json(described(backfill))
        else:
            propose(job, backfill)
        return
    planned = make_plan(backfill)
    if as_json:
        print_json(planned.model_dump(mode="json"))
    else:
        show_plan(planned, console())


@reporting
def status(job: JobFile, *, as_json: AsJson = False, debug: Debug = False) -> None:  # noqa: ARG001
    """Show the progress of a job."""
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
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two refreshes.")] = 2.0,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Watch a job until its view is finished, or its rebuild takes the view's place. Runs no epochs itself."""
    from airflow_backfill_provider.cli.jobs import created_job
    from airflow_backfill_provider.cli.views import progress_view

    backfill, _ = created_job(job)
    with progress_view(console()) as view:
        while True:
            now = backfill.status()
            view.show(now, "" if now.pinned_epoch is None else f"epoch {now.pinned_epoch} is pinned")
            if now.finished and now.rebuild is None:
                return
            if now.cancelled:
                view.say("cancelled; the view will not be finished")
                raise typer.Exit(FAILED)
            time.sleep(interval)


@reporting
def verify(
    job: JobFile,
    *,
    anew: Annotated[
        bool,
        typer.Option(
            "--anew", metavar="", help="Begin a new one, even if the newest one is not finished.", show_default=False
        ),
    ] = False,
    steps: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Steps, each of some vnodes.", show_default="from the upstream's rows"),
    ] = None,
    as_json: AsJson = False,
    master: Master = None,
    conf: Conf = None,
    debug: Debug = False,
) -> None:
    """
    Compare the view with the query over the upstream, as of the last epoch, and record the result. Starts Spark.

    Continues an interrupted verification. Exit code 1 if they differ.
    """
    from airflow_backfill_provider.cli import verifying
    from airflow_backfill_provider.cli.jobs import requester, unchanged_job
    from airflow_backfill_provider.cli.spark import LazySpark

    backfill, _ = unchanged_job(job)
    with LazySpark(backfill, master=master, conf=spark_conf(conf), debug=debug, purpose="verify") as spark:
        found = verifying.verify(
            backfill,
            engine=spark,
            requester=requester(),
            anew=anew,
            steps=steps,
            console=None if as_json else console(),
        )
    if as_json:
        print_json(found.model_dump(mode="json"))
    if not found.equal:
        say_error(f"the view of job {backfill.job.name} differs from its query over the upstream")
        raise typer.Exit(FAILED)


@reporting
def why(
    job: JobFile,
    *,
    key: Annotated[
        str,
        typer.Option(
            metavar="KEY",
            help="The row's key in the upstream, or the columns of a group; a JSON list if these are several.",
            show_default=False,
        ),
    ],
    yes: Annotated[
        bool,
        typer.Option(
            "--yes", metavar="", help="Start Spark without asking, if the answer takes it.", show_default=False
        ),
    ] = False,
    as_json: AsJson = False,
    master: Master = None,
    conf: Conf = None,
    debug: Debug = False,
) -> None:
    """
    Show which epoch wrote a row of the view and from which commit of the upstream; or why the view does not have it.

    Starts Spark only if the logs and a few files don't answer, and then says first what that costs.
    """
    from airflow_backfill_provider.cli.explaining import explain
    from airflow_backfill_provider.cli.jobs import created_job
    from airflow_backfill_provider.cli.options import key_of
    from airflow_backfill_provider.cli.spark import LazySpark
    from airflow_backfill_provider.core.status.row_answer_text import describe

    backfill, _ = created_job(job)
    with LazySpark(backfill, master=master, conf=spark_conf(conf), debug=debug, purpose="why") as spark:
        answer = explain(backfill, key_of(key), finder=lambda: spark().row_finder(), starts=yes)
    if as_json:
        print_json(answer.model_dump(mode="json"))
        return
    for line in describe(answer):
        console().print(line)
