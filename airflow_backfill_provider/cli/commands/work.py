"""Commands that write the view: create, run, compact, forget, rebuild, revert. They start Spark."""

from __future__ import annotations

from typing import Annotated

import typer

from airflow_backfill_provider.cli.options import Conf, Debug, DiscardHistory, JobFile, Master, spark_conf
from airflow_backfill_provider.cli.output import console
from airflow_backfill_provider.cli.reporting import reporting
from airflow_backfill_provider.core.status.chain import waits_for
from airflow_backfill_provider.core.status.compaction import APPLICATION, CompactionPolicy


@reporting
def create(
    job: JobFile,
    *,
    paused: Annotated[
        bool,
        typer.Option("--paused", metavar="", help="Read no snapshot until the job is resumed.", show_default=False),
    ] = False,
    master: Master = None,
    conf: Conf = None,
    debug: Debug = False,
) -> None:
    """
    Create a job and the empty table of its view, or adopt an existing table as its view. Starts Spark.

    Does nothing for a job that was created with the same definition.
    """
    from airflow_backfill_provider.cli.adopting import saying_keys
    from airflow_backfill_provider.cli.jobs import open_job, user
    from airflow_backfill_provider.cli.spark import LazySpark
    from airflow_backfill_provider.core.status.adoption_text import adoption_lines
    from airflow_backfill_provider.jobs import creation
    from airflow_backfill_provider.jobs import table_locator as placement

    backfill = open_job(job)
    existed = backfill.store.created()
    with LazySpark(backfill, master=master, conf=spark_conf(conf), debug=debug, purpose="create") as spark:
        backfill = placement.to_create(backfill, spark)
        with saying_keys():
            settings = creation.create_job(
                backfill.job.model_copy(update={"paused": True}) if paused else backfill.job,
                store=backfill.store,
                upstream=backfill.upstream,
                engine=spark,
                requested_by=user(),
            )
    done = "was created already" if existed else "created"
    pause = ", paused" if settings.paused else ", not paused" if paused else ""
    typer.echo(f"{backfill.job.name}: {done}{pause}, strategy {settings.strategy}, state at {backfill.job.state}")
    for line in () if existed else adoption_lines(settings):
        typer.echo(f"{backfill.job.name}: {line}")
    if waiting := waits_for(backfill.chain):
        typer.echo(f"{backfill.job.name}: {waiting}")


@reporting
def run(
    job: JobFile,
    *,
    max_epochs: Annotated[
        int | None,
        typer.Option("--max-epochs", metavar="N", min=1, help="Run at most N epochs.", show_default="1"),
    ] = None,
    until_finished: Annotated[
        bool,
        typer.Option("--until-finished", metavar="", help="Run epochs until the view is finished.", show_default=False),
    ] = False,
    master: Master = None,
    conf: Conf = None,
    debug: Debug = False,
) -> None:
    """
    Run the next epoch, or several. Starts Spark, but only if there is something to do.

    With --until-finished, it also stops with exit code 0 if the job is paused or its rate limit is 0. It then applies
    the pending changes, and prints why it stopped.

    While a rebuild grows beside the view, epochs of both are run in turn, until the rebuild takes the view's place.

    Running it twice at once, or again after a crash, is safe.
    """
    from airflow_backfill_provider.cli.jobs import requester, unchanged_job
    from airflow_backfill_provider.cli.runner import Runner
    from airflow_backfill_provider.cli.spark import LazySpark
    from airflow_backfill_provider.cli.succession import run_with_successor
    from airflow_backfill_provider.cli.views import progress_view

    backfill, _ = unchanged_job(job)
    epochs = 1 if max_epochs is None and not until_finished else max_epochs
    with (
        LazySpark(backfill, master=master, conf=spark_conf(conf), debug=debug, purpose="epoch") as spark,
        progress_view(console()) as view,
    ):
        runner = Runner(backfill=backfill, engine=spark, requester=requester(), view=view)
        if backfill.successor is None:
            runner.run(max_epochs=epochs, until_finished=until_finished)
        else:
            run_with_successor(runner, max_epochs=epochs)


@reporting
def compact(
    job: JobFile,
    *,
    at: Annotated[
        int, typer.Option("--at", metavar="N", min=1, help="Compact only if that saves at least N files.")
    ] = CompactionPolicy().at,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Only show what would be done.", show_default=False)
    ] = False,
    master: Master = None,
    conf: Conf = None,
    debug: Debug = False,
) -> None:
    """
    Compact the view's small files. Starts Spark, but only if that is due.

    Changes no row; epochs may run before, after and during it. --dry-run starts no Spark.
    """
    from airflow_backfill_provider.cli.jobs import created_job
    from airflow_backfill_provider.cli.spark import LazySpark
    from airflow_backfill_provider.jobs.maintenance import compaction
    from airflow_backfill_provider.jobs.maintenance.compaction_text import done_lines, look_lines

    backfill, _ = created_job(job)
    policy = CompactionPolicy(at=at)
    for line in look_lines(compaction.look(backfill, policy)):
        typer.echo(f"{backfill.job.name}: {line}")
    if dry_run:
        return
    with LazySpark(backfill, master=master, conf=spark_conf(conf), debug=debug, purpose=APPLICATION) as spark:
        done = compaction.compact_job(backfill, engine=spark, policy=policy)
    for line in done_lines(done):
        typer.echo(f"{backfill.job.name}: {line}")


@reporting
def forget(
    job: JobFile,
    *,
    key: Annotated[
        list[str],
        typer.Option(
            "--key",
            metavar="KEY",
            help="A key of the upstream: a value, or a JSON list with a value for each key column; may be repeated.",
            show_default=False,
        ),
    ],
    master: Master = None,
    conf: Conf = None,
    debug: Debug = False,
) -> None:
    """
    Erase the former rows of keys from a view that keeps them (keep: deleted or history). Starts Spark.

    The current row of a key stays; it goes when the upstream has removed the row. Older versions of the view have the
    erased rows until VACUUM.
    """
    from airflow_backfill_provider.cli.jobs import created_job
    from airflow_backfill_provider.cli.options import key_of
    from airflow_backfill_provider.cli.spark import LazySpark
    from airflow_backfill_provider.core import text
    from airflow_backfill_provider.jobs.maintenance.forgetting import forget_keys

    backfill, _ = created_job(job)
    with LazySpark(backfill, master=master, conf=spark_conf(conf), debug=debug, purpose=APPLICATION) as spark:
        erased = forget_keys(backfill, map(key_of, key), engine=spark)
    typer.echo(f"{backfill.job.name}: {text.rows(erased)} erased; VACUUM removes them from storage")


@reporting
def rebuild(
    job: JobFile,
    *,
    keep_serving: Annotated[
        bool,
        typer.Option(
            "--keep-serving",
            metavar="",
            help="Keep the former view fresh until the rebuild is finished and takes its place.",
            show_default=False,
        ),
    ] = False,
    discard_history: DiscardHistory = False,
    downstream: Annotated[
        bool,
        typer.Option(
            "--downstream",
            metavar="",
            help="Then rebuild the jobs that read the view, whose files lie beside this one, and run all of them.",
            show_default=False,
        ),
    ] = False,
    master: Master = None,
    conf: Conf = None,
    debug: Debug = False,
) -> None:
    """
    Start over, possibly with a changed definition: empties the view, unless it keeps serving. Starts Spark.

    Use it also after cancel, after the upstream was replaced, and after a gap in its changes. `revert` undoes it.

    With --downstream, each job is run until its view is finished, before the jobs that read it are rebuilt.
    """
    from airflow_backfill_provider.cli.jobs import created_job
    from airflow_backfill_provider.cli.rebuilding import jobs_downstream, rebuild_in_order, start_over
    from airflow_backfill_provider.cli.spark import LazySpark
    from airflow_backfill_provider.cli.views import progress_view

    backfill, _ = created_job(job)
    following = jobs_downstream(job) if downstream else []
    with LazySpark(backfill, master=master, conf=spark_conf(conf), debug=debug, purpose="rebuild") as spark:
        if downstream:
            with progress_view(console()) as view:
                rebuild_in_order(
                    [backfill, *following], spark, view, keep_serving=keep_serving, discard_history=discard_history
                )
            return
        start_over(backfill, spark, keep_serving=keep_serving, discard_history=discard_history)
    done = (
        "a rebuild grows beside its view; run the job until it takes the view's place"
        if keep_serving
        else "rebuilt; its view is empty until the next epoch"
    )
    typer.echo(f"{backfill.job.name}: {done}")


@reporting
def revert(
    job: JobFile,
    *,
    discard_history: DiscardHistory = False,
    master: Master = None,
    conf: Conf = None,
    debug: Debug = False,
) -> None:
    """
    Undo the newest rebuild: give it up while it grows beside the view, or put the former view back.

    Also gives up a change that waits for an approval.

    The former view can be put back as long as its files and the upstream's changes since then are kept. This starts
    Spark; giving a rebuild up does not.
    """
    from airflow_backfill_provider.cli.jobs import created_job, user
    from airflow_backfill_provider.cli.spark import LazySpark
    from airflow_backfill_provider.jobs.revert import give_up_successor, put_back

    backfill, _ = created_job(job)
    if given_up := give_up_successor(backfill.store, requested_by=user()):
        typer.echo(f"{backfill.job.name}: the {given_up} is given up; its view stays as it is")
        return
    with LazySpark(backfill, master=master, conf=spark_conf(conf), debug=debug, purpose="rebuild") as spark:
        put_back(backfill.store, engine=spark, requested_by=user(), discard_history=discard_history)
    typer.echo(f"{backfill.job.name}: the former view is back; the next epoch brings it up to date")
