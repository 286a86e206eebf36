"""The end of a command: exit code 0, or another code and one line on stderr."""

from __future__ import annotations

import functools
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import ParamSpec

import typer

FAILED = 1
INTERRUPTED = 130

Command = ParamSpec("Command")


def reporting(command: Callable[Command, None]) -> Callable[Command, None]:
    """Give a command this program's exit codes and error lines; its option ``debug`` adds tracebacks."""

    @functools.wraps(command)
    def reported(*args: Command.args, **kwargs: Command.kwargs) -> None:
        debug = bool(kwargs.get("debug"))
        if not debug:
            _quiet_libraries()
        try:
            command(*args, **kwargs)
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except KeyboardInterrupt:
            raise interrupted() from None
        except BrokenPipeError:
            # The reader closed the pipe; without this, Python would print an error when it flushes at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(FAILED) from None
        except Exception as error:  # noqa: BLE001 - this is where errors end
            if debug:
                traceback.print_exc()
            say_error(_describe(error))
            raise typer.Exit(FAILED) from None

    return reported


def say_error(message: str) -> None:
    """Print one line to stderr."""
    typer.echo(f"airflow-backfill: error: {' '.join(message.split())}", err=True)


def interrupted() -> typer.Exit:
    """Report an interruption by the user, and return the exception that ends the program."""
    typer.echo("airflow-backfill: interrupted; committed epochs stay, run the same command to continue", err=True)
    return typer.Exit(INTERRUPTED)


class _LogLines(logging.Handler):
    """Prints this package's log records as lines of this program, such as one about waiting for another driver."""

    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(f"airflow-backfill: {record.getMessage()}", err=True)


def _quiet_libraries() -> None:
    """Print only this package's log records; Py4J, for example, logs every interrupted call with its stack."""
    warnings.simplefilter("ignore")
    root, ours = logging.getLogger(), logging.getLogger("airflow_backfill_provider")
    if not root.handlers:
        root.addHandler(logging.NullHandler())
    if not any(isinstance(handler, _LogLines) for handler in ours.handlers):
        ours.addHandler(_LogLines())
        ours.setLevel(logging.INFO)


def _describe(error: Exception) -> str:
    from airflow_backfill_provider.core.errors import BackfillError

    if isinstance(error, BackfillError):
        return str(error)
    if type(error).__module__.partition(".")[0] in {"pyspark", "py4j"}:
        return f"{type(error).__name__} (--debug shows where; Spark's message may quote rows)"
    # Some texts, such as Pydantic's, have many lines; the first one has the essence.
    first = next((line for line in str(error).splitlines() if line.strip()), "no message")
    return f"{type(error).__name__}: {first} (--debug shows where)"
