"""Commands that prepare a machine, and those that give a new user something to start with; they take no job."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from airflow_backfill_provider.cli.options import Debug
from airflow_backfill_provider.cli.output import console
from airflow_backfill_provider.cli.reporting import reporting
from airflow_backfill_provider.core.log_store import log_store_settings


@reporting
def fetch_jars(*, debug: Debug = False) -> None:  # noqa: ARG001 - for reporting
    """
    Fetch the jars that Spark needs, once, so that it downloads nothing when it starts.

    These are Delta's jars, those that read PostgreSQL, Kafka and S3, and this package's log store for tables on S3.
    They go into the Python environment, or into the folder that AIRFLOW_BACKFILL_JARS names. Needs the extra spark,
    Java, and a network; DEFAULT_ARTIFACT_REPOSITORY names a mirror.
    """
    from airflow_backfill_provider.applications import jars, log_store

    for wanted in (jars.spark_jars(), jars.s3_jars()):
        present = jars.fetched(wanted)
        count = jars.fetch(wanted) if present is None else present
        done = "fetched" if present is None else "nothing to do:"
        console().print(f"{done} {count} jars for {wanted.user} in {wanted.folder}")
    if not log_store.default_jar().is_file():
        log_store.build(log_store.default_jar())
        console().print(f"built {log_store.default_jar()}")


@reporting
def archive_classes(*, debug: Debug = False) -> None:  # noqa: ARG001 - for reporting
    """
    Archive the classes that Spark loads, so that it starts faster on this machine. Takes a minute, and 200 MB.

    Run it once for each installation, and again after Java, Spark or Delta's jars were replaced. Every Spark with a
    local master that this package starts then uses the archive.
    """
    from airflow_backfill_provider.applications.class_archiver import make_class_archive

    started = time.monotonic()
    archive = make_class_archive()
    seconds = time.monotonic() - started
    console().print(f"archived {archive.stat().st_size >> 20} MiB of classes in {seconds:.0f} s: {archive}")


@reporting
def build_log_store(
    *,
    output: Annotated[
        Path | None,
        typer.Option(metavar="JAR", help="The jar to write.", show_default="beside Delta's jars"),
    ] = None,
    debug: Debug = False,  # noqa: ARG001 - for reporting
) -> None:
    """
    Build the jar with the log store for tables on S3, with which two drivers cannot both win a commit.

    Every Spark that writes to such a table needs the jar, also if it does not run this package.
    """
    from airflow_backfill_provider.applications import log_store

    jar = output or log_store.default_jar()
    log_store.build(jar)
    console().print(f"built {jar}")
    for name, value in log_store_settings().items():
        console().print(f"start Spark with --conf {name}={value}")


@reporting
def examples(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder to write to, such as Airflow's DAGs folder.")
    ],
    *,
    debug: Debug = False,  # noqa: ARG001 - for reporting
) -> None:
    """
    Copy the example DAGs and their job files into a folder.

    A file that is there already stays as it is.
    """
    from airflow_backfill_provider.applications.shipped_files import copy_examples

    for file, is_new in copy_examples(folder):
        console().print(f"{'wrote' if is_new else 'kept '} {file}")


@reporting
def sample(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write to.")],
    *,
    debug: Debug = False,  # noqa: ARG001 - for reporting
) -> None:
    """
    Make a small table of orders and a job over it, to try the other commands with.

    Run it again to insert, update and delete some orders.
    """
    from airflow_backfill_provider.cli.sample import make_sample

    console().print(make_sample(folder))


@reporting
def constraints(*, debug: Debug = False) -> None:  # noqa: ARG001 - for reporting
    """
    Print the versions that are tested together, as a constraints file for pip.

    They are for this Python version. Use them with: pip install --constraint FILE "airflow-backfill-provider[spark]"
    """
    from airflow_backfill_provider.applications.shipped_files import tested_versions

    typer.echo(tested_versions(), nl=False)
