"""Commands that prepare a machine: archive-classes, build-log-store."""

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
def archive_classes(*, debug: Debug = False) -> None:  # noqa: ARG001 - for reporting
    """
    Archive the classes that Spark loads, so that it starts faster on this machine. Takes a minute, and 200 MB.

    Run it once for each installation, and again after Java, Spark or Delta's jars were replaced. Every Spark with a
    local master that this package starts then uses the archive.
    """
    from airflow_backfill_provider.runtime.class_archiver import make_class_archive

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
    from airflow_backfill_provider.runtime import log_store

    jar = output or log_store.default_jar()
    log_store.build(jar)
    console().print(f"built {jar}")
    for name, value in log_store_settings().items():
        console().print(f"start Spark with --conf {name}={value}")
