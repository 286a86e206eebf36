"""
``airflow-backfill COMMAND JOB.yaml [value] [options]``: the command line.

The exit code is 0 if the command succeeded, 1 if it failed (one line on stderr has the reason), 2 after wrong usage,
and 130 if the user interrupted it. Each command imports the heavy modules that it needs, so the help and the commands
without Spark are fast.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from airflow_backfill_provider import __version__
from airflow_backfill_provider.applications.process_end import end_process_with
from airflow_backfill_provider.cli.commands import cut_over, engine, look, mutations, set_up, work
from airflow_backfill_provider.cli.reporting import interrupted

app = typer.Typer(
    name="airflow-backfill",
    epilog="Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. For an object store, put its options as a "
    "JSON object into the environment variable AIRFLOW_BACKFILL_STORAGE_OPTIONS.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    "Work": (work.create, work.run, work.compact, work.forget, work.rebuild, work.revert),
    "Look": (look.plan, look.status, look.watch, look.verify, look.why, cut_over.diff),
    "Change": (
        mutations.pause,
        mutations.resume,
        mutations.throttle,
        mutations.rescale,
        mutations.repair,
        mutations.change,
        cut_over.approve,
        mutations.cancel,
    ),
    "Set up": (
        set_up.fetch_jars,
        set_up.archive_classes,
        set_up.build_log_store,
        set_up.sample,
        set_up.examples,
        set_up.constraints,
    ),
}
for panel, commands in PANELS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.add_typer(engine.app, name="engine", rich_help_panel="Engine")


def main() -> None:
    """Run the command line."""
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(interrupted().exit_code)


def command_line() -> None:
    """Run the command line as a process of its own."""
    end_process_with(main)


def _print_version(value: bool) -> None:  # noqa: FBT001 - a callback of typer
    if value:
        typer.echo(f"airflow-backfill {__version__}")
        raise typer.Exit


@app.callback()
def program(
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", metavar="", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """
    Backfill a materialized view over a changing table, epoch by epoch.

    Each command takes the job's YAML file. Plan the job, create it, run it until its view is finished, and run it again
    whenever the upstream has changed.
    """


if __name__ == "__main__":
    command_line()
