"""Commands of the warm engine: engine start, status, stop. They take no job."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Annotated

import typer

from airflow_backfill_provider.cli.options import AsJson, Conf, Debug, spark_conf
from airflow_backfill_provider.cli.output import console, print_json
from airflow_backfill_provider.cli.reporting import FAILED, reporting, say_error
from airflow_backfill_provider.core.remote import DEFAULT_PORT, Remote

if TYPE_CHECKING:
    from airflow_backfill_provider.applications.local_engine.engine_files import EngineRecord

app = typer.Typer(help="A warm Spark on this machine, so that epochs need not start their own.", no_args_is_help=True)


@app.command()
@reporting
def start(
    *,
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port, for this machine only.")] = DEFAULT_PORT,
    master: Annotated[str, typer.Option(help="The Spark master that runs the epochs.")] = "local[*]",
    memory: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="The maximal heap, such as 4g.", show_default="2g"),
    ] = None,
    conf: Conf = None,
    debug: Debug = False,  # noqa: ARG001 - for reporting
) -> None:
    """
    Start the engine, a Spark Connect server, and wait until it can be used.

    Only programs of this user on this machine can use it. Does nothing if it is already running.
    """
    from airflow_backfill_provider.applications.local_engine.server import start_engine

    settings = spark_conf(conf)
    if memory is not None:
        settings["spark.driver.memory"] = memory
    record, started = start_engine(port=port, master=master, conf=settings, connect=_version)
    if not started:
        typer.echo(f"the engine is already running: {record.remote}, process {record.process.pid}")
        return
    typer.echo(f"the engine is running: {record.remote}, Spark {record.version}, process {record.process.pid}")
    typer.echo("use it:    airflow-backfill run JOB.yaml --master engine")
    typer.echo(
        f"in Airflow: a connection of type Spark Connect with host {record.remote.host} and port {record.port}; a "
        "worker of this user needs no token"
    )
    typer.echo("stop it:   airflow-backfill engine stop")


@app.command()
@reporting
def status(*, as_json: AsJson = False, debug: Debug = False) -> None:  # noqa: ARG001
    """
    Show the engine's address, process and memory, and the processes that use it.

    Exit code 1 if no engine is running.
    """
    from airflow_backfill_provider.applications.local_engine.engine_files import NOT_RUNNING, running_engine

    record = running_engine()
    if as_json:
        print_json({"running": False} if record is None else _described(record))
    elif record is not None:
        _show(record)
    if record is None:
        if not as_json:
            say_error(NOT_RUNNING)
        raise typer.Exit(FAILED)


@app.command()
@reporting
def stop(*, debug: Debug = False) -> None:  # noqa: ARG001
    """
    Stop the engine, and everything that it runs.

    An epoch that is running on it fails; run it again, on any Spark.
    """
    from airflow_backfill_provider.applications.local_engine.server import stop_engine

    record = stop_engine()
    typer.echo("no engine is running" if record is None else f"the engine at {record.remote} is stopped")


def _version(remote: Remote) -> str:
    # If an engine is already running, PySpark is not loaded.
    from airflow_backfill_provider.applications.connect import server_version

    return server_version(remote)


def _described(record: EngineRecord) -> dict[str, object]:
    from airflow_backfill_provider.applications.local_engine import engine_files
    from airflow_backfill_provider.applications.local_engine.clients import clients

    return {
        "running": True,
        "url": str(record.remote),
        "pid": record.process.pid,
        "master": record.master,
        "spark_version": record.version,
        "started_at": record.started_at.isoformat(),
        "uptime_seconds": round((dt.datetime.now(tz=dt.UTC) - record.started_at).total_seconds(), 1),
        "memory_limit": record.memory,
        "memory_bytes": record.process.resident_bytes(),
        "clients": [client.model_dump(mode="json") for client in clients()],
        "log": str(engine_files.log_file()),
        "token_file": str(engine_files.token_file()),
    }


def _show(record: EngineRecord) -> None:
    from airflow_backfill_provider.applications.local_engine import engine_files
    from airflow_backfill_provider.applications.local_engine.clients import clients
    from airflow_backfill_provider.core import text

    now = dt.datetime.now(tz=dt.UTC)
    held = record.process.resident_bytes()
    working = [
        f"{client.what} (process {client.pid}, {text.duration((now - client.since).total_seconds())})"
        for client in clients()
    ]
    lines = {
        "engine": f"{record.remote}, Spark {record.version} on {record.master}",
        "process": f"{record.process.pid}, for {text.duration((now - record.started_at).total_seconds())}",
        "memory": f"{'unknown' if held is None else text.size(held)}, heap at most {record.memory}",
        "used by": "no process" if not working else working[0],
        **{f"{' ' * number}": line for number, line in enumerate(working[1:], start=1)},
        "log": str(engine_files.log_file()),
        "token": str(engine_files.token_file()),
    }
    out = console()
    for name, value in lines.items():
        out.print(f"{name:<12}{value}")
