"""
``airflow-backfill COMMAND JOB.yaml [value] [options]``: what the operators do, from a terminal.

Ends with exit code 0 if it did what was asked, 1 if it failed (one line on stderr says why), 2 if it was called in
a wrong way, 130 if it was interrupted. Everything heavy is imported by the command that needs it, so that help
and the commands without Spark are quick.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from airflow_backfill_provider import __version__
from airflow_backfill_provider.cli import options
from airflow_backfill_provider.cli.options import AsJson, Conf, Debug, JobFile, Master
from airflow_backfill_provider.cli.reporting import FAILED, interrupted, reporting, say_error

if TYPE_CHECKING:
    from rich.console import Console

    from airflow_backfill_provider.backfill import Backfill
    from airflow_backfill_provider.cli.spark import LazySpark
    from airflow_backfill_provider.core.settings import JobSettings

app = typer.Typer(
    name="airflow-backfill",
    help="Backfill a materialized view over a changing Delta table, epoch by epoch.",
    epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. Object stores: put their options as a "
    "JSON object into AIRFLOW_BACKFILL_STORAGE_OPTIONS.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_LOOK, _WORK, _STEER = "Look", "Work", "Steer"


def main() -> None:
    """Run the program."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(interrupted().exit_code)


def _print_version(value: bool) -> None:  # noqa: FBT001 - a callback of typer
    if value:
        typer.echo(f"airflow-backfill {__version__}")
        raise typer.Exit


@app.callback()
def program(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Backfill a materialized view over a changing Delta table, epoch by epoch."""


# ----------------------------------------------------------------------------------------------------------- look


@app.command(rich_help_panel=_LOOK)
@reporting
def plan(job: JobFile, *, as_json: AsJson = False, debug: Debug = False) -> None:  # noqa: ARG001 - for reporting
    """
    Show what a backfill would do: strategy, rows, bytes, epochs. Writes nothing.

    Works before create, and afterwards for what is left.
    """
    from airflow_backfill_provider.cli.jobs import open_job
    from airflow_backfill_provider.cli.planning import make_plan, show_plan

    planned = make_plan(open_job(job))
    if as_json:
        _print_json(planned.model_dump(mode="json"))
    else:
        show_plan(planned, _console())


@app.command(rich_help_panel=_LOOK)
@reporting
def status(job: JobFile, *, as_json: AsJson = False, debug: Debug = False) -> None:  # noqa: ARG001
    """Show how far a job is."""
    from airflow_backfill_provider.cli.jobs import created_job
    from airflow_backfill_provider.cli.views import show_status

    now = created_job(job)[0].status()
    if as_json:
        _print_json(now.model_dump(mode="json"))
    else:
        show_status(now, _console())


@app.command(rich_help_panel=_LOOK)
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
    with progress_view(_console()) as view:
        while True:
            now = backfill.status()
            view.show(now, "" if now.pinned_epoch is None else f"epoch {now.pinned_epoch} is pinned")
            if now.finished:
                return
            if now.cancelled:
                view.say("cancelled; it will not be finished")
                raise typer.Exit(FAILED)
            time.sleep(interval)


@app.command(rich_help_panel=_LOOK)
@reporting
def verify(job: JobFile, *, master: Master = None, conf: Conf = None, debug: Debug = False) -> None:
    """
    Compare the view row by row with the query over the upstream, as of the last epoch. Starts Spark.

    Exit code 1 if they differ.
    """
    from airflow_backfill_provider.cli.jobs import unchanged_job
    from airflow_backfill_provider.cli.verifying import verify_job

    backfill, _ = unchanged_job(job)
    with _spark(backfill, "verify", master, conf, debug=debug) as spark:
        equal = verify_job(backfill, spark, _console())
    if not equal:
        say_error(f"the view of job {backfill.job.name} differs from its query over the upstream")
        raise typer.Exit(FAILED)


# ----------------------------------------------------------------------------------------------------------- work


@app.command(rich_help_panel=_WORK)
@reporting
def create(job: JobFile, *, master: Master = None, conf: Conf = None, debug: Debug = False) -> None:
    """
    Create a job and the empty table of its view. Starts Spark.

    Does nothing for a job that was created with the same definition.
    """
    from airflow_backfill_provider import protocol
    from airflow_backfill_provider.cli.jobs import open_job, user

    backfill = open_job(job)
    existed = backfill.store.created()
    with _spark(backfill, "create", master, conf, debug=debug) as spark:
        settings = protocol.create_job(
            backfill.job,
            store=backfill.store,
            upstream=backfill.upstream,
            engine=spark,
            requested_by=user(),
        )
    done = "was created already" if existed else "created"
    typer.echo(f"{backfill.job.name}: {done}, strategy {settings.strategy}, state at {backfill.job.state}")


@app.command(rich_help_panel=_WORK)
@reporting
def run(
    job: JobFile,
    *,
    max_epochs: Annotated[
        int | None,
        typer.Option("--max-epochs", metavar="N", min=1, help="Run at most so many epochs.", show_default="1"),
    ] = None,
    until_finished: Annotated[
        bool,
        typer.Option("--until-finished", help="Run epochs until the view is finished.", show_default=False),
    ] = False,
    master: Master = None,
    conf: Conf = None,
    debug: Debug = False,
) -> None:
    """
    Run the next epoch, or several. Starts Spark, but only if there is something to do.

    With --until-finished it stops with exit code 0 also where the job waits for its user (paused, or
    rate limit 0): pending changes are applied and it says so. Running it twice at once, or again after a crash, is safe.
    """
    from airflow_backfill_provider.cli.jobs import requester, unchanged_job
    from airflow_backfill_provider.cli.runner import Runner
    from airflow_backfill_provider.cli.views import progress_view

    backfill, _ = unchanged_job(job)
    epochs = 1 if max_epochs is None and not until_finished else max_epochs
    with (
        _spark(backfill, "run", master, conf, debug=debug) as spark,
        progress_view(_console()) as view,
    ):
        runner = Runner(backfill=backfill, engine=spark, requester=requester(), view=view)
        runner.run(max_epochs=epochs, until_finished=until_finished)


@app.command(rich_help_panel=_WORK)
@reporting
def rebuild(job: JobFile, *, master: Master = None, conf: Conf = None, debug: Debug = False) -> None:
    """
    Start over, possibly with a changed definition: empties the view. Starts Spark.

    Also the way back from cancel, a replaced upstream, and a gap in its changes.
    """
    from airflow_backfill_provider import protocol
    from airflow_backfill_provider.cli.jobs import created_job, user

    backfill, _ = created_job(job)
    with _spark(backfill, "rebuild", master, conf, debug=debug) as spark:
        protocol.rebuild_job(
            backfill.job,
            store=backfill.store,
            upstream=backfill.upstream,
            engine=spark,
            requested_by=user(),
        )
    typer.echo(f"{backfill.job.name}: rebuilt; its view is empty until the next epoch")


# ---------------------------------------------------------------------------------------------------------- steer


@app.command(rich_help_panel=_STEER)
@reporting
def pause(job: JobFile, *, debug: Debug = False) -> None:  # noqa: ARG001
    """Read no snapshot from the next epoch on. Changes are still applied."""
    from airflow_backfill_provider import protocol
    from airflow_backfill_provider.cli.jobs import created_job, user

    backfill, before = created_job(job)
    settings = protocol.pause_job(store=backfill.store, requested_by=user())
    _say_changed(before, settings, "paused from the next epoch on")


@app.command(rich_help_panel=_STEER)
@reporting
def resume(job: JobFile, *, debug: Debug = False) -> None:  # noqa: ARG001
    """Read the snapshot again from the next epoch on."""
    from airflow_backfill_provider import protocol
    from airflow_backfill_provider.cli.jobs import created_job, user

    backfill, before = created_job(job)
    settings = protocol.resume_job(store=backfill.store, requested_by=user())
    still = "; its rate limit is 0, so it still reads nothing" if settings.rate_limit == 0 else ""
    _say_changed(before, settings, f"resumed from the next epoch on{still}")


@app.command(rich_help_panel=_STEER)
@reporting
def throttle(
    job: JobFile,
    rate_limit: Annotated[
        str, typer.Argument(metavar="N|none", help="Snapshot rows per epoch; 0 reads none, none is unlimited.")
    ],
    *,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Set the rate limit from the next epoch on."""
    limit = options.rate_limit(rate_limit)
    from airflow_backfill_provider import protocol
    from airflow_backfill_provider.cli import text
    from airflow_backfill_provider.cli.jobs import created_job, user

    backfill, before = created_job(job)
    settings = protocol.throttle_job(limit, store=backfill.store, requested_by=user())
    new = "unlimited" if limit is None else f"{text.rows(limit)} per epoch"
    _say_changed(before, settings, f"rate limit is {new} from the next epoch on")


@app.command(rich_help_panel=_STEER)
@reporting
def rescale(
    job: JobFile,
    parallelism: Annotated[int, typer.Argument(metavar="N", min=1, help="Parallel task runs.")],
    *,
    debug: Debug = False,  # noqa: ARG001
) -> None:
    """Change how many task runs share the vnodes. Needs the arrangement strategy."""
    from airflow_backfill_provider.cli.jobs import created_job
    from airflow_backfill_provider.core.errors import InvalidJobError

    _, settings = created_job(job)
    raise InvalidJobError(
        f"job {settings.job['name']} cannot be rescaled to {parallelism}: under {settings.strategy} all vnodes share "
        "one position, so one task run reads them all; only the arrangement strategy, which is not built yet, can "
        "split them"
    )


@app.command(rich_help_panel=_STEER)
@reporting
def cancel(job: JobFile, *, debug: Debug = False) -> None:  # noqa: ARG001
    """Stop a job for good. Its view stays as the last epoch left it."""
    from airflow_backfill_provider import protocol
    from airflow_backfill_provider.cli.jobs import created_job, user

    backfill, before = created_job(job)
    settings = protocol.cancel_job(store=backfill.store, requested_by=user())
    _say_changed(before, settings, "cancelled; rebuild starts it over")


# -------------------------------------------------------------------------------------------------------- helpers


def _say_changed(before: JobSettings, after: JobSettings, what: str) -> None:
    same = " (as before)" if after.sequence == before.sequence else ""
    typer.echo(f"{after.job['name']}: {what}{same}")


def _spark(
    backfill: Backfill, command: str, master: str | None, conf: list[str] | None, *, debug: bool
) -> LazySpark:
    from airflow_backfill_provider.cli.spark import LazySpark

    return LazySpark(
        f"airflow-backfill {command} {backfill.job.name}",
        master=master,
        conf=options.spark_conf(conf or []),
        storage_options=backfill.storage_options,
        debug=debug,
    )


def _console() -> Console:
    from rich.console import Console

    return Console(soft_wrap=True, markup=False, highlight=False)


def _print_json(value: object) -> None:
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
