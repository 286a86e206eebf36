"""Commands that mutate a job: pause, resume, throttle, rescale, repair, change, cancel. Two of them may start Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from airflow_backfill_provider.cli.options import Conf, Debug, JobFile, Master, pace_of, rate_limit_of, spark_conf
from airflow_backfill_provider.cli.output import console
from airflow_backfill_provider.cli.reporting import FAILED, reporting, say_error

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_backfill_provider.core.epoch.settings import JobSettings


@reporting
def pause(job: JobFile, *, debug: Debug = False) -> None:  # noqa: ARG001
    """Read no snapshot from the next epoch on. Epochs still apply changes."""
    from airflow_backfill_provider.cli.jobs import active_job, user
    from airflow_backfill_provider.jobs import mutations

    backfill, before = active_job(job)
    settings = mutations.pause_job(store=backfill.store, requested_by=user())
    say_changed(before, settings, "paused from the next epoch on")


@reporting
def resume(job: JobFile, *, debug: Debug = False) -> None:  # noqa: ARG001
    """Read the snapshot again from the next epoch on."""
    from airflow_backfill_provider.cli.jobs import active_job, user
    from airflow_backfill_provider.jobs import mutations

    backfill, before = active_job(job)
    settings = mutations.resume_job(store=backfill.store, requested_by=user())
    still = "; its rate limit is 0, so it still reads nothing" if settings.rate_limit == 0 else ""
    say_changed(before, settings, f"resumed from the next epoch on{still}")


@reporting
def throttle(
    job: JobFile,
    rate_limit: Annotated[
        str,
        typer.Argument(
            metavar="N|auto|none",
            help="Snapshot rows per epoch; 0 reads none, auto follows the measured speed, none is unlimited.",
        ),
    ],
    *,
    target_seconds: Annotated[
        float | None,
        typer.Option(
            "--target-seconds", metavar="S", help="With auto: how long an epoch should take; 60 at first.", min=0.001
        ),
    ] = None,
    max_rows_per_second: Annotated[
        str | None,
        typer.Option(
            "--max-rows-per-second",
            metavar="N|none",
            help="The most snapshot rows per second of a run of several epochs; not given, it stays as it is.",
        ),
    ] = None,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Set the rate limit, and the pace, from the next epoch on."""
    limit = rate_limit_of(rate_limit)
    from airflow_backfill_provider.cli.jobs import active_job, user
    from airflow_backfill_provider.core import text
    from airflow_backfill_provider.jobs import mutations

    pace = mutations.Unchanged.KEPT if max_rows_per_second is None else pace_of(max_rows_per_second)
    backfill, before = active_job(job)
    settings = mutations.throttle_job(
        limit,
        store=backfill.store,
        requested_by=user(),
        target_epoch_seconds=target_seconds,
        max_rows_per_second=pace,
    )
    rate = settings.rate
    new = (
        f"auto, for epochs of about {text.duration(rate.target)},"
        if isinstance(limit, str)
        else "unlimited"
        if limit is None
        else f"{text.rows(limit)} per epoch"
    )
    paced = "" if rate.max_rows_per_second is None else f"; at most {text.rows(rate.max_rows_per_second)} per second"
    say_changed(before, settings, f"rate limit is {new} from the next epoch on{paced}")


@reporting
def rescale(
    job: JobFile,
    parallelism: Annotated[int, typer.Argument(metavar="N", min=1, help="Parallel task runs.")],
    *,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Let N parallel task runs share each epoch from the next one on. Not under no_shuffle and cdc."""
    from airflow_backfill_provider.cli.jobs import active_job, user
    from airflow_backfill_provider.jobs import mutations

    backfill, before = active_job(job)
    settings = mutations.rescale_job(parallelism, store=backfill.store, requested_by=user())
    runs = "one task run reads" if parallelism == 1 else f"{parallelism} parallel task runs share"
    say_changed(before, settings, f"{runs} the vnodes from the next epoch on")


@reporting
def repair(
    job: JobFile,
    *,
    vnodes: Annotated[
        str | None, typer.Option(metavar="LIST", help="Vnodes to repair: numbers and ranges, such as 3,8-15.")
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            metavar="KEY",
            help="A key to repair: a value, or a JSON list with a value for each key column; may be repeated.",
            show_default=False,
        ),
    ] = None,
    master: Master = None,
    conf: Conf = None,
    debug: Debug = False,
) -> None:
    """
    Rewrite rows of the view from the upstream: chosen rows, or those that the last verification found to differ.

    The next epoch repairs chosen rows; run the job to carry it out. Without a choice, this command starts Spark, runs
    the next epoch and verifies the view again; exit code 1 if it still differs. Rows that are not read yet stay unread.
    """
    if not (vnodes or key):
        _repair_what_differs(job, master=master, conf=conf, debug=debug)
        return
    from airflow_backfill_provider.cli.jobs import created_job, user
    from airflow_backfill_provider.cli.options import key_of
    from airflow_backfill_provider.protocol.repairs import ask_for_repair_of

    backfill, before = created_job(job)
    units = map(key_of, key or ())
    settings = ask_for_repair_of(backfill, [vnodes] if vnodes else (), units, requested_by=user())
    say_changed(before, settings, "the next epoch repairs the chosen rows")


@reporting
def change(
    job: JobFile,
    *,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", metavar="", help="Only show what the change is and what it costs.", show_default=False
        ),
    ] = False,
    master: Master = None,
    conf: Conf = None,
    debug: Debug = False,
) -> None:
    """
    Change the query of a finished view to that of the file, without another backfill.

    Prints the class of the change and its cost first. Starts Spark to check a query that may change rows; --dry-run
    starts none. The next epoch writes what differs, together with its changes, in one commit. What only a rebuild can
    change is refused.
    """
    from airflow_backfill_provider.cli.changing import change_job, propose
    from airflow_backfill_provider.cli.jobs import created_job
    from airflow_backfill_provider.cli.spark import LazySpark

    backfill, _ = created_job(job)
    proposed = propose(job, backfill)
    if dry_run:
        return
    with LazySpark(backfill, master=master, conf=spark_conf(conf), debug=debug, purpose="rebuild") as spark:
        change_job(job, backfill, proposed, engine=spark)


@reporting
def cancel(job: JobFile, *, debug: Debug = False) -> None:  # noqa: ARG001
    """
    Stop a job for good. Its view stays as the last epoch left it.

    Of a job that was never created, remove what a create that died left in its database.
    """
    from airflow_backfill_provider.cli.jobs import open_job, user
    from airflow_backfill_provider.jobs import mutations

    backfill = open_job(job)
    before = backfill.settings() if backfill.store.created() else None
    settings = mutations.cancel(backfill, requested_by=user())
    if before is None or settings is None:
        typer.echo(f"{backfill.job.name}: was not created; what was left of it is removed")
    else:
        say_changed(before, settings, "cancelled; rebuild starts it over")


def _repair_what_differs(job: Path, *, master: str | None, conf: list[str] | None, debug: bool) -> None:
    from airflow_backfill_provider.cli import verifying
    from airflow_backfill_provider.cli.jobs import requester, unchanged_job
    from airflow_backfill_provider.cli.spark import LazySpark

    backfill, _ = unchanged_job(job)
    # With the same purpose as `run`, this command ends the session of a killed `run` on a server.
    with LazySpark(backfill, master=master, conf=spark_conf(conf), debug=debug, purpose="epoch") as spark:
        found = verifying.repair(backfill, engine=spark, requester=requester(), console=console())
    if not found.equal:
        say_error(f"the view of job {backfill.job.name} still differs from its query over the upstream")
        raise typer.Exit(FAILED)


def say_changed(before: JobSettings, after: JobSettings, what: str) -> None:
    """Print the settings that are now in force."""
    same = " (as before)" if after.sequence == before.sequence else ""
    typer.echo(f"{after.job['name']}: {what}{same}")
