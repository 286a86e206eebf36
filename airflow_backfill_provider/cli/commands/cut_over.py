"""Commands of a cut-over that waits for an approval: diff and approve."""

from __future__ import annotations

from typing import Annotated

import typer

from airflow_backfill_provider.cli.options import AsJson, Conf, Debug, JobFile, Master, spark_conf
from airflow_backfill_provider.cli.output import print_json
from airflow_backfill_provider.cli.reporting import reporting


@reporting
def diff(
    job: JobFile,
    *,
    values: Annotated[
        bool,
        typer.Option(
            "--values",
            metavar="",
            help="Also print the rows of the sampled keys, now and then. They are recorded nowhere.",
            show_default=False,
        ),
    ] = False,
    recorded: Annotated[
        bool,
        typer.Option(
            "--recorded", metavar="", help="Show the newest recorded difference. Starts no Spark.", show_default=False
        ),
    ] = False,
    as_json: AsJson = False,
    master: Master = None,
    conf: Conf = None,
    debug: Debug = False,
) -> None:
    """
    Show how a backfill, a rebuild or a change that waits for an approval differs from the view that serves.

    Prints rows added, removed and changed, columns with counts, and a sample of keys, and records all of this for
    `approve`. Starts Spark. Epochs may run meanwhile: the compared versions are pinned.
    """
    from airflow_backfill_provider.cli.differences import compare, newest, show_difference
    from airflow_backfill_provider.cli.jobs import created_job
    from airflow_backfill_provider.cli.spark import LazySpark

    if recorded and values:
        raise typer.BadParameter("values are not recorded; leave one of them out", param_hint="--recorded --values")
    backfill, _ = created_job(job)
    with LazySpark(backfill, master=master, conf=spark_conf(conf), debug=debug, purpose="diff") as spark:
        found, rows = (newest(backfill), []) if recorded else compare(backfill, spark, with_values=values)
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        show_difference(found, rows)


@reporting
def approve(
    job: JobFile,
    *,
    difference: Annotated[
        int | None,
        typer.Option(
            "--difference", metavar="N", min=1, help="The difference that was seen.", show_default="the newest"
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Only show what would be approved.", show_default=False)
    ] = False,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """
    Let a backfill, a rebuild or a change that waits go live. Needs a recorded difference; starts no Spark.

    The next epochs do the rest, in one commit of the view. Later epochs do not void an approval; another definition and
    another rebuild do.
    """
    from airflow_backfill_provider.cli.differences import show_difference
    from airflow_backfill_provider.cli.jobs import created_job, user
    from airflow_backfill_provider.jobs import cut_over
    from airflow_backfill_provider.jobs.verification.view_differences import difference_to_approve

    backfill, _ = created_job(job)
    found = difference_to_approve(backfill, difference)
    show_difference(found)
    if dry_run:
        return
    settings = cut_over.approve(found, store=backfill.store, approved_by=user())
    typer.echo(f"{settings.job['name']}: approved; run the job to let {found.subject.kind.words} go live")
