"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from airflow_backfill_provider.core.errors import InvalidJobError, InvalidRemoteError
from airflow_backfill_provider.core.job.named_key import key_from_text
from airflow_backfill_provider.core.job.rate_limit import AUTO, GREATEST_RATE_LIMIT, RateLimit
from airflow_backfill_provider.core.remote import Remote, is_remote


def _job_file(value: Path) -> Path:
    if not value.is_file():
        raise typer.BadParameter(f"there is no file {value}")
    return value


def rate_limit_of(value: str) -> RateLimit:
    """
    Read a rate limit: a number of rows, ``auto``, or ``none``.

    :raises typer.BadParameter: for anything else.
    """
    if value.lower() == AUTO:
        return AUTO
    if value.lower() == "none":
        return None
    if not (value.isascii() and value.isdecimal()) or int(value) > GREATEST_RATE_LIMIT:
        raise typer.BadParameter(
            f"{value!r} is not a rate limit; give snapshot rows per epoch (0 reads none), auto to follow the measured "
            "speed, or none for unlimited"
        )
    return int(value)


def pace_of(value: str) -> int | None:
    """
    Read a pace: rows per second, or ``none``.

    :raises typer.BadParameter: for anything else.
    """
    if value.lower() == "none":
        return None
    if not (value.isascii() and value.isdecimal()) or not 1 <= int(value) <= GREATEST_RATE_LIMIT:
        raise typer.BadParameter(
            f"{value!r} is not a number of rows; give 1 or more, or none for unlimited",
            param_hint="--max-rows-per-second",
        )
    return int(value)


def key_of(value: str) -> object:
    """
    Read a key: a JSON list with a value for each column, or a single value.

    :raises typer.BadParameter: if the text begins like a JSON list, but is not one.
    """
    try:
        return key_from_text(value)
    except InvalidJobError:
        raise typer.BadParameter(f"{value!r} is not a JSON list", param_hint="--key") from None


def spark_conf(values: list[str] | None) -> dict[str, str]:
    """
    Read Spark configuration written as ``KEY=VALUE``.

    :raises typer.BadParameter: if a value has no ``=``.
    """
    conf = {}
    for value in values or ():
        name, separator, setting = value.partition("=")
        if not separator or not name.strip():
            raise typer.BadParameter(f"{value!r} is not KEY=VALUE", param_hint="--conf")
        conf[name.strip()] = setting
    return conf


def _master(context: typer.Context, value: str | None) -> str | None:
    if value is None or not is_remote(value):
        return value
    try:
        remote = Remote.parse(value)
    except InvalidRemoteError as error:
        raise typer.BadParameter(str(error)) from None
    source = context.get_parameter_source("master")
    if (remote.token or remote.headers) and source is not None and source.name == "COMMANDLINE":
        raise typer.BadParameter(
            "every user of this machine can read a command line; put the token into the environment variable "
            "SPARK_CONNECT_AUTHENTICATE_TOKEN, or the whole address into SPARK_REMOTE"
        )
    return value


DiscardHistory = Annotated[
    bool,
    typer.Option(
        "--discard-history",
        metavar="",
        help="Lose the former rows that the view keeps (keep: deleted or history).",
        show_default=False,
    ),
]
"""Whether former rows that a view keeps may be lost."""

JobFile = Annotated[
    Path,
    typer.Argument(metavar="JOB.yaml", help="The job's definition.", callback=_job_file, show_default=False),
]
Debug = Annotated[
    bool,
    typer.Option(
        "--debug",
        metavar="",
        help="Show tracebacks and the output of Spark and Java, which may quote rows.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", metavar="", help="Print one JSON object.", show_default=False)]
Master = Annotated[
    str | None,
    typer.Option(
        "--master",
        help="Spark's master, or the address of a Spark Connect server (sc://HOST:PORT), or `engine`: the warm engine "
        "of `airflow-backfill engine start`.",
        show_default="this machine, local[*]",
        envvar="SPARK_REMOTE",
        callback=_master,
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="Spark configuration; may be repeated.", show_default=False),
]
